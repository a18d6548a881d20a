// OpenAI Agents' run() with a model and tools that are durable together.

import { Agent, type Model, run, setTracingDisabled } from "@openai/agents";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { DefiniteFailure, type Holdfast, open, type Session } from "../../../src/index.ts";
import { callContext, type Durable, durable } from "../../../src/integrations/openai-agents/index.ts";
import { resultsIn, ScriptedModel } from "./scripted-model.ts";

setTracingDisabled(true);

let holdfast: Holdfast;
let session: Session;
let world: string[];
beforeEach(async () => {
  holdfast = await open("memory:");
  session = await holdfast.session("order-4711");
  world = [];
});
afterEach(() => holdfast.close());

/** The view of another process: the same session without any cache. */
async function startedAgain(): Promise<Durable> {
  await session.close();
  session = await holdfast.session("order-4711");
  return durable(session);
}

const ORDER = z.object({ order: z.string() });

interface Different {
  readonly needsApproval?: boolean;
  readonly execute?: (input: { order: string }, context: unknown, details?: object) => unknown;
}

function chargeTool(d: Durable, { execute, needsApproval = false }: Different = {}) {
  return d.tool({
    name: "charge",
    description: "Charges an order",
    parameters: ORDER,
    needsApproval,
    execute: (input, context, details) => {
      if (execute) return execute(input, context, details);
      world.push(input.order);
      return { charged: input.order };
    },
  });
}

/** Asks for one charge, then answers with a new text each time. */
function payingModel(): ScriptedModel {
  let answers = 0;
  return new ScriptedModel((request) =>
    resultsIn(request) > 0 ? [{ text: `paid ${++answers}` }] : [{ call: "charge", args: { order: "4711" } }],
  );
}

function shop(d: Durable, model: Model, tools = [chargeTool(d)]): Agent {
  return new Agent({ name: "Shop", instructions: "Be brief.", model: d.model(model), tools });
}

/** Our error inside the SDK's wrapper. */
function codeOf(error: unknown): unknown {
  const { code, error: inner } = error as { code?: unknown; error?: unknown };
  return code ?? (inner ? codeOf(inner) : undefined);
}

async function refusalOf(run: Promise<unknown>): Promise<unknown> {
  return run.then(
    () => "no refusal",
    (error: unknown) => codeOf(error),
  );
}

describe("a finished run", () => {
  test("with an id is answered from the record, and its items are stored once", async () => {
    const model = payingModel();
    const first = durable(session);
    const input = { id: "pay", text: "Pay order 4711" };
    const one = await run(shop(first, model), await first.input(input), { session: first.session });
    const items = await first.session.getItems();
    const again = await startedAgain();
    const two = await run(shop(again, model), await again.input(input), { session: again.session });
    expect([one.finalOutput, two.finalOutput]).toEqual(["paid 1", "paid 1"]);
    expect(two.newItems.map(({ type }) => type)).toEqual(one.newItems.map(({ type }) => type));
    expect(two.history).toEqual(one.history);
    expect(await again.session.getItems()).toEqual(items);
    expect([world, model.asked.length]).toEqual([["4711"], 2]);
  });

  test("is the history of the next one", async () => {
    const model = payingModel();
    const d = durable(session);
    await run(shop(d, model), await d.input("Pay order 4711"), { session: d.session });
    const again = await startedAgain();
    const next = await run(shop(again, model), await again.input("And now?"), { session: again.session });
    expect(next.finalOutput).toBe("paid 2");
    const asked = (model.asked[2]?.input ?? []) as { type: string }[];
    expect(asked.map(({ type }) => type)).toEqual([
      "message",
      "function_call",
      "function_call_result",
      "message",
      "message",
    ]);
    expect(session.messages.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "user",
      "assistant",
    ]);
    expect(session.budget.spent).toMatchObject({ tokens: 45, turns: 3 });
  });
});

describe("streaming", () => {
  test("a call is streamed after its answer is durable, and a replay streams the same", async () => {
    const model = payingModel();
    const d = durable(session);
    const streamed = await run(shop(d, model), await d.input({ id: "pay", text: "Pay" }), {
      session: d.session,
      stream: true,
    });
    let told = 0;
    for await (const event of streamed) {
      if (event.type !== "raw_model_stream_event" || event.data.type !== "model") continue;
      told += 1;
      expect(session.messages.at(-1)?.role).toBe("assistant");
    }
    expect(told).toBe(1);
    const again = await startedAgain();
    const replay = await run(shop(again, model), await again.input({ id: "pay", text: "Pay" }), {
      session: again.session,
      stream: true,
    });
    let text = "";
    for await (const chunk of replay.toTextStream()) text += chunk;
    await replay.completed;
    expect([text, replay.finalOutput, streamed.finalOutput]).toEqual(["paid 1", "paid 1", "paid 1"]);
    expect([world, model.asked.length, (await again.session.getItems()).length]).toEqual([["4711"], 2, 4]);
  });
});

describe("hand-offs", () => {
  function office(d: Durable, model: Model): Agent {
    const cashier = new Agent({
      name: "Cashier",
      instructions: "You take money.",
      model: d.model(model),
      tools: [chargeTool(d)],
    });
    return new Agent({ name: "Desk", model: d.model(model), handoffs: [cashier] });
  }

  test("a run that is killed after a hand-off continues with the other agent", async () => {
    let isDown = true;
    const model = new ScriptedModel((request) => {
      if (resultsIn(request) === 0) return [{ call: "transfer_to_Cashier", args: {} }];
      if (resultsIn(request) === 1) return [{ call: "charge", args: { order: "4711" } }];
      if (isDown) throw new Error("the provider is down");
      return [{ text: "paid" }];
    });
    const d = durable(session);
    await expect(run(office(d, model), await d.input("Pay"), { session: d.session })).rejects.toThrow("down");
    isDown = false;
    const again = await startedAgain();
    const result = await run(office(again, model), await again.input("Pay"), { session: again.session });
    expect([result.finalOutput, result.lastAgent?.name, world]).toEqual(["paid", "Cashier", ["4711"]]);
    expect(model.asked.length).toBe(4);
    expect(model.asked.at(-1)?.systemInstructions).toBe("You take money.");
  });
});

describe("a prompt at a recorded position", () => {
  test("that changed is PROMPT_DIVERGED, and nothing is sampled", async () => {
    const model = payingModel();
    const d = durable(session);
    await run(shop(d, model), await d.input({ id: "pay", text: "Pay" }), { session: d.session });
    const again = await startedAgain();
    const agent = shop(again, model).clone({ instructions: `It is ${Date.now()}.` });
    const input = await again.input({ id: "pay", text: "Pay" });
    expect(await refusalOf(run(agent, input, { session: again.session }))).toBe("PROMPT_DIVERGED");
    expect(model.asked.length).toBe(2);
  });
});

describe("tools", () => {
  test("a tool that throws has no outcome: the model is not asked until a person answers", async () => {
    const model = payingModel();
    const broken = { execute: () => Promise.reject(new Error("the line broke")) };
    const d = durable(session);
    const first = run(shop(d, model, [chargeTool(d, broken)]), await d.input("Pay"), { session: d.session });
    expect(await refusalOf(first)).toBe("SESSION_HAS_OPEN_CALLS");
    const [call] = session.openCalls;
    expect(call).toMatchObject({ tool: "charge", status: "waiting" });
    await holdfast.calls.resolve(call?.callId ?? "", {
      outcome: "landed",
      result: { charged: "4711" },
      by: "me",
      why: "seen",
    });
    const again = await startedAgain();
    const result = await run(shop(again, model), await again.input("Pay"), { session: again.session });
    expect([result.finalOutput, world, model.asked.length]).toEqual(["paid 1", [], 2]);
  });

  test("a definite failure is reported to the model", async () => {
    const model = payingModel();
    const refusing = {
      execute: () => {
        throw new DefiniteFailure("card declined");
      },
    };
    const d = durable(session);
    await run(shop(d, model, [chargeTool(d, refusing)]), await d.input("Pay"), { session: d.session });
    expect(JSON.stringify(model.asked.at(-1)?.input)).toContain("card declined");
    expect(session.openCalls).toEqual([]);
  });

  test("of one answer run in parallel, each through the ledger, with the key of its call", async () => {
    const keys: string[] = [];
    const model = new ScriptedModel((request) =>
      resultsIn(request) > 0
        ? [{ text: "paid both" }]
        : ["1", "2"].map((order) => ({ call: "charge", args: { order } })),
    );
    const execute: Different["execute"] = ({ order }, _context, details) => {
      keys.push(callContext(details).key);
      world.push(order);
      return order;
    };
    const d = durable(session);
    await run(shop(d, model, [chargeTool(d, { execute })]), await d.input("Pay"), { session: d.session });
    expect([world.sort(), new Set(keys).size]).toEqual([["1", "2"], 2]);
  });

  test("invalid arguments are reported to the model, and no call is made", async () => {
    const model = new ScriptedModel((request) =>
      resultsIn(request) > 0 ? [{ text: "sorry" }] : [{ call: "charge", args: { order: 7 } }],
    );
    const d = durable(session);
    const result = await run(shop(d, model), await d.input("Pay"), { session: d.session });
    expect([result.finalOutput, world, session.openCalls]).toEqual(["sorry", [], []]);
  });
});

describe("approval", () => {
  test.each([
    ["approve", ["4711"]],
    ["deny", []],
  ] as const)("in the queue: %s", async (answer, charged) => {
    const model = payingModel();
    const d = durable(session);
    const asking = (of: Durable) => [chargeTool(of, { needsApproval: true })];
    const first = run(shop(d, model, asking(d)), await d.input("Pay"), { session: d.session });
    expect(await refusalOf(first)).toBe("SESSION_HAS_OPEN_CALLS");
    expect(world).toEqual([]);
    const [call] = session.openCalls;
    await holdfast.calls[answer](call?.callId ?? "", { by: "me", why: "because" });
    const again = await startedAgain();
    const result = await run(shop(again, model, asking(again)), await again.input("Pay"), {
      session: again.session,
    });
    expect([result.finalOutput, world]).toEqual(["paid 1", charged]);
  });

  test("left to the SDK: an interruption, and once approved it runs", async () => {
    const model = payingModel();
    const d = durable(session, { approvals: "sdk" });
    const agent = shop(d, model, [chargeTool(d, { needsApproval: true })]);
    const result = await run(agent, await d.input("Pay"), { session: d.session });
    expect([result.interruptions.length, world]).toEqual([1, []]);
    for (const each of result.interruptions) result.state.approve(each);
    const resumed = await run(agent, result.state, { session: d.session });
    expect([resumed.finalOutput, world]).toEqual(["paid 1", ["4711"]]);
  });
});
