// Counts in one stream together with others. A step that was decided on an old state would repeat a number.
// Arguments: the store's file, our name, the duration.

import { once } from "node:events";
import { Journal, Lease } from "../../../src/journal/index.ts";
import type { AppendOutcome, Store } from "../../../src/store.ts";
import { openSqlite } from "../../../src/stores/sqlite/index.ts";
import { counterKind } from "../counter-kind.ts";
import { Gaps } from "../gaps.ts";

const [path = "", me = "", lastsMs = ""] = process.argv.slice(2);
const LEASE_MS = 240;

const outcomes: Record<string, number> = {};
const renewals = new Gaps();
const loop = new Gaps();

const store = observed(await openSqlite({ path }));
const journal = new Journal({ store, leaseMs: LEASE_MS });
const log = await journal.open(counterKind, "shared");
process.stdout.write("ready\n");
await once(process.stdin, "data");
process.stdin.unref();

const lease = await journal.leases.take(`counter/${me}`, me, { label: me, waitMs: 0 });
if (!(lease instanceof Lease)) throw new Error("somebody holds the lease");
renewals.begin();
loop.begin();
const probe = setInterval(() => loop.beat(), 5);

let acknowledged = 0;
for (const end = performance.now() + Number(lastsMs); performance.now() < end; ) {
  const outcome = await log.commit((state) => ({
    events: [{ type: "counted", data: { by: me, total: state.total + 1 } }],
    result: null,
  }));
  if (outcome.outcome !== "ok") throw new Error(`commit answered ${outcome.outcome}`);
  acknowledged += 1;
}

clearInterval(probe);
const isLost = lease.lost.aborted;
await lease.release();
await store.close();
const counts = { acknowledged, outcomes, isLost, beats: renewals.count, beatEveryMs: LEASE_MS / 3 };
const gaps = { beatGapMs: renewals.longestOwn, loopGapMs: loop.longestOwn, waitMs: loop.longestWait };
process.stdout.write(`done ${JSON.stringify({ ...counts, ...gaps })}\n`);
process.exit(0);

/** Counts outcomes of appends, and records when heartbeats are sent and answered. */
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
  const ask = async (request: Parameters<Store["lease"]>[0]) => {
    const answer = await target.lease(request);
    if (request.act === "renew") renewals.beat();
    return answer;
  };
  return new Proxy(target, {
    get(_, name) {
      if (name === "append") return append;
      if (name === "lease") return ask;
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
