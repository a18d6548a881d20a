/**
 * For integrations: a custom kind of stream on the same log. A kind is one table: for every event its
 * version, its schema and how it changes the state. `commit` decides on the current state. If two writers
 * conflict, one decides again, so no change is lost.
 */

import { event, failpoint, open, type StreamKind } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

interface Stock {
  readonly parts: Map<string, number>;
}

const changed = z.strictObject({ part: z.string(), by: z.int() });

const stock: StreamKind<Stock> = {
  kind: "stock",
  foldVersion: 1,
  events: {
    "stock.changed": event(1, changed, (state: Stock, { part, by }: z.infer<typeof changed>) => {
      state.parts.set(part, (state.parts.get(part) ?? 0) + by);
    }),
  },
  initial: () => ({ parts: new Map() }),
  encode: (state) => [...state.parts],
  decode: (json) => ({ parts: new Map(json as unknown as [string, number][]) }),
};

const holdfast = await open(temporaryFolder());
const { journal } = holdfast;
const [one, two] = await Promise.all([journal.open(stock, "shelf"), journal.open(stock, "shelf")]);

const take = (log: typeof one, part: string, count: number) =>
  log.commit((state) => {
    const there = state.parts.get(part) ?? 0;
    if (there < count) return { events: [], result: false };
    return { events: [{ type: "stock.changed", data: { part, by: -count } }], result: true };
  });

await one.commit(() => ({
  events: [{ type: "stock.changed", data: { part: "bolt", by: 3 } }],
  result: null,
}));
let hints = 0;
const unwatch = journal.watch("stock/shelf", () => hints++);
const taken = await Promise.all([take(one, "bolt", 2), take(two, "bolt", 2)]);
console.log(
  `both want 2 of 3: ${taken
    .map((each) => each.outcome === "ok" && each.result)
    .sort()
    .join(", ")}`,
);
await Promise.all([one.refresh(), two.refresh()]);
console.log(`left: ${one.state.parts.get("bolt")} and ${two.state.parts.get("bolt")}, seq ${one.head.seq}`);
unwatch();

// A named point in your program at which HOLDFAST_FAILPOINT can kill it, to test a crash there.
failpoint("run.done");

const then = await journal.load(stock, "shelf", 1);
console.log(`at seq 1: ${then.state.parts.get("bolt")}`);
const { log, fork } = await journal.fork(stock, "shelf", 1, "shelf-b");
await log.commit(() => ({
  events: [{ type: "stock.changed", data: { part: "nut", by: 7 } }],
  result: null,
  fork,
}));
for await (const [seq, { type, data }] of journal.events("stock/shelf-b")) {
  console.log(`shelf-b ${seq} ${type} ${JSON.stringify(data)}`);
}
// A program that acts on records reads them verified: a record that was changed on disk is an error.
let recorded = 0;
for await (const events of journal.recorded("stock/shelf-b")) recorded += events.length;
console.log(`recorded and sound: ${recorded}`);
const { rows } = await journal.list<"streams">({ of: "streams", kind: "stock", limit: 10 });
console.log(
  `streams: ${rows
    .map((row) => row.stream)
    .sort()
    .join(", ")}`,
);
const elsewhere = await journal.inNamespace("acme").open(stock, "shelf");
await elsewhere.commit(() => ({
  events: [{ type: "stock.changed", data: { part: "bolt", by: 1 } }],
  result: null,
}));
console.log(`namespaces: ${(await journal.namespaces()).join(", ")}`);
console.log(`problems: ${(await journal.check(stock, "stock/shelf")).length}`);
console.log(
  `shelf-b: ${await journal.remove("stock/shelf-b")}, then ${(await journal.row("stock/shelf-b")).state}`,
);
await holdfast.close();
