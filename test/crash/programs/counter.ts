// Counts in one stream together with others. A step that was decided on an old state would repeat a number.
// It counts on until it is told to stop, so that the other process has company all the time.
// Arguments: the store's file, our name.

import { createInterface } from "node:readline";
import { Journal, Lease } from "../../../src/journal/index.ts";
import type { AppendOutcome, Store } from "../../../src/store.ts";
import { openSqlite } from "../../../src/stores/sqlite/index.ts";
import { counterKind } from "../counter-kind.ts";

const [path = "", me = ""] = process.argv.slice(2);
/** Nothing takes the lease, and it outlives every pause of the machine. */
const LEASE_MS = 3_600_000;
const BEAT_EVERY_MS = 5;
/** Streams of our own, so that the store's queue is never empty. */
const PRIVATE_STREAMS = 3;
const ENOUGH = { acknowledged: 100, conflicts: 20, beats: 20 };

const outcomes: Record<string, number> = {};
let acknowledged = 0;
let beats = 0;
let longestWait = 0;
let isStopped = false;

const store = observed(await openSqlite({ path }));
const journal = new Journal({ store, leaseMs: LEASE_MS });
const orders = createInterface(process.stdin)[Symbol.asyncIterator]();
process.stdout.write("ready\n");
await orders.next();

const lease = await journal.leases.take(`counter/${me}`, me, { label: me, waitMs: 0 });
if (!(lease instanceof Lease)) throw new Error("another owner holds the lease");
const privates = Array.from({ length: PRIVATE_STREAMS }, (_, index) => count(`${me}-${index}`, () => {}));
const shared = count("shared", () => {
  acknowledged += 1;
});
const beating = keepBeating(lease);
await orders.next();
isStopped = true;
await Promise.all([shared, beating, ...privates]);

const isLost = lease.lost.aborted;
await lease.release();
await store.close();
process.stdout.write(`done ${JSON.stringify({ acknowledged, outcomes, isLost, longestWait })}\n`);
process.exit(0);

async function count(stream: string, counted: () => void): Promise<void> {
  const log = await journal.open(counterKind, stream);
  while (!isStopped) {
    const outcome = await log.commit((state) => ({
      events: [{ type: "counted", data: { by: me, total: state.total + 1 } }],
      result: null,
    }));
    if (outcome.outcome !== "ok") throw new Error(`commit answered ${outcome.outcome}`);
    counted();
  }
}

/** Renews by a timer. `longestWait` is in commits, because milliseconds would measure the machine. */
async function keepBeating(held: Lease): Promise<void> {
  let isEnough = false;
  while (!isStopped) {
    await new Promise((resolve) => setTimeout(resolve, BEAT_EVERY_MS));
    const before = acknowledged;
    await journal.leases.confirm(held);
    longestWait = Math.max(longestWait, acknowledged - before);
    beats += 1;
    const { conflict = 0 } = outcomes;
    const has = acknowledged >= ENOUGH.acknowledged && conflict >= ENOUGH.conflicts && beats >= ENOUGH.beats;
    if (has && !isEnough) process.stdout.write("enough\n");
    isEnough ||= has;
  }
}

/** Counts the outcomes of appends. */
function observed(target: Store): Store {
  const append = async (batch: Parameters<Store["append"]>[0]): Promise<AppendOutcome> => {
    const name = (outcome: string) => {
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    };
    try {
      const outcome = await target.append(batch);
      name(outcome.outcome);
      return outcome;
    } catch (error) {
      name(String(error));
      throw error;
    }
  };
  return new Proxy(target, {
    get(_, name) {
      if (name === "append") return append;
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
