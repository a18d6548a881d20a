// A durable model rejects function tools that were not made with `d.tool`.

import { Agent, type FunctionTool, run, setTracingDisabled, tool, webSearchTool } from "@openai/agents";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, open, type Session } from "../../../src/index.ts";
import { type Durable, durable } from "../../../src/integrations/openai-agents/index.ts";
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

const charge = {
  name: "charge",
  description: "Charges an order",
  parameters: z.object({ order: z.string() }),
  execute: ({ order }: { order: string }) => {
    world.push(order);
    return "charged";
  },
};

const payingModel = () =>
  new ScriptedModel((request) =>
    resultsIn(request) > 0 ? [{ text: "paid" }] : [{ call: "charge", args: { order: "4711" } }],
  );

function shop(d: Durable, model: ScriptedModel, tools: readonly unknown[]): Agent {
  return new Agent({ name: "Shop", model: d.model(model), tools: tools as FunctionTool[] });
}

test("a plain function tool is rejected by name before the model is asked", async () => {
  const model = payingModel();
  const d = durable(session);
  const agent = shop(d, model, [tool(charge), d.tool({ ...charge, name: "debit" }), webSearchTool()]);
  const refused = { code: "INPUT_INVALID", message: expect.stringMatching(/^tool charge was not made with/) };
  await expect(run(agent, await d.input("Pay"), { session: d.session })).rejects.toMatchObject(refused);
  const streamed = await run(agent, await d.input("Pay"), { session: d.session, stream: true });
  await expect(streamed.completed).rejects.toMatchObject(refused);
  expect([model.asked.length, world]).toEqual([0, []]);
});

test("tools named in plainTools and hosted tools are allowed; a durable tool is sent unchanged", async () => {
  for (const plainTools of [["charge"], "all"] as const) {
    const model = payingModel();
    await session.close();
    session = await holdfast.session(`order-${plainTools}`);
    const d = durable(session, { plainTools });
    const agent = shop(d, model, [
      tool(charge),
      d.tool({ ...charge, name: "debit", effect: "mutate" }),
      webSearchTool(),
    ]);
    const result = await run(agent, await d.input("Pay"), { session: d.session });
    expect(result.finalOutput).toBe("paid");
    const [plain, made] = model.asked[0]?.tools ?? [];
    expect(JSON.stringify(made)).toBe(JSON.stringify({ ...plain, name: "debit" }));
  }
  expect(world).toEqual(["4711", "4711"]);
});
