// Appends, syncs a marker file that a trace can show, appends again in one flush with neighbours, and resends
// those batches. Prints every outcome.

import { closeSync, fsyncSync, openSync } from "node:fs";
import { openSqlite } from "../../../../src/stores/sqlite/index.ts";
import { batchOf, headSeq, write } from "../acts.ts";

const [path = "", marker = "", together = "2"] = process.argv.slice(2);

function tell(what: object): void {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

async function attempt(step: string, act: () => unknown): Promise<void> {
  try {
    tell({ step, result: await act() });
  } catch (error) {
    const { code, unknown, message } = error as { code: string; unknown: boolean; message: string };
    tell({ step, code, unknown, message });
  }
}

const store = await openSqlite({ path });
await attempt("first", () => store.append(batchOf(write("session/a", 0, ["first"]))));
const descriptor = openSync(marker, "w");
fsyncSync(descriptor);
closeSync(descriptor);
const batch = batchOf(write("session/a", 1, ["second"]));
const neighbours = Array.from({ length: Number(together) - 1 }, (_, index) => {
  return batchOf(write(`session/neighbour-${index + 1}`, 0, ["neighbour"]));
});
// Neighbours first: an act of another submitter opens a group, which the rest joins before it is flushed.
await Promise.all([
  ...neighbours.map((each, index) => attempt(`neighbour ${index + 1}`, () => store.append(each))),
  attempt("second", () => store.append(batch)),
]);
await attempt("again", () => store.append(batch));
for (const [index, each] of neighbours.entries()) {
  await attempt(`neighbour ${index + 1} again`, () => store.append(each));
}
await attempt("third", () => store.append(batchOf(write("session/a", 2, ["third"]))));
await attempt("head", () => headSeq(store, "session/a"));
process.exit(0);
