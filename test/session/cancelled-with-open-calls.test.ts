/** A session is cancelled with a call in doubt: a person can still resolve the call. */

import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Session } from "../../src/index.ts";
import { type Bench, callBlock, counting, fatal, openBench, type Program, script } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

describe.each(storeSubjects())("on $name", (subject) => {
  const ann = { by: "ann", why: "seen it" };
  let bench: Bench;
  let session: Session;
  const world = { effects: [] };

  beforeEach(async () => {
    bench = await openBench(subject);
    session = await bench.first.session();
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  async function inDoubt(): Promise<{ ended: Promise<unknown> }> {
    const { tool, reached } = fatal(world, "pay");
    const ended = session.run({ model: script([callBlock("c1", "pay")]), tools: [tool], prompt: "go" });
    ended.catch(() => undefined);
    await reached;
    return { ended };
  }

  const statusOf = async ({ holdfast }: Program): Promise<string | undefined> =>
    (await holdfast.calls.list()).calls[0]?.status;

  test("after a crash: the call waits for a person and accepts the answer", async () => {
    await inDoubt();
    const next = await bench.afterCrash();
    const { calls, sessions } = next.holdfast;
    await sessions.cancel("alpha", ann);
    expect(await statusOf(next)).toBe("waiting");
    await calls.resolve("c1", { outcome: "landed", result: 1, ...ann });
    expect((await sessions.get("alpha")).calls).toMatchObject([{ status: "completed", settledBy: "person" }]);
  });

  test("the answer reports that the session does not continue", async () => {
    await inDoubt();
    const { calls, sessions } = (await bench.afterCrash()).holdfast;
    await sessions.cancel("alpha", ann);
    expect(await calls.resolve("c1", { outcome: "failed", ...ann })).toMatchObject({ goesOn: false });
  });

  test("a stale session that rejects an opener still counts as crashed", async () => {
    await session.describe({ ttlMs: 1_000 });
    await inDoubt();
    const { holdfast } = await bench.afterCrash();
    bench.passMs(5_000);
    const opened = () => holdfast.session("alpha", { ifHeld: "throw" });
    await expect(opened()).rejects.toMatchObject({ code: "STATE_STALE" });
    await expect(opened(), "no process holds it").rejects.toMatchObject({ code: "STATE_STALE" });
    expect((await holdfast.superviseOnce()).crashed).toEqual(["alpha"]);
  });

  test("a stale session rejects an opener before it takes the lease", async () => {
    await session.describe({ ttlMs: 1_000 });
    await inDoubt();
    const { holdfast } = await bench.afterCrash();
    bench.passMs(5_000);
    const lease = vi.spyOn(holdfast.journal.store, "lease");
    const opened = holdfast.session("alpha", { ifHeld: "throw" });
    await expect(opened).rejects.toMatchObject({ code: "STATE_STALE" });
    expect(lease.mock.calls.filter(([act]) => act.act === "take")).toEqual([]);
  });

  test("of a living process: the call is left to it, and resolved after its release", async () => {
    const { ended } = await inDoubt();
    const other = await bench.another();
    await other.holdfast.sessions.cancel("alpha", ann);
    expect(await ended).toMatchObject({ status: "paused", reason: "cancelled" });
    expect(await statusOf(other)).toBe("unknown");
    await session.close();
    expect(await statusOf(other)).toBe("waiting");
    await other.holdfast.calls.resolve("c1", { outcome: "failed", ...ann });
    expect((await other.holdfast.sessions.get("alpha")).calls).toMatchObject([{ status: "failed" }]);
  });

  test("of a process that died: a supervisor lets the call wait for a person", async () => {
    const { ended } = await inDoubt();
    const other = await bench.another();
    await other.holdfast.sessions.cancel("alpha", ann);
    await ended;
    const next = await bench.afterCrash();
    expect(await statusOf(next)).toBe("unknown");
    await next.holdfast.superviseOnce();
    expect(await statusOf(next)).toBe("waiting");
  });

  test("no call waits for a person twice, nor after it was settled", async () => {
    await session.run({
      model: script([callBlock("c0", "note")], "done"),
      tools: [counting(world, "note")],
      prompt: "first",
    });
    await inDoubt();
    const next = await bench.afterCrash();
    const { sessions, journal } = next.holdfast;
    for (let times = 0; times < 2; times++) await sessions.cancel("alpha", ann);
    const types: string[] = [];
    for await (const [, { type }] of journal.events("session/alpha", 0)) types.push(type);
    expect(types.filter((type) => type === "call.waiting")).toHaveLength(1);
    expect(types.filter((type) => type === "session.status")).toHaveLength(1);
  });
});
