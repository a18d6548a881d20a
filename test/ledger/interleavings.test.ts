/** One test for every interleaving that once lost or doubled an effect. */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  agentTool,
  DefiniteFailure,
  HoldfastError,
  never,
  notYet,
  type Tool,
  tool,
} from "../../src/index.ts";
import { skipWaits } from "../skip-waits.ts";
import { storeSubjects } from "../subjects.ts";
import { type Bench, callBlock, counting, fatal, openBench, script, type World } from "./bench.ts";

const reset = (): Error => Object.assign(new Error("reset"), { code: "ECONNRESET" });

describe.each(storeSubjects())("interleavings on $name", (subject) => {
  let bench: Bench;
  let world: World;

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  /** A tool that runs one step per execution. The last step repeats. */
  function steps(name: string, spec: Partial<Tool>, ...each: ((n: number) => unknown)[]): Tool {
    let count = 0;
    return counting(world, name, {
      ...(spec as object),
      execute: async () => (each[Math.min(count, each.length - 1)] as (n: number) => unknown)(++count),
    });
  }

  test("a definite failure does not settle a call whose first attempt may have landed", async () => {
    const session = await bench.first.session();
    const pay = steps(
      "pay",
      { idempotent: true },
      () => {
        world.effects.push("charged");
        throw reset();
      },
      () => {
        throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
      },
    );
    const waited = skipWaits([400]);
    const result = await session.run({ model: script([callBlock("c1", "pay")]), tools: [pay], prompt: "go" });
    expect(result).toMatchObject({ status: "waiting", waiting: [{ callId: "c1", person: true }] });
    expect(result.waiting[0]?.why).toContain("attempt 1 may have landed");
    expect(waited).toEqual([400]);
    expect(world.effects).toEqual(["charged"]);
  });

  test("a zombie's late failure counts for its own attempt, not for the one that runs now", async () => {
    let refuse: (error: Error) => void = () => undefined;
    let reached: () => void = () => undefined;
    const inside = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const first = counting(world, "pay", {
      verify: () => never(),
      execute: () =>
        new Promise((_resolve, reject) => {
          refuse = reject;
          reached();
        }),
    });
    const zombie = await bench.first.session();
    const dead = zombie.run({ model: script([callBlock("c1", "pay")]), tools: [first], prompt: "go" });
    await inside;
    const next = await bench.afterCrash();
    const session = await next.session();
    const second = counting(world, "pay", {
      verify: () => never(),
      execute: async () => {
        await zombie.refresh();
        refuse(new DefiniteFailure("fenced off"));
        await expect(dead).rejects.toMatchObject({ code: "LEASE_LOST" });
        world.effects.push("paid");
        return "paid";
      },
    });
    const result = await session.run({ model: script("ok"), tools: [second], prompt: "go" });
    expect(result.status).toBe("done");
    expect((await next.holdfast.sessions.get("alpha")).calls[0]).toMatchObject({
      status: "completed",
      attempt: 2,
    });
  });

  test("a person's answer reaches a handle that was idle when it arrived", async () => {
    const session = await bench.first.session();
    const pay = counting(world, "pay", { execute: () => Promise.reject(reset()) });
    await session.run({ model: script([callBlock("c1", "pay")]), tools: [pay], prompt: "go" });
    await (await bench.another()).holdfast.calls.resolve("c1", { outcome: "landed", by: "ann", why: "seen" });
    expect((await session.run({ model: script("ok"), tools: [pay], prompt: "go" })).status).toBe("done");
  });

  test("nothing starts in a cancelled session, not even calls requested before", async () => {
    const session = await bench.first.session();
    const cancelling = async () => {
      await (await bench.another()).holdfast.sessions.cancel("alpha", { by: "ann" });
      return { message: { blocks: [callBlock("c1", "mail")] } };
    };
    const tools = [counting(world, "mail")];
    const result = await session.run({ model: cancelling, tools, prompt: "go" });
    expect(result).toMatchObject({ status: "paused", reason: "cancelled" });
    await session.close();
    const again = await bench.first.session();
    await expect(again.settle(tools)).resolves.toMatchObject({ open: [] });
    expect((await again.run({ model: script(), tools })).reason).toBe("cancelled");
    expect(world.effects).toEqual([]);
  });

  test("an id means one call forever, also after a compaction and in a custom loop", async () => {
    const session = await bench.first.session();
    const tools = [counting(world, "mail")];
    await session.run({
      model: script([callBlock("0", "mail", { to: "ann" })]),
      tools,
      prompt: { id: "p", text: "go" },
    });
    await session.compact([{ id: "s", role: "user", createdAt: "2026-01-01T00:00:00Z", blocks: [] }]);
    await session.run({ model: script([callBlock("0", "mail", { to: "bob" })]), tools, prompt: "more" });
    const message = await session.append({
      role: "assistant",
      blocks: [callBlock("0", "mail", { to: "cid" })],
    });
    await session.calls(message, tools);
    expect(world.effects).toEqual(['mail {"to":"ann"}', 'mail {"to":"bob"}', 'mail {"to":"cid"}']);
  });

  test("calls of a message that was never appended are rejected", async () => {
    const session = await bench.first.session();
    const blocks = [callBlock("c1", "mail")];
    const message = { id: "m", role: "assistant", createdAt: "2026-01-01T00:00:00Z", blocks } as const;
    await expect(session.calls(message, [counting(world, "mail")])).rejects.toMatchObject({
      code: "INPUT_INVALID",
    });
    expect(world.effects).toEqual([]);
  });

  test("the same call made twice at once runs once", async () => {
    const session = await bench.first.session();
    let finish: (value: string) => void = () => undefined;
    const slow = counting(world, "slow", {
      execute: () => {
        world.effects.push("slow");
        return new Promise<string>((resolve) => {
          finish = resolve;
          setImmediate(() => finish("ok"));
        });
      },
    });
    const both = [1, 2].map(() => session.call({ tool: slow, args: {}, callId: "x" }));
    expect((await Promise.all(both)).map((each) => each.status)).toEqual(["completed", "completed"]);
    expect(world.effects).toEqual(["slow"]);
  });

  test("close stops a running call, and a reopened session does not start it a second time", async () => {
    const session = await bench.first.session();
    let reached: () => void = () => undefined;
    const inside = new Promise<void>((resolve) => {
      reached = resolve;
    });
    let finish: (value: string) => void = () => undefined;
    const deaf = counting(world, "deaf", {
      idempotent: true,
      execute: () => {
        world.effects.push("deaf");
        reached();
        return new Promise<string>((resolve) => {
          finish = resolve;
        });
      },
    });
    const run = session.run({ model: script([callBlock("c1", "deaf")]), tools: [deaf], prompt: "go" });
    await inside;
    const failed = expect(run).rejects.toMatchObject({ code: "SESSION_CLOSED" });
    await session.close();
    await failed;
    const again = await bench.first.session();
    const waiting = await again.run({ model: script("ok"), tools: [deaf], prompt: "go", patienceMs: 20 });
    expect(waiting.status).toBe("waiting");
    finish("at last");
    expect((await again.run({ model: script("ok"), tools: [deaf], prompt: "go" })).status).toBe("done");
    expect(world.effects).toEqual(["deaf"]);
  });

  test("settleMs counts from the take-over, not from when the first process lost its call", async () => {
    const spec = { settleMs: 60_000, timeoutMs: 5, verify: () => notYet({ againInMs: 1_000 }) };
    const dying = fatal(world, "pay", spec);
    const session = await bench.first.session();
    const options = { model: script([callBlock("c1", "pay")]), prompt: "go", patienceMs: 0 };
    expect((await session.run({ ...options, tools: [dying.tool] })).status).toBe("waiting");
    bench.passMs(59_000);
    const next = await (await bench.afterCrash()).session();
    bench.passMs(2_000);
    const tools = [counting(world, "pay", spec)];
    await next.run({ model: script("ok"), tools, prompt: "go", patienceMs: 0 });
    expect(world.effects).toHaveLength(1);
    bench.passMs(60_000);
    await next.run({ model: script("ok"), tools, prompt: "go", patienceMs: 0 });
    expect(world.effects).toHaveLength(2);
  });

  test("nothing is written between a message and the results of its calls", async () => {
    const session = await bench.first.session();
    const pay = counting(world, "pay", { execute: () => Promise.reject(reset()) });
    await session.run({ model: script([callBlock("c1", "pay")]), tools: [pay], prompt: "go" });
    await expect(session.append({ role: "user", text: "hello?" })).rejects.toMatchObject({
      code: "MESSAGE_UNFINISHED",
    });
    await session.call({ tool: counting(world, "other"), args: {} });
    expect(session.unfinished).not.toBeNull();
  });

  test("a sub-agent that answered is not asked again after its parent's crash", async () => {
    const mail = counting(world, "mail", { dedupe: "call" });
    let reached: () => void = () => undefined;
    const answered = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const sub = (model: ReturnType<typeof script>, dies: boolean) =>
      agentTool({
        name: "sub",
        description: "",
        input: z.looseObject({}),
        run: async (_args, child) => {
          const result = await child.run({ model, tools: [mail], prompt: "mail it" });
          reached();
          return dies ? new Promise(() => undefined) : result;
        },
      });
    const session = await bench.first.session();
    const dying = sub(script([callBlock("m1", "mail")], "sent"), true);
    session
      .run({ model: script([callBlock("s1", "sub")]), tools: [dying], prompt: "go" })
      .catch(() => undefined);
    await answered;
    const resumed = await (await bench.afterCrash()).session();
    const model = script("asked again");
    const result = await resumed.run({ model: script("end"), tools: [sub(model, false)], prompt: "go" });
    expect(result.status).toBe("done");
    expect(model.asked).toBe(0);
    expect(world.effects).toEqual(["mail {}"]);
    expect(JSON.stringify(resumed.messages)).toContain("sent");
  });

  test("each failure of a global call frees its key, and the vendor gets a new one", async () => {
    const keys: string[] = [];
    const charge = (fails: boolean) =>
      counting(world, "charge", {
        dedupe: "global",
        execute: (_args, { key }) => {
          keys.push(key);
          if (fails) throw new DefiniteFailure("declined");
          return "ok";
        },
      });
    for (const [id, fails] of [
      ["one", true],
      ["two", true],
      ["three", false],
    ] as const) {
      const session = await bench.first.session(id);
      const model = script([callBlock("c1", "charge")]);
      expect((await session.run({ model, tools: [charge(fails)], prompt: "go" })).status).toBe("done");
    }
    expect(new Set(keys).size).toBe(3);
  });

  test('interrupted: "fail" frees a global key and keeps the vendor key', async () => {
    const keys: string[] = [];
    const charge = (fails: boolean) =>
      counting(world, "charge", {
        dedupe: "global",
        interrupted: "fail",
        execute: (_args, { key }) => {
          keys.push(key);
          if (fails) throw reset();
          return "ok";
        },
      });
    for (const [id, fails] of [
      ["one", true],
      ["two", false],
    ] as const) {
      const session = await bench.first.session(id);
      await session.run({ model: script([callBlock("c1", "charge")]), tools: [charge(fails)], prompt: "go" });
    }
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
  });

  test("a `definite` that throws, and results that JSON cannot hold, break nothing", async () => {
    const session = await bench.first.session();
    const odd = counting(world, "odd", {
      definite: (error) => (error as { response: { status: number } }).response.status === 400,
      execute: () => Promise.reject(new Error("plain")),
    });
    const date = counting(world, "date", { execute: () => ({ id: "ch_1", at: new Date(0), n: 5n }) });
    const result = await session.run({
      model: script([callBlock("c1", "odd"), callBlock("c2", "date")]),
      tools: [odd, date],
      prompt: "go",
    });
    expect(result.waiting).toMatchObject([{ callId: "c1", person: true }]);
    const { calls } = await bench.first.holdfast.sessions.get("alpha");
    const value = { id: "ch_1", at: "1970-01-01T00:00:00.000Z", n: "5" };
    expect(calls.find((call) => call.callId === "c2")).toMatchObject({
      status: "completed",
      result: { value },
    });
  });

  test("direct writes v1, v2, v1 write three times; reusing an id is rejected", async () => {
    const session = await bench.first.session();
    const write = counting(world, "write", { effect: "write" });
    for (const text of ["v1", "v1", "v2", "v1"]) await session.call({ tool: write, args: { text } });
    expect(world.effects).toHaveLength(3);
    await session.call({ tool: write, args: { text: "x" }, callId: "w" });
    const other = session.call({ tool: write, args: { text: "y" }, callId: "w" });
    await expect(other).rejects.toMatchObject({ code: "INPUT_INVALID" });
    const global = { name: "w", description: "", input: z.any(), effect: "write", dedupe: "global" } as const;
    expect(() => tool({ ...global, execute: () => 1 })).toThrow(HoldfastError);
  });

  test("an empty reason counts as no reason: a repeatable tool is not run again", async () => {
    const session = await bench.first.session();
    const tools = [counting(world, "mail", { repeatable: true })];
    const model = script(
      [callBlock("1", "mail", { to: "a" })],
      [callBlock("2", "mail", { to: "a", againBecause: "" })],
    );
    await session.run({ model, tools, prompt: "go" });
    expect(world.effects).toHaveLength(1);
  });

  test("a stop between intent and start needs no person, because the call never started", async () => {
    const session = await bench.first.session();
    const stop = new AbortController();
    const tools = [counting(world, "mail")];
    const on = (progress: { type: string }) => {
      if (progress.type === "call.issued") stop.abort();
    };
    const first = await session.run({
      model: script([callBlock("c1", "mail")]),
      tools,
      prompt: "go",
      signal: stop.signal,
      on,
    });
    expect(first.reason).toBe("stopped");
    expect(world.effects).toEqual([]);
    expect((await session.run({ model: script("ok"), tools, prompt: "go" })).status).toBe("done");
    expect(world.effects).toHaveLength(1);
  });

  test("a paused loop continues with a new prompt from outside", async () => {
    const session = await bench.first.session();
    const look = counting(world, "look", { effect: "read" });
    const loop = { warnAt: 2, stopAt: 3 };
    const same = [1, 2, 3].map((n) => [callBlock(`c${n}`, "look")]);
    expect((await session.run({ model: script(...same), tools: [look], prompt: "go", loop })).reason).toBe(
      "loop",
    );
    expect((await session.run({ model: script("ok"), tools: [look], prompt: "stop it", loop })).status).toBe(
      "done",
    );
  });

  test("large answers of reads are kept as long as the transcript refers to them", async () => {
    const session = await bench.first.session();
    const read = counting(world, "read", { effect: "read", execute: () => "x".repeat(300_000) });
    await session.run({ model: script([callBlock("c1", "read")]), tools: [read], prompt: "go" });
    bench.passMs(48 * 3_600_000);
    expect(await bench.first.holdfast.collectArtifacts()).toBe(0);
    const file = session.messages
      .flatMap((message) => message.blocks)
      .find((block) => block.kind === "tool_result");
    expect(file?.content).toMatchObject([{ kind: "text" }, { kind: "file", mediaType: "application/json" }]);
  });

  test("a session that is removed and made again inherits no vendor keys and no calls", async () => {
    const keys: string[] = [];
    const pay = counting(world, "pay", {
      execute: (_args, { key }) => {
        keys.push(key);
        return "ok";
      },
    });
    for (let life = 0; life < 2; life++) {
      const session = await bench.first.session("job");
      await session.run({ model: script([callBlock("c1", "pay")]), tools: [pay], prompt: "go" });
      await session.close();
      await bench.first.holdfast.sessions.prune({ keep: 0 });
    }
    expect(new Set(keys).size).toBe(2);
  });
});
