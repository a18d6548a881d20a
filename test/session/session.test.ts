import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, type Model, type Tool } from "../../src/index.ts";
import {
  type Bench,
  callBlock,
  counting,
  fatal,
  openBench,
  type Program,
  script,
  type World,
} from "../ledger/bench.ts";
import { skipWaits } from "../skip-waits.ts";
import { storeSubjects } from "../subjects.ts";

describe.each(storeSubjects())("a session on $name", (subject) => {
  let bench: Bench;
  let world: World;

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  describe("identity", () => {
    test("reopening keeps the first createdAt, title, scratchpad root and metadata", async () => {
      const options = { title: "T", scratchpadRoot: "/scratch/a", metadata: { user: "ann" }, ttlMs: null };
      const first = await bench.first.holdfast.session("alpha", options);
      const created = first.createdAt.getTime();
      await first.close();
      bench.passMs(60_000);
      const again = await bench.first.session();
      expect(again.createdAt.getTime()).toBe(created);
      expect(again.updatedAt.getTime()).toBe(created + 60_000);
      expect(again).toMatchObject({ title: "T", scratchpadRoot: "/scratch/a", metadata: { user: "ann" } });
      expect(again.resumed).toMatchObject({ version: 0, from: null });
    });

    test("one owner at a time: the error for the second names the holder and the time", async () => {
      await bench.first.session();
      const other = await bench.another();
      const refused = other.session().catch((error: unknown) => error);
      expect(await refused).toMatchObject({
        code: "SESSION_HELD",
        retryable: true,
        message: expect.stringMatching(/^session alpha is held by .*pid \d+/),
        hint: expect.stringMatching(/in \d+ s/),
      });
    });

    test("after a crash `resumed` names the previous owner", async () => {
      const session = await bench.first.session();
      await session.append({ role: "user", text: "hello" }, { checkpoint: true });
      const next = await bench.afterCrash();
      const resumed = (await next.session()).resumed;
      expect(resumed).toMatchObject({ version: 1, messages: 1, from: expect.stringMatching(/pid \d+/) });
    });

    test("a stale session is rejected with its age", async () => {
      const session = await bench.first.holdfast.session("old");
      await session.close();
      bench.passMs(73 * 3_600_000);
      const stale = bench.first.holdfast.session("old");
      await expect(stale).rejects.toMatchObject({
        code: "STATE_STALE",
        message: "session old was last changed 3 d ago (stale after 3 d)",
      });
      expect((await bench.first.holdfast.sessions.list()).sessions[0]).toMatchObject({
        id: "old",
        stale: true,
      });
      const used = await bench.first.holdfast.session("old", { stale: "use" });
      expect(used.resumed).not.toBeNull();
    });

    test("a run makes an ended session active again, but a cancelled one must be reopened", async () => {
      const session = await bench.first.session();
      await session.complete("done");
      expect(session.status).toBe("completed");
      await session.append({ role: "user", text: "one more thing" });
      expect(session.status).toBe("active");
      await session.fail("no way");
      expect(session.status).toBe("failed");
      await session.reopen();
      await session.cancel("enough");
      await expect(session.append({ role: "user", text: "x" })).rejects.toMatchObject({
        code: "SESSION_ENDED",
      });
      await session.reopen();
      expect(session.status).toBe("active");
    });

    test("a closed handle rejects with SESSION_CLOSED", async () => {
      const session = await bench.first.session();
      await session.close();
      await expect(session.append({ role: "user", text: "x" })).rejects.toMatchObject({
        code: "SESSION_CLOSED",
      });
    });
  });

  describe("the loop", () => {
    test("a crash inside the model call resumes in the same turn with one prompt", async () => {
      const session = await bench.first.session();
      let reached: () => void = () => undefined;
      const inside = new Promise<void>((resolve) => {
        reached = resolve;
      });
      const hanging: Model = () => {
        reached();
        return new Promise(() => undefined);
      };
      session.run({ model: hanging, prompt: "pay" }).catch(() => undefined);
      await inside;
      const next = await bench.afterCrash();
      const resumed = await next.session();
      await resumed.run({ model: script("paid"), prompt: "pay" });
      expect(resumed.messages.map((message) => message.role)).toEqual(["user", "assistant"]);
    });

    test("a new prompt after a crash does not overwrite the first", async () => {
      const dying = fatal(world, "pay", { interrupted: "fail" });
      const session = await bench.first.session();
      session
        .run({ model: script([callBlock("1", "pay")]), tools: [dying.tool], prompt: "first" })
        .catch(() => undefined);
      await dying.reached;
      const resumed = await (await bench.afterCrash()).session();
      const tools = [counting(world, "pay", { interrupted: "fail" })];
      await resumed.run({ model: script("ok"), tools, prompt: "second" });
      expect(resumed.messages.map((message) => `${message.role} ${message.blocks[0]?.kind}`)).toEqual([
        "user text",
        "assistant tool_call",
        "tool tool_result",
        "user text",
        "assistant text",
      ]);
    });

    test("a finished prompt with an id returns its recorded answer without asking the model", async () => {
      const session = await bench.first.session();
      const prompt = { id: "order-7", text: "pay" };
      await session.run({ model: script("paid"), prompt });
      const model = script("something else");
      const again = await session.run({ model, prompt });
      expect(again).toMatchObject({ status: "done", text: "paid", replayed: ["order-7"] });
      expect(model.asked).toBe(0);
    });

    test.each([
      ["turn", [1, 2, 3]],
      [{ turns: 2 }, [1]],
      ["call", [1, 2, 3, 4]],
    ] as const)("cadence %j saves versions %j", async (cadence, expected) => {
      const session = await bench.first.session();
      const model = script(
        [callBlock("1", "a"), callBlock("2", "b")],
        [callBlock("3", "a", { n: 2 })],
        "end",
      );
      await session.run({
        model,
        tools: [counting(world, "a"), counting(world, "b")],
        prompt: "go",
        cadence,
      });
      expect(session.versions.map((each) => each.version)).toEqual(expected);
    });

    test("cadence in seconds saves when they have passed", async () => {
      const session = await bench.first.session();
      const tools = [counting(world, "a", { execute: () => bench.passMs(6_000) })];
      const blocks = [1, 2, 3, 4].map((n) => [callBlock(String(n), "a", { n })]);
      await session.run({ model: script(...blocks), tools, prompt: "go", cadence: { seconds: 10 } });
      expect(session.versions.length).toBeLessThan(4);
      expect(session.versions.length).toBeGreaterThan(1);
    });

    test("a budget stops the run in time, survives a restart, and can be raised", async () => {
      const session = await bench.first.session();
      const model: Model = async () => ({
        message: { blocks: [callBlock(String(Math.random()), "a", { r: Math.random() })] },
        usage: { usd: 0.4 },
      });
      const options = {
        model,
        tools: [counting(world, "a")],
        prompt: "go",
        budget: { usd: 1, perCall: { usd: 0.4 } },
      };
      const result = await session.run(options);
      expect(result).toMatchObject({ status: "paused", reason: "budget", spent: { usd: 0.8, turns: 2 } });
      const resumed = await (await bench.afterCrash()).session();
      expect(resumed.budget.spent).toEqual({ usd: 0.8, turns: 2 });
      expect((await resumed.run({ ...options })).reason).toBe("budget");
      await bench.first.holdfast.sessions.raiseBudget("alpha", { usd: 1.5 }, { by: "ann" });
      await resumed.refresh();
      expect((await resumed.run({ ...options })).spent).toEqual({ usd: 1.2, turns: 3 });
    });

    test("a reservation left by a crash counts as spent", async () => {
      const session = await bench.first.session();
      let reached: () => void = () => undefined;
      const inside = new Promise<void>((resolve) => {
        reached = resolve;
      });
      const model: Model = () => {
        reached();
        return new Promise(() => undefined);
      };
      session.run({ model, prompt: "go", budget: { usd: 1, perCall: { usd: 0.6 } } }).catch(() => undefined);
      await inside;
      const resumed = await (await bench.afterCrash()).session();
      expect(resumed.budget).toMatchObject({ spent: { usd: 0.6 }, reserved: {} });
    });

    test("without perCall, the largest call so far is reserved: the session stops before it overspends", async () => {
      const look = counting(world, "look", { effect: "read" });
      const turn = (id: number, usd: number) => async () => ({
        message: { blocks: [callBlock(`c${id}`, "look", { id })] },
        usage: { usd },
      });
      const turns = [turn(1, 0.2), turn(2, 0.4), turn(3, 0.3), turn(4, 0.3)];
      let asked = 0;
      const model: Model = () => (turns[asked++] ?? turn(asked, 0.3))();
      const session = await bench.first.session();
      const result = await session.run({ model, tools: [look], prompt: "go", budget: { usd: 1 } });
      expect(result).toMatchObject({ status: "paused", reason: "budget", spent: { usd: 0.9 } });
      const resumed = await (await bench.afterCrash()).session();
      expect(await resumed.run({ model, tools: [look], budget: { usd: 1 } })).toMatchObject({
        reason: "budget",
      });
      expect(asked).toBe(3);
    });

    test("the system prompt is part of version 1 and of each version that it changed in", async () => {
      const session = await bench.first.session();
      await session.run({ model: script("a"), prompt: "one", system: "You are brief." });
      await session.run({ model: script("b"), prompt: "two", system: "You are brief." });
      await session.run({ model: script("c"), prompt: "three", system: "You are kind." });
      const resumed = await (await bench.afterCrash()).session();
      await resumed.run({ model: script("d"), prompt: "four" });
      const systems = await Promise.all(
        [1, 2, 3, 4].map(async (version) => (await resumed.at(version)).system),
      );
      expect(systems).toEqual(["You are brief.", "You are brief.", "You are kind.", null]);
      expect((await resumed.diff(1, 3)).system).toEqual({ before: "You are brief.", after: "You are kind." });
      expect((await resumed.diff(1, 2)).system.after).toBe("You are brief.");
      await resumed.save({ messages: [], system: "saved" });
      expect((await resumed.at(5)).system).toBe("saved");
    });

    test("loops are detected from the log, also across restarts", async () => {
      const loop = { warnAt: 3, stopAt: 6 };
      const look = counting(world, "look", { effect: "read" });
      const same = (id: number) => [callBlock(`c${id}`, "look", { q: "x" })];
      const session = await bench.first.session();
      await session.run({ model: script(same(1), same(2)), tools: [look], prompt: "go", loop, maxTurns: 2 });
      const resumed = await (await bench.afterCrash()).session();
      const seen: number[] = [];
      const result = await resumed.run({
        model: script(same(3), same(4), same(5), same(6)),
        tools: [look],
        loop,
        on: (progress) => {
          if (progress.type === "loop") seen.push(progress.count);
        },
      });
      expect(result).toMatchObject({ status: "paused", reason: "loop" });
      expect(seen).toEqual([3, 4, 5, 6]);
      expect(JSON.stringify(resumed.messages)).toContain("look was called 3 times in a row");
    });

    test.each([2, 3])("loops of %i calls are detected and stopped, also across restarts", async (length) => {
      const loop = { warnAt: 3, stopAt: 5 };
      const look = counting(world, "look", { effect: "read" });
      const turns = Array.from({ length: 5 * length }, (_, at) => [
        callBlock(`c${at}`, "look", { q: at % length }),
      ]);
      const session = await bench.first.session();
      await session.run({
        model: script(...turns.slice(0, 5)),
        tools: [look],
        prompt: "go",
        loop,
        maxTurns: 5,
      });
      const resumed = await (await bench.afterCrash()).session();
      const result = await resumed.run({ model: script(...turns.slice(5), "never"), tools: [look], loop });
      expect(result).toMatchObject({ status: "paused", reason: "loop" });
      expect(JSON.stringify(resumed.messages)).toContain("were called in turn 3 times in a row");
    });

    test("calls that differ in each round are no loop", async () => {
      const loop = { warnAt: 2, stopAt: 3 };
      const look = counting(world, "look", { effect: "read" });
      const turns = Array.from({ length: 12 }, (_, at) => [
        callBlock(`c${at}`, "look", { q: at % 2 === 0 ? "same" : at }),
      ]);
      const session = await bench.first.session();
      const result = await session.run({
        model: script(...turns, "done"),
        tools: [look],
        prompt: "go",
        loop,
      });
      expect(result).toMatchObject({ status: "done" });
    });

    test("retryable model errors are retried with backoff, others are thrown", async () => {
      const session = await bench.first.session();
      let asked = 0;
      const flaky: Model = async () => {
        if (asked++ < 1) throw Object.assign(new Error("overloaded"), { status: 529 });
        return { message: { text: "ok" } };
      };
      const waited = skipWaits([250]);
      expect((await session.run({ model: flaky, prompt: "go" })).text).toBe("ok");
      expect(waited).toEqual([250]);
      const broken: Model = () => Promise.reject(Object.assign(new Error("bad key"), { status: 401 }));
      await expect(session.run({ model: broken, prompt: "more" })).rejects.toThrow("bad key");
      expect((await session.run({ model: script("fine"), prompt: "more" })).text).toBe("fine");
    });

    test("deadline, turns and signal pause the run; the next one continues", async () => {
      const session = await bench.first.session();
      const tools = [counting(world, "a")];
      const model = script([callBlock("1", "a")], [callBlock("2", "a", { n: 2 })], "end");
      expect((await session.run({ model, tools, prompt: "go", maxTurns: 1 })).reason).toBe("turns");
      expect((await session.run({ model, tools, deadlineMs: 0 })).reason).toBe("deadline");
      const stopped = new AbortController();
      stopped.abort();
      expect((await session.run({ model, tools, signal: stopped.signal })).reason).toBe("stopped");
      expect(await session.run({ model, tools })).toMatchObject({ status: "done", text: "end" });
      expect(world.effects).toHaveLength(2);
    });

    test("call ids that a provider reuses stay separate calls", async () => {
      const session = await bench.first.session();
      const model = script([callBlock("call_0", "a", { n: 1 })], [callBlock("call_0", "a", { n: 2 })]);
      await session.run({ model, tools: [counting(world, "a")], prompt: "go" });
      expect(world.effects).toEqual(['a {"n":1}', 'a {"n":2}']);
    });
  });

  describe("events from outside while a process holds it", () => {
    /** The time until the run ended. */
    async function cancelled(id: string, other: Program): Promise<number> {
      const session = await bench.first.holdfast.session(id);
      let aborted = false;
      let reached: () => void = () => undefined;
      const inside = new Promise<void>((resolve) => {
        reached = resolve;
      });
      const slow = counting(world, "slow", {
        execute: (_args, { signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => {
              aborted = true;
              reject(new Error("stopped"));
            });
            reached();
          }),
      });
      const running = session.run({ model: script([callBlock("1", "slow")]), tools: [slow], prompt: "go" });
      await inside;
      const said = performance.now();
      await other.holdfast.sessions.cancel(id, { by: "ann", why: "wrong order" });
      expect(await running).toMatchObject({ status: "paused", reason: "cancelled" });
      const tookMs = performance.now() - said;
      expect(aborted).toBe(true);
      expect((await other.holdfast.sessions.get(id)).status).toBe("cancelled");
      await session.close();
      return tookMs;
    }

    test("a cancellation stops the run and aborts the tool, within a second", async () => {
      const other = await bench.another();
      // A machine pauses now and then, but not every time.
      let tookMs = Number.POSITIVE_INFINITY;
      for (let turn = 0; turn < 5 && tookMs >= 1_000; turn++)
        tookMs = Math.min(tookMs, await cancelled(`alpha-${turn}`, other));
      expect(tookMs).toBeLessThan(1_000);
    });

    test("a queued prompt becomes part of the next turn, once", async () => {
      const session = await bench.first.session();
      const other = await bench.another();
      const tools = [
        counting(world, "a", {
          execute: async () => {
            await other.holdfast.sessions.prompt("alpha", { id: "p1", text: "and hurry" }, { by: "ann" });
            await other.holdfast.sessions.prompt("alpha", { id: "p1", text: "and hurry" }, { by: "ann" });
          },
        }),
      ];
      await session.run({ model: script([callBlock("1", "a")], "ok"), tools, prompt: "go" });
      const users = session.messages.filter((message) => message.role === "user");
      expect(users.map((message) => message.blocks[0])).toMatchObject([
        { text: "go" },
        { text: "and hurry" },
      ]);
      expect(users[1]?.meta).toEqual({ by: "ann" });
    });
  });

  describe("sub-agents", () => {
    const input = z.object({ topic: z.string() });
    const research = (tools: Tool[], model: Model) =>
      agentTool({
        name: "research",
        description: "asks a sub-agent",
        input,
        run: (args, child, { signal }) => child.run({ model, tools, prompt: args.topic, signal }),
      });

    test("a crash inside a sub-agent resumes its session: its finished calls are not run again", async () => {
      const dying = fatal(world, "publish", { interrupted: "fail" });
      const step = counting(world, "note");
      const work = () => script([callBlock("n1", "note")], [callBlock("p1", "publish")], "written");
      const session = await bench.first.session();
      const ask = [callBlock("r1", "research", { topic: "tides" })];
      session
        .run({ model: script(ask), tools: [research([step, dying.tool], work())], prompt: "go" })
        .catch(() => undefined);
      await dying.reached;
      const next = await bench.afterCrash();
      const resumed = await next.session();
      const tools = [
        research([step, counting(world, "publish", { interrupted: "fail" })], script("written anyway")),
      ];
      const result = await resumed.run({ model: script("all done"), tools, prompt: "go" });
      expect(result).toMatchObject({ status: "done", text: "all done" });
      expect(world.effects).toEqual(["note {}", "publish {}"]);
      expect(JSON.stringify(resumed.messages)).toContain("written anyway");
    });

    test("a sub-agent spends its parent's budget, once", async () => {
      const session = await bench.first.session();
      const tools = [research([], script("short"))];
      const model = script([callBlock("r1", "research", { topic: "tides" })], "end");
      await session.run({ model, tools, prompt: "go", budget: { usd: 1 } });
      expect(session.budget).toEqual({ spent: { usd: 0.03, turns: 3 }, limit: { usd: 1 }, reserved: {} });
    });

    test("a parent waits for a person with its sub-agent; the answer continues both", async () => {
      const session = await bench.first.session();
      const pay = counting(world, "pay", { execute: () => Promise.reject(new Error("reset")) });
      const inner = script([callBlock("p1", "pay")], "bought");
      const tools = [research([pay], inner)];
      const first = await session.run({
        model: script([callBlock("r1", "research", { topic: "x" })]),
        tools,
        prompt: "go",
      });
      expect(first).toMatchObject({ status: "waiting", waiting: [{ callId: "r1", person: true }] });
      await bench.first.holdfast.calls.resolve("p1", { outcome: "landed", by: "ann", why: "seen" });
      expect((await session.run({ model: script("end"), tools, prompt: "go" })).text).toBe("end");
    });

    test("cancelling the parent cancels its sub-agent, too", async () => {
      const dying = fatal(world, "pay");
      const session = await bench.first.session();
      const tools = [research([dying.tool], script([callBlock("p1", "pay")]))];
      const running = session.run({
        model: script([callBlock("r1", "research", { topic: "x" })]),
        tools,
        prompt: "go",
      });
      await dying.reached;
      await (await bench.another()).holdfast.sessions.cancel("alpha", { by: "ann" });
      expect((await running).reason).toBe("cancelled");
      const { sessions } = await bench.first.holdfast.sessions.list();
      expect(sessions.map((each) => each.status)).toEqual(["cancelled", "cancelled"]);
    });
  });

  describe("a custom loop", () => {
    test("has the same guarantees: append is once per id, calls resume where they were", async () => {
      const session = await bench.first.session();
      const tools = [counting(world, "mail")];
      const model = script([callBlock("1", "mail")], "sent");
      await session.append({ id: "p", role: "user", text: "go" });
      await session.append({ id: "p", role: "user", text: "go" });
      for (;;) {
        const answer =
          session.unfinished ?? (await session.append({ role: "assistant", ...(await ask(model)) }));
        if ((await session.calls(answer, tools)).count === 0) break;
      }
      expect(session.messages.map((message) => message.role)).toEqual([
        "user",
        "assistant",
        "tool",
        "assistant",
      ]);
      expect(world.effects).toHaveLength(1);
    });

    test("a single call that is made again is the same call", async () => {
      const session = await bench.first.session();
      const mail = counting(world, "mail", { execute: () => ({ id: world.effects.push("mail") }) });
      const first = await session.call({ tool: mail, args: { to: "a" } });
      const second = await session.call({ tool: mail, args: { to: "a" } });
      expect(first).toMatchObject({ status: "completed", value: { id: 1 }, replayed: false });
      expect(second).toMatchObject({ status: "completed", value: { id: 1 }, replayed: true });
      expect(world.effects).toEqual(["mail"]);
    });
  });
});

async function ask(model: Model) {
  const { message } = await model({
    system: null,
    messages: [],
    tools: [],
    signal: new AbortController().signal,
    partial: () => undefined,
  });
  return message as { text: string };
}
