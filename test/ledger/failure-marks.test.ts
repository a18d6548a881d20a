// A global key counts its definite failures over all sessions. The next call to fail takes the next number,
// however many others were taken while it ran.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { DefiniteFailure, type Tool } from "../../src/index.ts";
import { sessionCore } from "../../src/session/index.ts";
import { storeSubjects } from "../subjects.ts";
import { type Bench, callBlock, counting, openBench, script, type World } from "./bench.ts";

describe.each(storeSubjects())("failures of a global key on $name", (subject) => {
  let bench: Bench;
  let world: World;
  let keys: string[];

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
    keys = [];
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  const declined = (): Tool =>
    counting(world, "charge", {
      dedupe: "global",
      execute: (_args, { key }) => {
        keys.push(key);
        throw new DefiniteFailure("card declined");
      },
    });

  test("after a failure elsewhere between two waves of one message the vendor gets a new key", async () => {
    const charge = declined();
    const other = await bench.first.session("other");
    const slow = counting(world, "slow", {
      execute: async () => void (await other.call({ tool: charge, args: { order: 1 } })),
    });
    const session = await bench.first.session();
    const model = script([callBlock("c1", "slow"), callBlock("c2", "charge", { order: 1 })], "declined");
    const result = await session.run({ model, tools: [slow, charge], prompt: "go", parallel: 1 });
    expect(result).toMatchObject({ status: "done", text: "declined" });
    expect(new Set(keys).size).toBe(2);
  });

  /** Starts a call that was counted before another session failed with its key. */
  async function outrun(execute: () => Promise<unknown>) {
    const session = await bench.first.session();
    const { own } = sessionCore(session);
    const other = await bench.first.session("other");
    // Only the commit lies between the count and the intent.
    const commit = own.commit.bind(own);
    let before: (() => Promise<unknown>) | null = () => other.call({ tool: declined(), args: { order: 1 } });
    own.commit = async (decide) => {
      const act = before;
      before = null;
      await act?.();
      return commit(decide);
    };
    const charge = counting(world, "charge", { dedupe: "global", execute });
    return session.call({ tool: charge, args: { order: 1 }, callId: "c1" });
  }

  const reset = () => Promise.reject(new Error("connection reset"));

  test("a person's failed is recorded, and frees the key", async () => {
    expect(await outrun(reset)).toMatchObject({ status: "waiting" });
    const { holdfast } = bench.first;
    await holdfast.calls.resolve(
      { session: "alpha", callId: "c1" },
      { outcome: "failed", by: "ann", why: "declined" },
    );
    const { calls } = await holdfast.sessions.get("alpha");
    expect(calls).toMatchObject([{ callId: "c1", status: "failed", settledBy: "person", by: "ann" }]);
    const third = await bench.first.session("third");
    const charge = counting(world, "charge", {
      dedupe: "global",
      execute: (_args, { key }) => keys.push(key),
    });
    expect(await third.call({ tool: charge, args: { order: 1 } })).toMatchObject({ status: "completed" });
    expect(new Set(keys).size).toBe(2);
  });

  test("the tool's own failure is recorded, and counts", async () => {
    expect(await outrun(reset)).toMatchObject({ status: "waiting" });
    const retry = { outcome: "retry", by: "ann", why: "try again" } as const;
    await bench.first.holdfast.calls.resolve({ session: "alpha", callId: "c1" }, retry);
    const next = await (await bench.afterCrash()).session();
    expect((await next.settle([declined()])).open).toEqual([]);
    expect(keys).toHaveLength(2);
    expect(await next.call({ tool: declined(), args: { order: 1 } })).toMatchObject({ status: "failed" });
    expect(new Set(keys).size).toBe(2);
  });

  test("a synchronous failure is recorded", async () => {
    const outcome = await outrun(() => Promise.reject(new DefiniteFailure("declined")));
    expect(outcome).toMatchObject({ status: "failed", error: { message: "declined" } });
  });

  test("a zombie's own failure is recorded, too", async () => {
    let reached: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      reached = resolve;
    });
    let decline: () => void = () => undefined;
    const running = outrun(
      () =>
        new Promise((_resolve, reject) => {
          decline = () => reject(new DefiniteFailure("declined"));
          reached();
        }),
    );
    await begun;
    const next = await bench.afterCrash();
    await next.session();
    decline();
    await expect(running).rejects.toMatchObject({ code: "LEASE_LOST" });
    const { calls } = await next.holdfast.sessions.get("alpha");
    expect(calls).toMatchObject([{ callId: "c1", status: "failed", settledBy: "late" }]);
  });

  test("a direct call whose key was freed meanwhile runs", async () => {
    const session = await bench.first.session();
    const other = await bench.first.session("other");
    let reached: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      reached = resolve;
    });
    let decline: () => void = () => undefined;
    const open = counting(world, "charge", {
      dedupe: "global",
      execute: () =>
        new Promise((_resolve, reject) => {
          decline = () => reject(new DefiniteFailure("declined"));
          reached();
        }),
    });
    const first = other.call({ tool: open, args: { order: 1 } });
    await begun;
    const { own } = sessionCore(session);
    const commit = own.commit.bind(own);
    own.commit = async (decide) => {
      const outcome = await commit(decide);
      // Rejected, because the other call holds the key. By the time its outcome is read, that call has
      // failed.
      if (outcome.outcome === "taken") {
        decline();
        await first;
      }
      return outcome;
    };
    const outcome = await session.call({ tool: declined(), args: { order: 1 } });
    expect(outcome).toMatchObject({ status: "failed", error: { message: "card declined" } });
  });
});
