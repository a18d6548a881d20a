/** The next attempt of a sub-agent continues with the work of an earlier one. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { anything } from "../../bench/schema.ts";
import {
  type AgentToolSpec,
  agentTool,
  type Holdfast,
  type Model,
  open,
  type Tool,
} from "../../src/index.ts";
import { callBlock, counting, script } from "../ledger/bench.ts";

let holdfast: Holdfast;
let charged: Set<string>;
let charge: Tool;

beforeEach(async () => {
  holdfast = await open("memory:");
  charged = new Set();
  charge = counting({ effects: [] }, "charge", {
    idempotent: true,
    execute: (_args, { key }) => {
      charged.add(key);
      return "charged";
    },
  });
});
afterEach(() => holdfast.close());

/** A tool that is an agent, for tests that do not care about its input. */
function subAgent(spec: Pick<AgentToolSpec<unknown>, "name" | "run" | "budget">): Tool {
  return agentTool({ description: "", input: anything, ...spec }) as unknown as Tool;
}

/** Charges, throws `error` once, and says that it has paid. */
function payer(error: () => Promise<Error> | Error): Model {
  let isBroken = false;
  return async ({ messages }) => {
    if (messages.at(-1)?.role !== "tool") {
      return { message: { blocks: [callBlock("x", "charge", { usd: 5 })] }, usage: { usd: 0.1 } };
    }
    if (isBroken) return { message: { text: "paid" }, usage: { usd: 0.1 } };
    isBroken = true;
    throw await error();
  };
}

/** A model that calls the tool again whenever it has failed. */
const stubborn =
  (name: string): Model =>
  async ({ messages }) => {
    const last = messages.at(-1);
    const id = `b${messages.length}`;
    const failed = last?.blocks.some((block) => block.kind === "tool_result" && block.isError === true);
    if (last?.role === "user" || failed)
      return { message: { blocks: [callBlock(id, name)] }, usage: { usd: 0.1 } };
    return { message: { text: "done" }, usage: { usd: 0.1 } };
  };

describe("a sub-agent that has charged", () => {
  test.each([{ status: 400 }, { status: 401 }, { status: 429 }, { code: "ECONNREFUSED" }])(
    "is resumed when its model rejects the request with %j",
    async (look) => {
      const model = payer(() => Object.assign(new Error("no"), look));
      const pay = subAgent({
        name: "pay",
        run: (_args, child) => child.run({ model, tools: [charge], modelRetries: 0, prompt: "pay" }),
      });
      const session = await holdfast.session("order");
      const result = await session.run({ model: stubborn("pay"), tools: [pay], prompt: "Pay" });
      expect(result.status).toBe("done");
      expect(charged.size).toBe(1);
    },
  );

  test("has not definitely failed when its budget is spent", async () => {
    let seen = (): void => undefined;
    const other = new Promise<void>((resolve) => {
      seen = resolve;
    });
    const model = payer(() => other.then(() => new Error("the model breaks")));
    const pay = subAgent({
      name: "pay",
      budget: { usd: 1 },
      run: (_args, child) => child.run({ model, tools: [charge], prompt: "pay" }),
    });
    // Costs more than its budget: the cost of a model call is known only afterwards.
    const look = subAgent({
      name: "look",
      budget: { usd: 0.2 },
      run: async (_args, child) => {
        const dear: Model = async () => ({ message: { text: "seen" }, usage: { usd: 1.2 } });
        const result = await child.run({ model: dear, prompt: "look" });
        setTimeout(seen, 200);
        return result;
      },
    });
    const session = await holdfast.session("order");
    const tools = [pay, look];
    const both = script([callBlock("b0", "pay"), callBlock("b1", "look")]);
    await session.run({ model: both, tools, prompt: "Pay", budget: { usd: 2 } });
    const [call] = (await holdfast.sessions.get("order")).calls;
    expect(call).toMatchObject({ callId: "b0" });
    expect(call?.status).not.toBe("failed");
    await session.run({ model: stubborn("pay"), tools, prompt: "There is money now", budget: { usd: 20 } });
    expect(charged.size).toBe(1);
  });
});

describe("the run of a sub-agent that broke", () => {
  /** Plans first, and acts on request. */
  const planner: Model = async ({ messages }) => {
    const last = messages.at(-1);
    const isTold = last?.role === "user" && JSON.stringify(last.blocks).includes("do it");
    if (isTold) return { message: { blocks: [callBlock(`x${messages.length}`, "charge")] } };
    return { message: { text: last?.role === "tool" ? "charged" : "I would charge" } };
  };

  test("runs again to its end, and repeats no answered question", async () => {
    let asked = 0;
    let attempts = 0;
    const model: Model = (input) => {
      asked += 1;
      return planner(input);
    };
    const pay = subAgent({
      name: "pay",
      run: async (_args, child) => {
        attempts += 1;
        await child.run({ model, tools: [charge], prompt: "plan it" });
        if (attempts === 1) throw new Error("it breaks between its two steps");
        return child.run({ model, tools: [charge], prompt: "now do it" });
      },
    });
    const session = await holdfast.session("order");
    await session.run({ model: script([callBlock("b", "pay")]), tools: [pay], prompt: "Pay" });
    const [call] = (await holdfast.sessions.get("order")).calls;
    expect(call).toMatchObject({ status: "completed", result: { value: { text: "charged" } } });
    expect(charged.size).toBe(1);
    expect({ attempts, asked }).toEqual({ attempts: 2, asked: 3 });
  });

  test("repeats its prompts as often as before, and no more", async () => {
    let asked = 0;
    let attempts = 0;
    const model: Model = async () => ({ message: { text: `answer ${++asked}` } });
    const pay = subAgent({
      name: "pay",
      run: async (_args, child) => {
        attempts += 1;
        await child.run({ model, prompt: "go on" });
        const second = await child.run({ model, prompt: "go on" });
        if (attempts === 1) throw new Error("it breaks after its second step");
        return second;
      },
    });
    const session = await holdfast.session("order");
    await session.run({ model: script([callBlock("b", "pay")]), tools: [pay], prompt: "Pay" });
    const [call] = (await holdfast.sessions.get("order")).calls;
    expect(call).toMatchObject({ result: { value: { text: "answer 2" } } });
    expect(asked).toBe(2);
  });
});
