// `durable` around a query: effects once, permissions in the queue, prompts once, budgets over all queries.

import { expect, onTestFinished, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import type { SdkMessage } from "../../../src/integrations/claude-agent-sdk/index.ts";
import {
  type DurableOptions,
  durable,
  landed,
  never,
} from "../../../src/integrations/claude-agent-sdk/index.ts";
import { type FakeModel, type FakeWorld, fakeSdk, interrupt } from "./fake-sdk.ts";

const CHARGE = { name: "mcp__shop__charge", input: { order: "4711" } };
const PUSH = { name: "Bash", input: { command: "git push" } };
const RULES: DurableOptions = {
  effects: [{ tool: "mcp__shop__*" }, { tool: "Bash", when: ({ command }) => /push/.test(String(command)) }],
};

/** Makes these calls, one per turn, and then says what it has read last. */
const calls =
  (...made: (typeof CHARGE | typeof PUSH)[]): FakeModel =>
  (_prompt, read) =>
    made[read.length] ? [made[read.length] as typeof CHARGE] : `done: ${read.at(-1)}`;

async function openStore(): Promise<Holdfast> {
  const holdfast = await open("memory:");
  onTestFinished(() => holdfast.close());
  return holdfast;
}

async function all(messages: AsyncIterable<SdkMessage>): Promise<SdkMessage[]> {
  const list: SdkMessage[] = [];
  for await (const message of messages) list.push(message);
  return list;
}

/** One execution of the program: opens the session, asks, closes. */
async function runProgram(
  holdfast: Holdfast,
  world: FakeWorld,
  options: DurableOptions = RULES,
  prompt: string | { id: string; text: string } = "Ship it",
  session = "order",
) {
  await using opened = await holdfast.session(session);
  const { query, asked } = fakeSdk(world);
  const messages: SdkMessage[] = [];
  let error: unknown;
  try {
    for await (const message of durable(opened, query, options).query({ prompt })) messages.push(message);
  } catch (thrown) {
    error = thrown;
  }
  const result = messages.findLast(({ type }) => type === "result");
  return {
    text: result?.result,
    result,
    error,
    asked,
    spent: opened.budget.spent,
    ledger: [...opened.openCalls],
  };
}

test("an effect that is named runs once, is on record, and a later equal call runs again", async () => {
  const holdfast = await openStore();
  const ran: string[] = [];
  const world = { model: calls(CHARGE, PUSH, CHARGE), run: (name: string) => void ran.push(name) };
  const { ledger } = await runProgram(holdfast, world);
  expect(ran).toEqual([CHARGE.name, "Bash", CHARGE.name]);
  expect(ledger).toEqual([]);
  const { calls: recorded } = await holdfast.sessions.get("order");
  expect(recorded.map(({ tool, status }) => [tool, status])).toEqual(ran.map((name) => [name, "completed"]));
});

test("with dedupe an equal call gets the recorded answer instead of running", async () => {
  const holdfast = await openStore();
  let ran = 0;
  const world = { model: calls(CHARGE, CHARGE), run: () => `receipt ${++ran}` };
  const { text } = await runProgram(holdfast, world, { effects: [{ tool: CHARGE.name, dedupe: "session" }] });
  expect(ran).toBe(1);
  expect(text).toMatch(/Not run again.*receipt 1/);
});

test("a call whose agent died in it is verified, and the model reads the outcome", async () => {
  const holdfast = await openStore();
  const options: DurableOptions = { effects: [{ tool: CHARGE.name, verify: () => landed("receipt 7") }] };
  const dying = {
    model: calls(CHARGE),
    run: () => {
      throw interrupt;
    },
  };
  expect((await runProgram(holdfast, dying, options)).error).toBeDefined();
  let ran = 0;
  const told: string[] = [];
  const model: FakeModel = (prompt, read) => {
    told.push(prompt);
    return calls(CHARGE)(prompt, read);
  };
  const { text } = await runProgram(holdfast, { model, run: () => ++ran }, options);
  expect(ran).toBe(0);
  expect(told[0]).toMatch(/Continue.*\n\[holdfast\] mcp__shop__charge.*receipt 7/);
  expect(text).toMatch(/Not run again.*receipt 7/);
});

test("a call that never took effect runs when the agent asks for it again", async () => {
  const holdfast = await openStore();
  const options: DurableOptions = { effects: [{ tool: CHARGE.name, verify: () => never() }] };
  const dying = {
    model: calls(CHARGE),
    run: () => {
      throw interrupt;
    },
  };
  await runProgram(holdfast, dying, options);
  const { text } = await runProgram(holdfast, { model: calls(CHARGE), run: () => "receipt 1" }, options);
  expect(text).toBe("done: receipt 1");
});

test("a call that cannot be verified waits for a person and is deferred until then", async () => {
  const holdfast = await openStore();
  const dying = {
    model: calls(PUSH),
    run: () => {
      throw interrupt;
    },
  };
  await runProgram(holdfast, dying);
  const world = { model: calls(PUSH), run: () => expect.unreachable("the effect ran twice") };
  const waiting = await runProgram(holdfast, world);
  expect(waiting.result?.stop_reason).toBe("tool_deferred");
  expect(await runProgram(holdfast, world)).toMatchObject({ error: { code: "SESSION_HAS_OPEN_CALLS" } });
  const { calls: open } = await holdfast.calls.list();
  const answer = { outcome: "landed", result: "pushed", by: "ann", why: "seen" } as const;
  await holdfast.calls.resolve(open[0]?.callId ?? "", answer);
  const { text } = await runProgram(holdfast, world);
  expect(text).toMatch(/ann confirmed.*pushed/);
});

test("an answer that was recorded but not in the transcript is replayed, not run", async () => {
  const holdfast = await openStore();
  let ran = 0;
  await using session = await holdfast.session("order");
  const { query } = fakeSdk({ model: calls(CHARGE), run: () => `receipt ${++ran}` });
  // The process dies before the line with the answer reaches the store.
  const dies: typeof query = (input) => {
    const store = input.options?.["sessionStore"] as {
      append(key: object, entries: object[]): Promise<void>;
    };
    const append = (key: object, entries: object[]) => {
      if (JSON.stringify(entries).includes("tool_result")) throw new Error("killed");
      return store.append(key, entries);
    };
    return query({ ...input, options: { ...input.options, sessionStore: { ...store, append } } });
  };
  const first = durable(session, dies, RULES).query({ prompt: "Ship it" });
  await expect(all(first)).rejects.toThrow("killed");
  const messages = await all(durable(session, query, RULES).query({ prompt: "Ship it" }));
  expect([ran, messages.at(-1)?.result]).toEqual([1, expect.stringMatching(/Not run again.*receipt 1/)]);
});

test("a failure that the model read is an outcome; a refused permission is a failure", async () => {
  const holdfast = await openStore();
  const failing = {
    model: calls(PUSH),
    run: () => {
      throw new Error("exit code 1");
    },
  };
  expect((await runProgram(holdfast, failing)).ledger).toEqual([]);
  const refusing = { model: calls(CHARGE), run: () => expect.unreachable("it was refused"), allowed: [] };
  await using session = await holdfast.session("other");
  const { query } = fakeSdk(refusing);
  const canUseTool = async () => ({ behavior: "deny", message: "not today" }) as const;
  const d = durable(session, query, { ...RULES, permissions: "sdk" });
  const messages = await all(d.query({ prompt: "Charge it", options: { canUseTool } }));
  expect(messages.at(-1)?.result).toBe("done: not today");
  const { calls: recorded } = await holdfast.sessions.get("other");
  expect(recorded.map(({ status }) => status)).toEqual(["failed"]);
});

test.each([
  ["approve", "done: charged 4712", ["4712"]],
  ["deny", /Not run, nothing has happened.*too much/, []],
] as const)("a permission waits in the queue of people: %s", async (act, expected, charged) => {
  const holdfast = await openStore();
  const ran: unknown[] = [];
  const world: FakeWorld = {
    model: calls(CHARGE),
    run: (_name, { order }) => {
      ran.push(order);
      return `charged ${order}`;
    },
    allowed: [],
  };
  const running = runProgram(holdfast, world, {});
  let open = (await holdfast.calls.list()).calls;
  while (open.length === 0) {
    await new Promise((resolve) => setImmediate(resolve));
    open = (await holdfast.calls.list()).calls;
  }
  const callId = open[0]?.callId ?? "";
  if (act === "approve") await holdfast.calls.approve(callId, { by: "ann", args: { order: "4712" } });
  else await holdfast.calls.deny(callId, { by: "ann", why: "too much" });
  expect((await running).text).toEqual(
    typeof expected === "string" ? expected : expect.stringMatching(expected),
  );
  expect(ran).toEqual(charged);
});

test("an answered prompt is not asked again, and its result comes from the record", async () => {
  const holdfast = await openStore();
  const world = { model: () => "Shipped.", run: () => null };
  const prompt = { id: "ship", text: "Ship it" };
  await runProgram(holdfast, world, RULES, prompt);
  const again = await runProgram(holdfast, world, RULES, prompt);
  expect([again.text, again.asked]).toEqual(["Shipped.", []]);
  const other = await runProgram(holdfast, world, RULES, "And now?");
  expect(other.asked[0]).toMatchObject({ prompt: "And now?", options: { resume: expect.any(String) } });
});

test("limits of the session hold over all its queries", async () => {
  const holdfast = await openStore();
  {
    await using session = await holdfast.session("order");
    await session.limit({ usd: 0.005, turns: 3 });
  }
  const world = { model: () => "ok", run: () => null };
  const first = await runProgram(holdfast, world, RULES, "One");
  // 1,000 tokens in and 100 out of claude-sonnet-5-5.
  expect(first.spent).toEqual({ usd: 0.003, tokens: 1_100, turns: 1 });
  const second = await runProgram(holdfast, world, RULES, "Two");
  expect(second.asked[0]?.options).toMatchObject({ maxBudgetUsd: expect.closeTo(0.002), maxTurns: 2 });
  const third = await runProgram(holdfast, world, RULES, "Three");
  expect(third).toMatchObject({ asked: [], error: { code: "BUDGET_EXCEEDED" } });
});

test("a fork continues a copy of the conversation, and its parent's stays as it was", async () => {
  const holdfast = await openStore();
  const world = { model: () => "ok", run: () => null };
  const parent = await runProgram(holdfast, world, RULES, "One");
  await holdfast.sessions.fork("order", "copy");
  const fork = await runProgram(holdfast, world, RULES, "Two", "copy");
  const { resume, forkSession, sessionId } = fork.asked[0]?.options ?? {};
  expect([resume, forkSession]).toEqual([parent.asked[0]?.options["sessionId"], true]);
  const again = await runProgram(holdfast, world, RULES, "Three", "copy");
  expect(again.asked[0]?.options).toMatchObject({ resume: sessionId });
  expect(again.asked[0]?.options["forkSession"]).toBeUndefined();
});

test("transcripts are erased with their session", async () => {
  const holdfast = await openStore();
  await runProgram(holdfast, { model: () => "ok", run: () => null });
  expect((await holdfast.journal.row("claude-agent/order")).state).toBe("live");
  await holdfast.sessions.erase("order");
  expect((await holdfast.journal.row("claude-agent/order")).state).toBe("gone");
});
