// Calls of unknown outcome that a later process settles.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { landed, notYet, type Tool, type Verdict } from "../../src/index.ts";
import { storeSubjects } from "../subjects.ts";
import {
  type Bench,
  callBlock,
  counting,
  fatal,
  openBench,
  type Program,
  script,
  type World,
} from "./bench.ts";

describe.each(storeSubjects())("settling a call again on $name", (subject) => {
  let bench: Bench;
  let world: World;

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  async function killInside(dying: { tool: Tool; reached: Promise<void> }, id = "alpha"): Promise<Program> {
    const session = await bench.first.session(id);
    const model = script([callBlock("c1", dying.tool.name)]);
    session.run({ model, tools: [dying.tool], prompt: "go" }).catch(() => undefined);
    await dying.reached;
    return bench.afterCrash();
  }

  test("makes no attempt in a fork whose effects are off", async () => {
    const { holdfast } = bench.first;
    await (await bench.first.session("origin")).close();
    await holdfast.sessions.fork("origin", "fork", { effects: "live" });
    const next = await killInside(fatal(world, "pay", { idempotent: true }), "fork");
    await next.holdfast.sessions.setEffects("fork", "refused", { by: "ann", why: "must not pay" });
    const session = await next.session("fork");
    const tools = [counting(world, "pay", { idempotent: true })];
    const result = await session.run({ model: script(), tools, prompt: "go" });
    const why = expect.stringContaining("may not start effects");
    expect(result).toMatchObject({ status: "waiting", waiting: [{ callId: "c1", person: true, why }] });
    expect(world.effects).toHaveLength(1);
  });

  test("verifies at once if the clock was set back", async () => {
    const YEAR_MS = 365 * 86_400_000;
    let answer: Verdict<unknown> = notYet({ againInMs: 30_000 });
    const slow = { settleMs: 60_000, verify: () => answer };
    bench.jumpMs(YEAR_MS);
    const next = await killInside(fatal(world, "pay", slow));
    const session = await next.session();
    const tools = [counting(world, "pay", slow)];
    expect((await session.settle(tools)).settled).toEqual([]);
    answer = landed("paid");
    expect((await session.settle(tools)).settled, "not before it is due").toEqual([]);
    bench.jumpMs(-YEAR_MS);
    expect((await session.settle(tools)).settled).toEqual(["c1"]);
    expect(world.effects).toHaveLength(1);
  });

  test("repeats an idempotent call only while the vendor still knows its key, under a new token", async () => {
    const forMs = 60_000;
    const spec = { idempotent: { forMs } };
    const next = await killInside(fatal(world, "pay", spec));
    bench.passMs(forMs - 1);
    const again = fatal(world, "pay", spec);
    const session = await next.session();
    const before = session.openCalls[0]?.token ?? 0;
    session.settle([again.tool]).catch(() => undefined);
    await again.reached;
    const [during] = session.openCalls;
    expect(during).toMatchObject({ attempt: 2 });
    expect(during?.token).toBeGreaterThan(before);
    const last = await bench.afterCrash();
    bench.passMs(1);
    const final = await last.session();
    await final.settle([counting(world, "pay", spec)]);
    expect(final.openCalls).toMatchObject([{ callId: "c1", status: "waiting" }]);
    expect(world.effects).toHaveLength(2);
  });

  test("keeps the last answer of verify when a person is asked", async () => {
    const verify = () => {
      throw new Error("the bank is closed");
    };
    const next = await killInside(fatal(world, "pay", { verify }));
    const session = await next.session();
    const tools = [counting(world, "pay", { verify })];
    for (let tries = 0; tries < 10 && session.openCalls[0]?.status !== "waiting"; tries++) {
      await session.settle(tools);
      bench.passMs(3_600_000);
    }
    const [call] = session.openCalls;
    expect(call).toMatchObject({
      status: "waiting",
      verify: { answer: "error", detail: "the bank is closed" },
    });
    expect(call?.why).toContain(`the bank is closed`);
    expect(call?.verify?.errors).toBe(3);
  });

  test("of two global keys in one message, only the one that another session has is repeated", async () => {
    const charge = counting(world, "charge", { dedupe: "global" });
    const one = await bench.first.session("one");
    const two = await bench.first.session("two");
    await one.run({
      model: script([callBlock("c1", "charge", { order: 7 })]),
      tools: [charge],
      prompt: "go",
    });
    const both = [callBlock("x1", "charge", { order: 8 }), callBlock("x2", "charge", { order: 7 })];
    const result = await two.run({ model: script(both), tools: [charge], prompt: "go" });
    expect(world.effects).toEqual(['charge {"order":7}', 'charge {"order":8}']);
    expect(result.replayed).toEqual(["x2"]);
    expect(two.messages.at(-2)?.blocks).toMatchObject([{ callId: "x1" }, { meta: { repeats: "c1" } }]);
  });

  describe("with a verify that answers notYet", () => {
    const slow = { settleMs: 10_600, verify: () => notYet({ againInMs: 10_500 }) };
    const look = async (program: Program): Promise<string[]> => {
      const session = await program.session();
      const { settled } = await session.settle([counting(world, "pay", slow)]);
      await session.close();
      return settled;
    };

    test("settles after settleMs, although the session was released in between", async () => {
      const next = await killInside(fatal(world, "pay", slow));
      expect(await look(next)).toEqual([]);
      bench.passMs(10_600);
      expect(await look(next)).toEqual(["c1"]);
      expect(world.effects, "the first attempt had no effect in all that time").toHaveLength(2);
    });

    test("restarts settleMs if another owner came in between", async () => {
      const next = await killInside(fatal(world, "pay", slow));
      expect(await look(next)).toEqual([]);
      bench.passMs(10_600);
      await (await (await bench.another()).session()).close();
      expect(await look(next)).toEqual([]);
      expect(world.effects).toHaveLength(1);
    });
  });

  describe("by owners that leave before settleMs", () => {
    const MINUTE_MS = 60_000;
    const spec = (settle: { settleMs?: number }) => ({
      ...settle,
      verify: () => notYet({ againInMs: 45_000 }),
    });
    /**
     * Starts one program after another, each this long after the last, until a person is asked. Returns the
     * total time.
     */
    async function looks(first: Program, settle: object, passMs: () => void): Promise<number> {
      let program = first;
      for (let look = 0; look < 60; look++) {
        const session = await program.session();
        await session.settle([counting(world, "pay", spec(settle))]);
        const [call] = session.openCalls;
        await session.close();
        if (call?.status === "waiting") return look;
        passMs();
        program = await bench.another();
      }
      throw new Error("nobody was ever asked");
    }

    test("asks a person after a minute without settleMs", async () => {
      const next = await killInside(fatal(world, "pay", spec({})));
      expect(await looks(next, {}, () => bench.passMs(50_000))).toBe(2);
      expect(world.effects).toHaveLength(1);
    });

    test("asks a person after many times settleMs, and makes no attempt", async () => {
      const settle = { settleMs: 2 * MINUTE_MS };
      const next = await killInside(fatal(world, "pay", spec(settle)));
      expect(await looks(next, settle, () => bench.passMs(MINUTE_MS))).toBe(20);
      expect(world.effects).toHaveLength(1);
    });

    test("makes no attempt if the clock is set forward", async () => {
      const settle = { settleMs: 2 * MINUTE_MS };
      const next = await killInside(fatal(world, "pay", spec(settle)));
      expect(await looks(next, settle, () => bench.jumpMs(1_000 * MINUTE_MS))).toBe(4);
      expect(world.effects).toHaveLength(1);
    });
  });

  test.each([{ patienceMs: 250 }, { deadlineMs: 250 }])(
    "does not wait longer than a run may, however often its tool asks for more time: %j",
    async (limit) => {
      let asked = 0;
      const verify = () => {
        asked += 1;
        return notYet({ againInMs: 100 });
      };
      const next = await killInside(fatal(world, "pay", { settleMs: 60_000, verify }));
      const tools = [counting(world, "pay", { settleMs: 60_000, verify })];
      const result = await (await next.session()).run({ model: script(), tools, prompt: "go", ...limit });
      expect(result).toMatchObject({ status: "waiting", waiting: [{ callId: "c1", person: false }] });
      expect(asked).toBeLessThan(5);
    },
  );
});
