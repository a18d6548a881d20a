// One session, a run per request: the next request's tools settle calls that a killed request left open.

import { Agent, run, setTracingDisabled } from "@openai/agents";
import { generateText, stepCountIs, tool } from "ai";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { type Call, type Holdfast, landed, never, open, type Session } from "../../../src/index.ts";
import { callContext, durable } from "../../../src/integrations/ai-sdk/index.ts";
import { durable as durableAgents } from "../../../src/integrations/openai-agents/index.ts";
import { answer } from "../ai-sdk/paying-model.ts";
import { says, scripted, toolCall } from "../ai-sdk/scripted-world.ts";
import { resultsIn, ScriptedModel } from "../openai-agents/scripted-model.ts";

setTracingDisabled(true);

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const holdfast of opened.splice(0)) await holdfast.close();
});

class World {
  readonly log: string[] = [];
  readonly given: { readonly messages: unknown; readonly key: string }[] = [];
  isCut = false;
  private readonly holdfast: Holdfast;

  constructor(holdfast: Holdfast) {
    opened.push(holdfast);
    this.holdfast = holdfast;
  }

  async during<Result>(body: (session: Session) => Promise<Result>): Promise<Result> {
    const session = await this.holdfast.session("shop");
    try {
      return await body(session);
    } finally {
      await session.close();
    }
  }

  /** The effect, followed by the end of its program if the test cuts it off there. */
  async charge(order: string, session: Session, signal: AbortSignal | undefined): Promise<object> {
    this.log.push(`charge ${order}`);
    if (!this.isCut) return { paid: order };
    this.isCut = false;
    const stopped = new Promise<object>((_, reject) => {
      signal?.addEventListener("abort", () => reject(new Error("cut off")), { once: true });
    });
    void session.close();
    return stopped;
  }

  /** Inside its charge, so that no outcome is recorded. */
  async killed(work: () => Promise<unknown>): Promise<void> {
    this.isCut = true;
    await expect(work()).rejects.toThrow();
    expect((await this.calls()).at(-1)).toMatchObject({ status: "unknown" });
  }

  async calls(): Promise<readonly Call[]> {
    return (await this.holdfast.sessions.get("shop")).calls;
  }

  async allow(callId: string): Promise<void> {
    await this.holdfast.calls.resolve(callId, { outcome: "retry", by: "ann", why: "fine" });
  }
}

async function world(): Promise<World> {
  return new World(await open("memory:"));
}

interface Program {
  readonly has?: "charge" | "other";
  readonly needsApproval?: boolean;
  readonly prompted?: "before tools" | "after tools";
  readonly verify?: (args: { order: string }) => ReturnType<typeof never> | ReturnType<typeof landed>;
}

const finds: Program = { verify: ({ order }) => landed({ paid: order }) };

/** A request over the AI SDK: its model charges the order and reports it. */
function request(at: World, order: string, how: Program = {}): Promise<string> {
  const { has = "charge", needsApproval = false, verify, prompted } = how;
  return at.during(async (session) => {
    const d = durable(session, { run: `r-${order}` });
    const prompt = () => d.messages({ id: `p-${order}`, text: order });
    const early = prompted === "before tools" ? await prompt() : null;
    const charge = tool({
      inputSchema: z.object({ order: z.string().transform((text) => text.toUpperCase()) }),
      needsApproval,
      execute: (input, options) => {
        at.given.push({ messages: options.messages, key: callContext(options).key });
        return at.charge(input.order, session, options.abortSignal);
      },
    });
    const tools = d.tools({ [has]: charge }, verify ? { [has]: { verify } as never } : {});
    const asks = answer([toolCall(`c-${order}`, "charge", { order })]);
    const model = d.model(scripted(...(has === "charge" ? [asks] : []), says(`done ${order}`)));
    const said = prompted === undefined ? { prompt: order } : { messages: early ?? (await prompt()) };
    return (await generateText({ model, tools, stopWhen: stepCountIs(5), ...said })).text;
  });
}

test("AI SDK: the next request's tool verifies the killed call, and both get their answers", async () => {
  const at = await world();
  await at.killed(() => request(at, "a", finds));
  expect(await request(at, "b", finds)).toBe("done b");
  const [first] = await at.calls();
  expect(first).toMatchObject({ status: "completed", settledBy: "verify", result: { value: { paid: "A" } } });
  expect(await request(at, "a", finds)).toBe("done a");
  expect(at.log).toEqual(["charge A", "charge B"]);
});

test("AI SDK: a call that never landed runs again with its key and its model's messages", async () => {
  const at = await world();
  const retries: Program = { verify: () => never() };
  await at.killed(() => request(at, "a", retries));
  expect(await request(at, "b", retries)).toBe("done b");
  expect(at.log).toEqual(["charge A", "charge A", "charge B"]);
  const [first, second] = at.given;
  expect(second?.key).toBe(first?.key);
  expect(second?.messages).toMatchObject([{ role: "user", content: [{ type: "text", text: "a" }] }]);
  expect(await request(at, "a", retries)).toBe("done a");
  expect(at.log).toHaveLength(3);
});

test("without its tool a pending call waits for a person, or for a program that has the tool", async () => {
  const at = await world();
  await at.killed(() => request(at, "a", finds));
  await expect(request(at, "x", { has: "other" })).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  expect((await at.calls())[0]).toMatchObject({ status: "waiting", lacksTool: true });
  expect(await request(at, "b", finds)).toBe("done b");
  expect(at.log).toEqual(["charge A", "charge B"]);
});

test("a call that needs approval does not run for another request until it is approved", async () => {
  const at = await world();
  await at.killed(() => request(at, "a"));
  const asks: Program = { needsApproval: true, verify: () => never() };
  await expect(request(at, "b", asks)).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  expect(at.log).toEqual(["charge A"]);
  expect((await at.calls())[0]).toMatchObject({ status: "waiting", lacksTool: false });
  await at.allow("c-a");
  await expect(request(at, "b", asks)).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  expect(at.log).toEqual(["charge A", "charge A"]);
  expect((await at.calls()).map(({ callId: id, status }) => `${id} ${status}`)).toEqual([
    "c-a completed",
    "c-b waiting",
  ]);
});

test("a new prompt is rejected until the tools are registered, and the error says so", async () => {
  const at = await world();
  const late: Program = { ...finds, prompted: "before tools" };
  const early: Program = { ...finds, prompted: "after tools" };
  await at.killed(() => request(at, "a", early));
  const refused = await request(at, "b", late).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    code: "SESSION_HAS_OPEN_CALLS",
    hint: expect.stringMatching(/before the prompt/),
  });
  expect((await at.calls())[0]).toMatchObject({ status: "unknown" });
  expect(await request(at, "b", early)).toBe("done b");
  expect(await request(at, "b", late)).toBe("done b");
  expect(at.log).toEqual(["charge A", "charge B"]);
});

/** The same over OpenAI Agents. */
function agentRequest(at: World, order: string, tools: "charge" | "strict" = "charge"): Promise<unknown> {
  return at.during(async (session) => {
    const d = durableAgents(session);
    const refuses = z.object({ order: z.string(), currency: z.string() });
    const charge = d.tool({
      name: "charge",
      description: "charges",
      parameters: tools === "strict" ? refuses : z.object({ order: z.string() }),
      verify: (input: { order: string }) => landed({ paid: input.order }),
      execute: (input: { order: string }, _context: unknown, details?: { signal?: AbortSignal }) =>
        at.charge(input.order, session, details?.signal),
    } as never);
    const model = new ScriptedModel((asked) =>
      resultsIn(asked) > 0
        ? [{ text: `done ${order}` }]
        : [{ call: "charge", args: { order }, id: `c-${order}` }],
    );
    const agent = new Agent({ name: "Shop", model: d.model(model), tools: [charge] });
    return (await run(agent, await d.input({ id: `p-${order}`, text: order }))).finalOutput;
  });
}

test("OpenAI Agents: the next input's tool verifies the killed call", async () => {
  const at = await world();
  await at.killed(() => agentRequest(at, "a"));
  expect(await agentRequest(at, "b")).toBe("done b");
  expect((await at.calls())[0]).toMatchObject({ status: "completed", settledBy: "verify" });
  expect(await agentRequest(at, "a")).toBe("done a");
  expect(at.log).toEqual(["charge a", "charge b"]);
});

test("OpenAI Agents: a tool that rejects recorded arguments is not reported as missing", async () => {
  const at = await world();
  await at.killed(() => agentRequest(at, "a"));
  await expect(agentRequest(at, "b", "strict")).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  const [call] = await at.calls();
  expect(call).toMatchObject({ status: "waiting", lacksTool: true });
  expect(call?.why).toMatch(/input is no longer accepted/);
  expect(await agentRequest(at, "b")).toBe("done b");
});
