// A limit in a unit that the model does not report would be no limit: it is an error after the first answer.

import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, type Holdfast, type Model, open, type Session, tool } from "../../src/index.ts";
import { callBlock, script } from "../ledger/bench.ts";

let holdfast: Holdfast;
let session: Session;
let charged = 0;
beforeEach(async () => {
  charged = 0;
  holdfast = await open("memory:");
  session = await holdfast.session("s");
});
afterEach(() => holdfast.close());

const charge = tool({
  name: "charge",
  description: "Charges.",
  effect: "mutate",
  input: z.object({}),
  execute: () => {
    charged += 1;
  },
});

/** Asks for a charge for ever, and reports this usage. */
const spending = (usage?: object): Model => {
  let turn = 0;
  return async () => {
    turn += 1;
    const blocks = [callBlock(`c${turn}`, "charge", { turn })];
    return { message: { blocks }, ...(usage && { usage }) };
  };
};

test.each([
  ["usd", { usd: 0.01 }, { tokens: 2_000_000 }, "pass `prices`, or limit tokens or turns"],
  ["usd", { usd: 0.01, tokens: 10 }, undefined, "pass `prices`, or limit tokens or turns"],
  ["tokens", { tokens: 10 }, { usd: 1 }, "limit turns"],
])("%s: %o with usage %o", async (unit, budget, usage, hint) => {
  const run = session.run({ model: spending(usage), tools: [charge], prompt: "go", budget });
  await expect(run).rejects.toMatchObject({
    code: "BUDGET_UNIT_UNKNOWN",
    hint: expect.stringContaining(hint),
    data: { session: "s", unit },
  });
  expect(session.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  expect(session.budget).toMatchObject({ spent: { ...usage, turns: 1 }, reserved: {} });
  expect(charged).toBe(0);
});

test("a final answer stays, and the next run returns it", async () => {
  const prompt = { id: "p", text: "go" };
  const model: Model = async () => ({ message: { text: "done" } });
  await expect(session.run({ model, prompt, budget: { usd: 1 } })).rejects.toMatchObject({
    code: "BUDGET_UNIT_UNKNOWN",
  });
  expect(await session.run({ model, prompt })).toMatchObject({ status: "done", text: "done" });
});

test("a limit from outside the run counts, too", async () => {
  await session.limit({ usd: 1 });
  const run = session.run({ model: async () => ({ message: { text: "done" } }), prompt: "go" });
  await expect(run).rejects.toMatchObject({ code: "BUDGET_UNIT_UNKNOWN" });
});

test("a free model reports 0, and turns need no report", async () => {
  const free: Model = async () => ({ message: { text: "done" }, usage: { usd: 0 } });
  expect(await session.run({ model: free, prompt: "go", budget: { usd: 1 } })).toMatchObject({
    status: "done",
  });
  const silent: Model = async () => ({ message: { text: "done" } });
  const other = await holdfast.session("other");
  expect(await other.run({ model: silent, prompt: "go", budget: { turns: 5 } })).toMatchObject({
    status: "done",
  });
});

test("an answer that lacks the unit after one that had it is no error", async () => {
  let turn = 0;
  const model: Model = async () => {
    turn += 1;
    if (turn === 2) return { message: { text: "done" } };
    return { message: { blocks: [callBlock("c1", "charge", {})] }, usage: { usd: 0.1 } };
  };
  const result = await session.run({ model, tools: [charge], prompt: "go", budget: { usd: 1 } });
  expect(result).toMatchObject({ status: "done", spent: { usd: 0.1, turns: 2 } });
});

test("a sub-agent whose model does not report its parent's unit fails its call at once", async () => {
  let asked = 0;
  const silent: Model = async () => {
    asked += 1;
    return { message: { text: "found" } };
  };
  const sub = agentTool({
    name: "sub",
    description: "Researches.",
    input: z.object({}),
    run: (_args, child) => child.run({ model: silent, prompt: "Research." }),
  });
  const parent = script([callBlock("c1", "sub", {})]);
  const model: Model = async (request) => ({ ...(await parent(request)), usage: { usd: 0.1 } });
  const result = await session.run({ model, tools: [sub], prompt: "go", budget: { usd: 1 } });
  expect(result).toMatchObject({ status: "done", waiting: [] });
  expect(asked).toBe(1);
  expect(JSON.stringify(session.messages)).toContain("does not report usd");
});
