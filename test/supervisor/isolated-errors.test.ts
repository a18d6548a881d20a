/** An error in one session does not affect the others, and is tried again. */

import { afterAll, describe, expect, test } from "vitest";
import { Holdfast, HoldfastError, landed } from "../../src/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { Sweeper, superviseOnce } from "../../src/supervisor/index.ts";
import { Bench } from "../goal/bench.ts";
import { altered } from "../journal/places.ts";
import { fatal, openBench } from "../ledger/bench.ts";
import { sqliteForTest } from "../stores/conformance/sqlite-subject.ts";

const LEASE_MS = 30_000;

function busy(): HoldfastError {
  return new HoldfastError("STORE_BUSY", "the store is busy", { hint: "Try again." });
}

/** A store whose appends to streams with this prefix fail as long as `isBusy` returns true. */
function sometimesBusy(store: Store, stream: string, isBusy: () => boolean): Store {
  return altered(store, {
    append: async (append, batch) => {
      if (isBusy() && batch.writes.some((write) => write.stream.startsWith(stream))) throw busy();
      return append(batch);
    },
  });
}

async function leaveOpen(holdfast: Holdfast, id: string): Promise<void> {
  const session = await holdfast.session(id, { ttlMs: null });
  const { tool, reached } = fatal({ effects: [] }, "pay");
  session.call({ tool, args: {} }).catch(() => undefined);
  await reached;
}

describe.each([sqliteForTest()])("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("a crash that could not be recorded is found again", async () => {
    const bench = await Bench.open(subject);
    const goal = await bench.goal();
    const dead = await bench.another();
    for (const id of ["a", "b"])
      await new Holdfast(dead).session(id, { ttlMs: null, goal: goal.id, label: "w-1" });
    await bench.crash(dead);
    let failures = 1;
    const store = sometimesBusy(await bench.opened.another(), "goal/", () => failures-- > 0);
    const journal = new Journal({ store, leaseMs: LEASE_MS, now: () => bench.now });
    const sweeper = new Sweeper(journal, { name: "super" });
    const first = await sweeper.sweep();
    expect(first.crashed).toHaveLength(1);
    expect(first.errors).toMatchObject([{ error: { code: "STORE_BUSY" } }]);
    await bench.opened.advanceMs?.(2 * LEASE_MS);
    const second = await sweeper.sweep();
    expect([...first.crashed, ...second.crashed].sort()).toEqual(["a", "b"]);
    await goal.refresh();
    const history = [...goal.state.history.values()].map(({ id, status, agent }) => [id, status, agent]);
    expect(history.sort()).toEqual([
      ["a", "crashed", "w-1"],
      ["b", "crashed", "w-1"],
    ]);
    await bench.dispose();
  });

  test("calls are settled although those of another session cannot be", async () => {
    const bench = await openBench(subject);
    for (const id of ["a", "b", "c"]) await leaveOpen(bench.first.holdfast, id);
    const { holdfast } = await bench.afterCrash();
    const store = sometimesBusy(holdfast.journal.store, "session/b", () => true);
    const verified = { ...fatal({ effects: [] }, "pay").tool, verify: () => landed("paid") };
    const report = await superviseOnce(new Journal({ store, leaseMs: LEASE_MS }), { tools: [verified] });
    expect(report.settled.map(({ session }) => session).sort()).toEqual(["a", "c"]);
    expect(report.errors).toMatchObject([{ error: { code: "STORE_BUSY" } }]);
    await bench.dispose();
  });
});
