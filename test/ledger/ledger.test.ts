import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { DefiniteFailure, landed, never, notYet, type Tool, tool, unsure } from "../../src/index.ts";
import { skipWaits } from "../skip-waits.ts";
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

describe.each(storeSubjects())("the ledger on $name", (subject) => {
  let bench: Bench;
  let world: World;

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  /** Kills the program inside `dying` and returns the next one. */
  async function killInside(
    dying: { tool: Tool; reached: Promise<void> },
    ...others: Tool[]
  ): Promise<Program> {
    const session = await bench.first.session();
    const name = dying.tool.name;
    const calls = [
      callBlock("c1", name, { n: 1 }),
      ...others.map((each, index) => callBlock(`o${index}`, each.name)),
    ];
    const run = session.run({ model: script(calls), tools: [dying.tool, ...others], prompt: "go" });
    run.catch(() => undefined);
    await dying.reached;
    return bench.afterCrash();
  }

  test("an intent is durable before its effect starts", async () => {
    const session = await bench.first.session();
    const other = await bench.another();
    let seen: string[] = [];
    const look = counting(world, "charge", {
      execute: async () => {
        seen = (await other.holdfast.calls.list()).calls.map((call) => `${call.callId} ${call.status}`);
        return "ok";
      },
    });
    await session.run({ model: script([callBlock("c1", "charge")]), tools: [look], prompt: "go" });
    expect(seen).toEqual(["c1 issued"]);
  });

  test("a completed call never runs again, and its repeat says so", async () => {
    const session = await bench.first.session();
    const tools = [counting(world, "mail")];
    const model = script(
      [callBlock("c1", "mail", { to: "a" })],
      [callBlock("c2", "mail", { to: "a" })],
      "sent",
    );
    const result = await session.run({ model, tools, prompt: "go" });
    expect(world.effects).toEqual(['mail {"to":"a"}']);
    expect(result).toMatchObject({ status: "done", text: "sent", replayed: ["c2"] });
    const block = session.messages.at(-2)?.blocks[0];
    expect(block).toMatchObject({ kind: "tool_result", callId: "c2", meta: { repeats: "c1" } });
    expect((block as { content: string }).content).toMatch(/^\[not run again: this repeats call c1, done 20/);
  });

  test("identical calls in one message run once", async () => {
    const session = await bench.first.session();
    const blocks = [callBlock("c1", "mail"), callBlock("c2", "mail"), callBlock("c3", "mail")];
    const result = await session.run({
      model: script(blocks),
      tools: [counting(world, "mail")],
      prompt: "go",
    });
    expect(world.effects).toHaveLength(1);
    expect(result.replayed).toEqual(["c2", "c3"]);
  });

  test("a write is a repeat only without other effects since: v1, v2, v1 writes three times", async () => {
    const session = await bench.first.session();
    const tools = [counting(world, "write", { effect: "write" })];
    const write = (id: string, text: string) => [callBlock(id, "write", { text })];
    const model = script(write("1", "v1"), write("2", "v1"), write("3", "v2"), write("4", "v1"));
    await session.run({ model, tools, prompt: "go" });
    expect(world.effects).toEqual(['write {"text":"v1"}', 'write {"text":"v2"}', 'write {"text":"v1"}']);
  });

  test("dedupe per call runs every time; a custom key decides which calls are the same", async () => {
    const session = await bench.first.session();
    const each = counting(world, "each", { dedupe: "call" });
    const order = counting(world, "order", {
      dedupe: { scope: "session", key: (args) => String(args["id"]) },
    });
    const model = script(
      [callBlock("1", "each", { a: 1 }), callBlock("2", "each", { a: 1 })],
      [callBlock("3", "order", { id: 7, note: "x" }), callBlock("4", "order", { id: 7, note: "y" })],
    );
    await session.run({ model, tools: [each, order], prompt: "go" });
    expect(world.effects).toEqual(['each {"a":1}', 'each {"a":1}', 'order {"id":7,"note":"x"}']);
  });

  test("a global key runs once over all sessions, and all of them read its result", async () => {
    const charge = counting(world, "charge", { dedupe: "global" });
    const one = await bench.first.session("one");
    const two = await bench.first.session("two");
    await one.run({
      model: script([callBlock("c1", "charge", { order: 7 })]),
      tools: [charge],
      prompt: "go",
    });
    const result = await two.run({
      model: script([callBlock("x1", "charge", { order: 7 })]),
      tools: [charge],
      prompt: "go",
    });
    expect(world.effects).toHaveLength(1);
    expect(result.replayed).toEqual(["x1"]);
    expect(two.messages.at(-2)?.blocks[0]).toMatchObject({ meta: { repeats: "c1" } });
  });

  test("a global key outlives the session that claimed it", async () => {
    const charge = counting(world, "charge", { dedupe: "global" });
    const one = await bench.first.session("one");
    await one.run({ model: script([callBlock("c1", "charge")]), tools: [charge], prompt: "go" });
    await one.close();
    await bench.first.holdfast.sessions.prune({ keep: 0 });
    const two = await bench.first.session("two");
    await two.run({ model: script([callBlock("x1", "charge")]), tools: [charge], prompt: "go" });
    expect(world.effects).toHaveLength(1);
    expect(JSON.stringify(two.messages)).toContain("a session that was removed did this already");
  });

  test("a throw is not a failure: without a verify it waits for a person and is not retried", async () => {
    const session = await bench.first.session();
    const flaky = counting(world, "pay", {
      execute: (args) => {
        world.effects.push(`pay ${JSON.stringify(args)}`);
        throw new Error("socket hang up");
      },
    });
    const result = await session.run({
      model: script([callBlock("c1", "pay")]),
      tools: [flaky],
      prompt: "go",
    });
    expect(result).toMatchObject({ status: "waiting", waiting: [{ callId: "c1", person: true }] });
    expect(result.waiting[0]?.why).toContain("socket hang up");
    expect(world.effects).toHaveLength(1);
    const again = await session.run({ model: script(), tools: [flaky], prompt: "go" });
    expect(again.status).toBe("waiting");
    expect(world.effects).toHaveLength(1);
  });

  test.each([
    ["DefiniteFailure", "another", () => new DefiniteFailure("card declined")],
    [
      "connection refused",
      "the same",
      () => Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } }),
    ],
    ["name not found", "the same", () => Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND" })],
    ["HTTP 422", "the same", () => Object.assign(new Error("unprocessable"), { status: 422 })],
    ["HTTP 429", "the same", () => Object.assign(new Error("slow down"), { response: { status: 429 } })],
  ])(
    "%s fails the call, and the next one with the same key runs with %s vendor key",
    async (_name, which, error) => {
      const session = await bench.first.session();
      const keys: string[] = [];
      const pay = counting(world, "pay", {
        execute: (_args, { key }) => {
          keys.push(key);
          if (keys.length === 1) throw error();
          return "paid";
        },
      });
      const model = script([callBlock("c1", "pay")], [callBlock("c2", "pay")]);
      const result = await session.run({ model, tools: [pay], prompt: "go" });
      expect(result.status).toBe("done");
      expect(keys).toHaveLength(2);
      expect(keys[0] === keys[1]).toBe(which === "the same");
    },
  );

  test.each([408, 409, 500, 503])("HTTP %i leaves the outcome unknown", async (status) => {
    const session = await bench.first.session();
    const pay = counting(world, "pay", {
      execute: () => Promise.reject(Object.assign(new Error("?"), { status })),
    });
    const result = await session.run({ model: script([callBlock("c1", "pay")]), tools: [pay], prompt: "go" });
    expect(result.status).toBe("waiting");
  });

  test("bad input and unknown tools fail before anything is issued", async () => {
    const session = await bench.first.session();
    const strict = tool({
      name: "strict",
      description: "",
      input: z.object({ amount: z.number() }),
      effect: "mutate",
      execute: () => world.effects.push("strict"),
    });
    const blocks = [callBlock("c1", "strict", { amount: "ten" }), callBlock("c2", "nope")];
    const result = await session.run({ model: script(blocks), tools: [strict], prompt: "go" });
    expect(result.status).toBe("done");
    expect(world.effects).toEqual([]);
    const text = JSON.stringify(session.messages.at(-2));
    expect(text).toContain("Invalid input for strict: amount");
    expect(text).toContain("There is no tool");
  });

  describe("after a crash inside a call", () => {
    test("verify: landed completes it with the found result and does not run it again", async () => {
      const verify = () => landed({ id: "pay_1" });
      const next = await killInside(fatal(world, "pay", { verify }));
      const session = await next.session();
      expect(session.resumed).toMatchObject({ interrupted: ["c1"] });
      const result = await session.run({
        model: script("ok"),
        tools: [counting(world, "pay", { verify })],
        prompt: "go",
      });
      expect(result.status).toBe("done");
      expect(session.resumed?.settled).toEqual(["c1"]);
      expect(world.effects).toHaveLength(1);
      expect(JSON.stringify(session.messages)).toContain("pay_1");
    });

    test("verify: never runs it once more, with the same vendor key", async () => {
      const keys: string[] = [];
      const spec = {
        verify: (_args: unknown, { key }: { key: string }) => {
          keys.push(key);
          return never();
        },
      };
      const next = await killInside(fatal(world, "pay", spec));
      const retry = counting(world, "pay", {
        ...spec,
        execute: (_args, { key, attempt }) => {
          keys.push(key);
          return { attempt };
        },
      });
      const session = await next.session();
      const result = await session.run({ model: script("ok"), tools: [retry], prompt: "go" });
      expect(result.status).toBe("done");
      expect(new Set(keys).size).toBe(1);
      expect(JSON.stringify(session.messages)).toContain('{\\"attempt\\":2}');
    });

    test("verify: notYet is asked again, and only a tool with settleMs runs again", async () => {
      const asked: number[] = [];
      const spec = {
        settleMs: 60_000,
        verify: () => {
          asked.push(1);
          return notYet({ againInMs: 30_000 });
        },
      };
      const next = await killInside(fatal(world, "pay", spec));
      const session = await next.session();
      const tools = [counting(world, "pay", spec)];
      const first = await session.run({ model: script("ok"), tools, prompt: "go", patienceMs: 0 });
      expect(first).toMatchObject({ status: "waiting", waiting: [{ callId: "c1", person: false }] });
      expect(world.effects).toHaveLength(1);
      bench.passMs(31_000);
      expect((await session.run({ model: script("ok"), tools, prompt: "go", patienceMs: 0 })).status).toBe(
        "waiting",
      );
      expect(world.effects).toHaveLength(1);
      bench.passMs(31_000);
      expect((await session.run({ model: script("ok"), tools, prompt: "go", patienceMs: 0 })).status).toBe(
        "done",
      );
      expect(world.effects).toHaveLength(2);
      expect(asked.length).toBe(3);
    });

    test("a wall clock that is set forward by an hour settles nothing early", async () => {
      const spec = { settleMs: 60_000, verify: () => notYet({ againInMs: 1_000 }) };
      const next = await killInside(fatal(world, "pay", spec));
      const session = await next.session();
      const tools = [counting(world, "pay", spec)];
      const run = () => session.run({ model: script("ok"), tools, prompt: "go", patienceMs: 0 });
      bench.jumpMs(3_600_000);
      expect((await run()).status).toBe("waiting");
      expect(world.effects).toHaveLength(1);
      bench.passMs(61_000);
      expect((await run()).status).toBe("done");
      expect(world.effects).toHaveLength(2);
    });

    test("after unsure, or a verify that keeps failing, a person decides", async () => {
      const next = await killInside(fatal(world, "pay", { verify: () => unsure("index lag") }));
      const session = await next.session();
      const unsureTool = counting(world, "pay", { verify: () => unsure("index lag") });
      const result = await session.run({ model: script(), tools: [unsureTool], prompt: "go" });
      expect(result.waiting).toEqual([{ callId: "c1", tool: "pay", person: true, why: "index lag" }]);
    });

    test("a verify that throws is asked again with backoff, then a person decides", async () => {
      let asked = 0;
      const verify = () => {
        asked++;
        throw new Error("vendor down");
      };
      const next = await killInside(fatal(world, "pay", { verify }));
      const session = await next.session();
      const tools = [counting(world, "pay", { verify })];
      const waited = skipWaits([400, 1_600], bench.passMs);
      const result = await session.run({ model: script(), tools, prompt: "go" });
      expect(result.waiting[0]).toMatchObject({ person: true, why: "verify failed: vendor down" });
      expect(asked).toBe(3);
      expect(waited).toEqual([400, 1_600]);
    });

    test("an idempotent tool is repeated only as long as the vendor remembers the key", async () => {
      const spec = { idempotent: { forMs: 60_000 } };
      const next = await killInside(fatal(world, "pay", spec));
      const tools = [counting(world, "pay", spec)];
      bench.passMs(61_000);
      const session = await next.session();
      expect((await session.run({ model: script(), tools, prompt: "go" })).waiting[0]?.person).toBe(true);
      expect(world.effects).toHaveLength(1);
    });

    test("an idempotent tool in time is simply repeated", async () => {
      const next = await killInside(fatal(world, "pay", { idempotent: true }));
      const session = await next.session();
      const tools = [counting(world, "pay", { idempotent: true })];
      expect((await session.run({ model: script(), tools, prompt: "go" })).status).toBe("done");
      expect(world.effects).toHaveLength(2);
    });

    test('interrupted: "fail" marks it failed and lets the agent decide', async () => {
      const next = await killInside(fatal(world, "pay", { interrupted: "fail" }));
      const session = await next.session();
      const model = script("I will ask");
      const result = await session.run({
        model,
        tools: [counting(world, "pay", { interrupted: "fail" })],
        prompt: "go",
      });
      expect(result).toMatchObject({ status: "done", text: "I will ask" });
      expect(JSON.stringify(session.messages)).toContain("nobody knows whether it took effect");
    });

    test("a tool that the new program no longer has waits for a person", async () => {
      const next = await killInside(fatal(world, "pay"));
      const session = await next.session();
      const result = await session.run({ model: script(), tools: [], prompt: "go" });
      const why = "the process that ran it is gone, so it may have happened; this program has no tool pay";
      expect(result.waiting[0]).toMatchObject({ person: true, why });
    });

    test("and is verified by a program that has the tool again", async () => {
      const next = await killInside(fatal(world, "pay"));
      const narrow = counting(world, "pay", { input: z.strictObject({ order: z.string() }) });
      for (const tools of [[], [narrow]]) {
        const session = await next.session();
        expect((await session.run({ model: script(), tools, prompt: "go" })).status).toBe("waiting");
        await session.close();
      }
      const session = await next.session();
      const tools = [counting(world, "pay", { verify: () => landed("paid") })];
      expect(await session.run({ model: script(), tools, prompt: "go" })).toMatchObject({ status: "done" });
      expect(world.effects).toHaveLength(1);
      await session.close();
    });

    test("but a call that waits for another reason keeps waiting", async () => {
      const next = await killInside(fatal(world, "pay"));
      const asking = await next.session();
      const unable = [counting(world, "pay")];
      expect((await asking.run({ model: script(), tools: unable, prompt: "go" })).status).toBe("waiting");
      const tools = [counting(world, "pay", { verify: () => landed("paid") })];
      expect((await asking.run({ model: script(), tools, prompt: "go" })).status).toBe("waiting");
      expect(world.effects).toHaveLength(1);
    });

    test("the model is not asked again for a recorded message, and reads run again", async () => {
      const looked: string[] = [];
      const look = counting(world, "look", { effect: "read", execute: () => looked.push("look") });
      const next = await killInside(fatal(world, "pay", { verify: () => landed("ok") }), look);
      const session = await next.session();
      const model = script("done");
      await session.run({
        model,
        tools: [counting(world, "pay", { verify: () => landed("ok") }), look],
        prompt: "go",
      });
      expect(model.asked).toBe(1);
      expect(looked.length).toBe(2);
      expect(session.messages.map((message) => message.role)).toEqual([
        "user",
        "assistant",
        "tool",
        "assistant",
      ]);
    });
  });

  describe("a person", () => {
    async function waiting(): Promise<Program> {
      const next = await killInside(fatal(world, "pay"));
      const session = await next.session();
      await session.run({ model: script(), tools: [counting(world, "pay")], prompt: "go" });
      await session.close();
      return next;
    }

    test("landed: the given result becomes the call's", async () => {
      const program = await waiting();
      await program.holdfast.calls.resolve("c1", {
        outcome: "landed",
        result: { id: "p9" },
        by: "ann",
        why: "seen in the bank",
      });
      const session = await program.session();
      const result = await session.run({
        model: script("fine"),
        tools: [counting(world, "pay")],
        prompt: "go",
      });
      expect(result.status).toBe("done");
      expect(world.effects).toHaveLength(1);
      const detail = await program.holdfast.sessions.get("alpha");
      expect(detail.calls[0]).toMatchObject({
        status: "completed",
        settledBy: "person",
        by: "ann",
        why: "seen in the bank",
      });
    });

    test("retry: exactly one more attempt", async () => {
      const program = await waiting();
      await program.holdfast.calls.resolve("c1", { outcome: "retry", by: "ann", why: "not in the bank" });
      const session = await program.session();
      expect(
        (await session.run({ model: script(), tools: [counting(world, "pay")], prompt: "go" })).status,
      ).toBe("done");
      expect(world.effects).toHaveLength(2);
    });

    test("failed: the agent gets the failure", async () => {
      const program = await waiting();
      await program.holdfast.calls.resolve("c1", { outcome: "failed", by: "ann", why: "bank says no" });
      const session = await program.session();
      await session.run({ model: script(), tools: [counting(world, "pay")], prompt: "go" });
      expect(JSON.stringify(session.messages)).toContain("ann says that it did not happen: bank says no");
      expect(world.effects).toHaveLength(1);
    });

    test("a call that does not wait for a person cannot be resolved", async () => {
      const program = await waiting();
      const answer = { outcome: "failed", by: "ann", why: "-" } as const;
      await program.holdfast.calls.resolve("c1", answer);
      for (const [id, code] of [
        ["c1", "CALL_NOT_WAITING"],
        ["c9", "CALL_NOT_FOUND"],
      ] as const) {
        for (const named of [id, { session: "alpha", callId: id }])
          await expect(program.holdfast.calls.resolve(named, answer)).rejects.toMatchObject({ code });
      }
    });
  });

  test("a zombie cannot settle a call: it may only record a late result", async () => {
    let answer: (value: string) => void = () => undefined;
    let reached: () => void = () => undefined;
    const inside = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const slow = counting(world, "slow", {
      execute: () => {
        world.effects.push("slow");
        reached();
        return new Promise<string>((resolve) => {
          answer = resolve;
        });
      },
    });
    const blocks = [callBlock("c1", "slow"), callBlock("c2", "after")];
    const tools = [slow, counting(world, "after")];
    const zombie = await bench.first.session();
    const running = zombie.run({ model: script(blocks), tools, prompt: "go", parallel: 1 });
    await inside;
    const next = await bench.afterCrash();
    const session = await next.session();
    const taken = await session.run({ model: script(), tools, prompt: "go", patienceMs: 0 });
    expect(taken.waiting).toMatchObject([{ callId: "c1", person: true }]);
    const byTheOther = ["slow", "after {}"];
    expect(world.effects).toEqual(byTheOther);
    answer("late answer");
    await expect(running).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(world.effects).toEqual(byTheOther);
    await session.refresh();
    const detail = await next.holdfast.sessions.get("alpha");
    expect(detail.calls.find((call) => call.callId === "c1")).toMatchObject({
      callId: "c1",
      status: "completed",
      settledBy: "late",
      result: { value: "late answer" },
    });
    const result = await session.run({ model: script("done"), tools, prompt: "go" });
    expect(result.status).toBe("done");
    expect(world.effects).toEqual(byTheOther);
  });

  test("a timed-out attempt that still runs blocks the next one, and its answer settles it", async () => {
    const session = await bench.first.session();
    let answer: (value: string) => void = () => undefined;
    const slow = counting(world, "slow", {
      timeoutMs: 20,
      idempotent: true,
      execute: () => {
        world.effects.push("slow");
        return new Promise<string>((resolve) => {
          answer = resolve;
        });
      },
    });
    const first = await session.run({
      model: script([callBlock("c1", "slow")]),
      tools: [slow],
      prompt: "go",
      patienceMs: 30,
    });
    expect(first).toMatchObject({
      status: "waiting",
      waiting: [{ person: false, why: "no answer within 20 ms" }],
    });
    answer("at last");
    const second = await session.run({ model: script("ok"), tools: [slow], prompt: "go" });
    expect(second.status).toBe("done");
    expect(world.effects).toEqual(["slow"]);
  });

  test("a crash in the first wave leaves the later calls unissued", async () => {
    const dying = fatal(world, "one");
    const session = await bench.first.session();
    const blocks = [callBlock("c1", "one"), callBlock("c2", "two"), callBlock("c3", "three")];
    const tools = [dying.tool, counting(world, "two"), counting(world, "three")];
    session.run({ model: script(blocks), tools, prompt: "go", parallel: 1 }).catch(() => undefined);
    await dying.reached;
    const next = await bench.afterCrash();
    const detail = await next.holdfast.sessions.get("alpha");
    expect(detail.calls.map((call) => call.callId)).toEqual(["c1"]);
  });

  test("large results become artifacts, durable before the log refers to them", async () => {
    const session = await bench.first.session();
    const big = counting(world, "big", { execute: () => "x".repeat(300_000) });
    await session.run({ model: script([callBlock("c1", "big")]), tools: [big], prompt: "go" });
    const { calls } = await bench.first.holdfast.sessions.get("alpha");
    const result = calls[0]?.result as { artifact: string; bytes: number };
    expect(result.bytes).toBe(300_002);
    expect((await bench.first.holdfast.getArtifact(result.artifact)).length).toBe(300_002);
  });

  test("a repeatable tool runs again if its model gives a reason", async () => {
    const session = await bench.first.session();
    const tools = [counting(world, "mail", { repeatable: true })];
    const model = script(
      [callBlock("1", "mail", { to: "a" })],
      [callBlock("2", "mail", { to: "a" })],
      [callBlock("3", "mail", { to: "a", againBecause: "she deleted the first" })],
    );
    await session.run({ model, tools, prompt: "go" });
    expect(world.effects).toEqual(['mail {"to":"a"}', 'mail {"to":"a"}']);
  });

  test("a fork rejects effects until they are switched on, and finds inherited calls", async () => {
    const session = await bench.first.session();
    const tools = [counting(world, "mail")];
    await session.run({ model: script([callBlock("1", "mail", { n: 1 })]), tools, prompt: "go" });
    const { version } = session;
    await session.run({ model: script([callBlock("2", "mail", { n: 2 })]), tools, prompt: "more" });
    const report = await session.fork("beta", { version });
    expect(report.laterEffects).toEqual([{ callId: "2", tool: "mail", status: "completed" }]);
    const fork = await bench.first.session("beta");
    await fork.run({ model: script([callBlock("f1", "mail", { n: 3 })]), tools, prompt: "x" });
    expect(JSON.stringify(fork.messages)).toContain("its effects are off");
    await fork.allowEffects();
    const model = script([callBlock("f2", "mail", { n: 3 }), callBlock("f3", "mail", { n: 1 })]);
    const result = await fork.run({ model, tools, prompt: "y" });
    expect(result.replayed).toEqual(["f3"]);
    expect(world.effects).toEqual(['mail {"n":1}', 'mail {"n":2}', 'mail {"n":3}']);
  });
});
