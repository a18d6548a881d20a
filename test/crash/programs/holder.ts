// Takes a lease, holds it, and appends under it on command. On `gap` it prints the longest time that it could
// not run. Arguments: the store's file, the lease's name, its length.

import { createInterface } from "node:readline";
import { Journal, Lease } from "../../../src/journal/index.ts";
import { openSqlite } from "../../../src/stores/sqlite/index.ts";
import { Gaps } from "../gaps.ts";
import { tallyKind } from "../tally.ts";

const [path = "", name = "", leaseMs = ""] = process.argv.slice(2);
const store = await openSqlite({ path });
const loop = new Gaps();
loop.begin();
setInterval(() => loop.beat(), 10).unref();
const journal = new Journal({ store, leaseMs: Number(leaseMs) });
const lease = await journal.leases.take(name, journal.newId(), { label: "holder", waitMs: 0 });
if (!(lease instanceof Lease)) throw new Error("somebody holds the lease");
const log = await journal.open(tallyKind, "held");
lease.lost.addEventListener("abort", () => process.stdout.write("lost\n"));
process.stdout.write(`holds ${lease.token}\n`);

for await (const id of createInterface(process.stdin)) {
  if (id === "gap") {
    loop.beat();
    process.stdout.write(`gap ${loop.longest}\n`);
    continue;
  }
  const data = { id, batch: id, size: 1, text: "" };
  const events = [{ type: "note", data }];
  const outcome = await log.commit(() => ({ events, result: null, guards: [lease.guard] }));
  process.stdout.write(`${id} ${outcome.outcome}\n`);
}
