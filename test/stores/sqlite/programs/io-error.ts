// Appends, syncs a marker file that a trace can show, appends again, and resends that batch if it failed.
// Prints every outcome.

import { closeSync, fsyncSync, openSync } from "node:fs";
import { openSqlite } from "../../../../src/stores/sqlite/index.ts";
import { batchOf, headSeq, write } from "../acts.ts";

const [path = "", marker = ""] = process.argv.slice(2);

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
const neighbour = batchOf(write("session/b", 0, ["neighbour"]));
await Promise.all([
  attempt("second", () => store.append(batch)),
  attempt("neighbour", () => store.append(neighbour)),
]);
await attempt("again", () => store.append(batch));
await attempt("third", () => store.append(batchOf(write("session/a", 2, ["third"]))));
await attempt("head", () => headSeq(store, "session/a"));
process.exit(0);
