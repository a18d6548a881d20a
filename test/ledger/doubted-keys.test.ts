/**
 * After a failure that proves nothing the vendor gets the same key while the charge may have landed. Other
 * calls with that key do not change it.
 */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { DefiniteFailure, never, type Session, type ToolSpec } from "../../src/index.ts";
import { storeSubjects } from "../subjects.ts";
import { type Bench, callBlock, counting, openBench, script } from "./bench.ts";

type Spec = Partial<ToolSpec<Record<string, unknown>, unknown>>;
type Step = (key: string) => unknown;

const HOUR = 3_600_000;

/** The charge lands. The client retries by itself and reports only the result of its second request. */
const looksHarmless: Step = () => {
  throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
};
/** The charge lands, and the answer is lost. */
const hangsUp: Step = () => {
  throw Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
};
const answers: Step = () => "charged";
const NOT_SENT = "circuit open: not sent";

describe.each(storeSubjects())("on $name", (subject) => {
  let bench: Bench;
  /** The keys with which the vendor was asked to charge; it honours keys. */
  let sent: string[];

  beforeEach(async () => {
    bench = await openBench(subject);
    sent = [];
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  /** One step per charge: null for a charge that is certainly not sent. */
  function charge(steps: (Step | null)[], spec: Spec = {}) {
    return counting({ effects: [] }, "charge", {
      ...spec,
      execute: (_args, { key }) => {
        const step = steps.length > 0 ? (steps.shift() as Step | null) : answers;
        if (step === null) throw new DefiniteFailure(NOT_SENT);
        sent.push(key);
        return step(key);
      },
    });
  }

  const ask = (session: Session, tool: ReturnType<typeof charge>, id: string, args: object = {}) =>
    session.call({ tool, callId: id, args: { usd: 5, ...args } });

  describe.each(["session", "global"] as const)("a key of the scope %s", (dedupe) => {
    test.each([
      ["presumed", looksHarmless],
      ["interrupted", hangsUp],
    ] as const)("is the same after a failure that was %s and a certain one", async (_how, fails) => {
      const session = await bench.first.session();
      const tool = charge([fails, null, null], { dedupe, interrupted: "fail" });
      for (const id of ["c1", "c2", "c3"])
        expect(await ask(session, tool, id)).toMatchObject({ status: "failed" });
      expect(await ask(session, tool, "c4")).toMatchObject({ status: "completed" });
      expect(sent).toHaveLength(2);
      expect(new Set(sent).size).toBe(1);
    });

    test("changes after a definite failure, or once a person or verify rules the effect out", async () => {
      const session = await bench.first.session();
      const tool = charge([null], { dedupe });
      await ask(session, tool, "c1");
      const first = (await bench.first.holdfast.sessions.get("alpha")).calls[0]?.vendorKey;
      await ask(session, tool, "c2");
      expect(sent).not.toContain(first);

      const verified = charge([looksHarmless], { dedupe, verify: () => never() });
      const args = { usd: 7 };
      expect(await ask(session, verified, "c3", args)).toMatchObject({ status: "failed" });
      expect(await ask(session, verified, "c4", args)).toMatchObject({ status: "completed" });
      expect(sent.at(-1)).not.toBe(sent.at(-2));

      const answered = charge([looksHarmless, hangsUp], { dedupe });
      const third = { usd: 9 };
      expect(await ask(session, answered, "c5", third)).toMatchObject({ status: "failed" });
      expect(await ask(session, answered, "c6", third)).toMatchObject({ status: "waiting" });
      await bench.first.holdfast.calls.resolve("c6", {
        outcome: "failed",
        by: "ann",
        why: "not in the books",
      });
      expect(await ask(session, answered, "c7", third)).toMatchObject({ status: "completed" });
      expect(sent.at(-2)).toBe(sent.at(-3));
      expect(sent.at(-1)).not.toBe(sent.at(-2));
    });
  });

  test("a global key stays the same in another session that failed definitely in between", async () => {
    const [one, other] = [await bench.first.session(), await bench.first.session("beta")];
    const tool = charge([looksHarmless, null], { dedupe: "global" });
    await ask(one, tool, "c1");
    await ask(other, tool, "c2");
    expect(await ask(one, tool, "c3")).toMatchObject({ status: "completed" });
    expect(sent).toHaveLength(2);
    expect(new Set(sent).size).toBe(1);
  });

  test("a global key that two sessions left in doubt stays the same", async () => {
    const [one, other] = [await bench.first.session(), await bench.first.session("beta")];
    const tool = charge([looksHarmless, hangsUp, looksHarmless], { dedupe: "global", interrupted: "fail" });
    for (const [session, id] of [
      [one, "c1"],
      [other, "c2"],
      [one, "c3"],
    ] as const)
      expect(await ask(session, tool, id)).toMatchObject({ status: "failed" });
    expect(await ask(other, tool, "c4")).toMatchObject({ status: "completed" });
    expect(new Set(sent).size).toBe(1);
  });

  test("the key stays the same in the next process, also from a snapshot", async () => {
    const session = await bench.first.session();
    const tool = charge([looksHarmless, null]);
    await ask(session, tool, "c1");
    await ask(session, tool, "c2");
    const next = await (await bench.afterCrash()).session();
    expect(await ask(next, tool, "c3")).toMatchObject({ status: "completed" });
    expect(new Set(sent).size).toBe(1);
  });

  test("a call with its own key is retried under that key", async () => {
    const session = await bench.first.session();
    const tool = charge([looksHarmless], { dedupe: "call", idempotent: true });
    expect(await ask(session, tool, "c1")).toMatchObject({ status: "completed" });
    expect(sent).toHaveLength(2);
    expect(new Set(sent).size).toBe(1);
  });

  test("againBecause gets the key of the doubted call", async () => {
    const session = await bench.first.session();
    const tool = charge([looksHarmless], { repeatable: true, idempotent: true });
    const again = { usd: 5, againBecause: "the connection was refused" };
    const model = script([callBlock("c1", "charge", { usd: 5 })], [callBlock("c2", "charge", again)]);
    await session.run({ model, tools: [tool], prompt: "pay" });
    expect(sent).toHaveLength(2);
    expect(new Set(sent).size).toBe(1);
    const more = script([callBlock("c3", "charge", { usd: 5, againBecause: "a second order" })]);
    await session.run({ model: more, tools: [tool], prompt: "pay once more" });
    expect(new Set(sent).size).toBe(2);
  });

  test.each([
    ["presumed", looksHarmless],
    ["interrupted", hangsUp],
  ] as const)(
    "v1, v2, v1 whose failure was %s, v1: the last is sent with the third's key, not the first's",
    async (_how, fails) => {
      const session = await bench.first.session();
      const tool = charge([answers, answers, fails], { effect: "write", interrupted: "fail" });
      for (const [id, to] of [
        ["c1", "v1"],
        ["c2", "v2"],
        ["c3", "v1"],
        ["c4", "v1"],
      ] as const)
        await ask(session, tool, id, { to });
      expect(sent).toHaveLength(4);
      expect(sent[3]).toBe(sent[2]);
      expect(sent[3]).not.toBe(sent[0]);
    },
  );

  test("idempotent.forMs counts from the first use of the key, by any call", async () => {
    const session = await bench.first.session();
    await session.describe({ ttlMs: null });
    const stop = new AbortController();
    const isStopped: Step = () => {
      stop.abort(new Error("stopped"));
      return hangsUp("");
    };
    const tool = charge([looksHarmless, isStopped], { idempotent: { forMs: 24 * HOUR } });
    await ask(session, tool, "c1");
    bench.passMs(23.5 * HOUR);
    await session.call({ tool, callId: "c2", args: { usd: 5 }, signal: stop.signal }).catch(() => undefined);
    const next = await (await bench.afterCrash()).session();
    bench.passMs(HOUR);
    expect(await ask(next, tool, "c2")).toMatchObject({ status: "waiting" });
    expect(sent).toHaveLength(2);
  });
});
