// Calls and results of earlier prompts are sent to a provider as the SDK itself would send them.

import { generateText, stepCountIs, tool } from "ai";
import { expect, test } from "vitest";
import { z } from "zod";
import { type Block, type Message, tool as ownTool } from "../../../src/index.ts";
import { durable, fromAiSdk, toModelMessages } from "../../../src/integrations/ai-sdk/index.ts";
import { answer, type MockModel } from "./paying-model.ts";
import { freshHoldfast, says, scripted } from "./scripted-world.ts";

const answered = (...blocks: Block[]) => ({ role: "assistant", blocks }) as unknown as Message;
const results = (...blocks: Block[]) => ({ role: "tool", blocks }) as unknown as Message;

test("invalid arguments of a rejected call are sent as {}, which providers accept", async () => {
  const holdfast = await freshHoldfast();
  const session = await holdfast.session("s");
  const inputs = ["{oops", "42", '"text"', "[1]", '{"order":"A"}', ""];
  const wants = inputs.map(
    (input, index) => ({ type: "tool-call", toolCallId: `c${index}`, toolName: "charge", input }) as const,
  );
  const run = async (prompt: string, model: MockModel) => {
    const d = durable(session);
    const charge = tool({
      inputSchema: z.object({ order: z.string() }),
      execute: ({ order }) => `charged ${order}`,
    });
    const tools = d.tools({ charge });
    await generateText({
      model: d.model(model),
      tools,
      messages: await d.messages(prompt),
      stopWhen: stepCountIs(9),
    });
  };
  await run("Pay", scripted(answer(wants), says("sorry")));
  const next = scripted(says("hello"));
  await run("And now?", next);
  const told = next.doGenerateCalls[0]?.prompt[1]?.content as { input: unknown }[];
  expect(told.map(({ input }) => input)).toEqual([{}, {}, {}, {}, { order: "A" }, {}]);
  // The record keeps the model's own arguments.
  const stored = session.messages[1]?.blocks.map((block) => block.kind === "tool_call" && block.args);
  expect(stored).toEqual(["{oops", 42, "text", [1], { order: "A" }, {}]);

  const own = scripted(answer(wants.slice(0, 1)), says("sorry"));
  const charge = ownTool({
    name: "charge",
    description: "Charges an order",
    effect: "mutate",
    input: z.object({ order: z.string() }),
    execute: () => "charged",
  });
  const other = await holdfast.session("own");
  await other.run({ model: fromAiSdk(own), tools: [charge], prompt: "Pay" });
  expect(own.doGenerateCalls[1]?.prompt[1]?.content).toMatchObject([{ type: "tool-call", input: {} }]);
});

test("text arguments that a tool accepted are sent unchanged", async () => {
  const holdfast = await freshHoldfast();
  const call = { kind: "tool_call", id: "c", name: "grammar", args: "a + b" } as const;
  const told = await toModelMessages(
    [answered(call), results({ kind: "tool_result", callId: "c", content: "3" })],
    holdfast,
  );
  expect(told[0]?.content).toMatchObject([{ input: "a + b" }]);
});

test("a result has the provider options of its call, as the SDK would send it", async () => {
  const holdfast = await freshHoldfast();
  const session = await holdfast.session("s");
  const providerMetadata = { google: { thoughtSignature: "signed" } };
  const wants = {
    type: "tool-call",
    toolCallId: "c",
    toolName: "charge",
    input: '{"order":"A"}',
    providerMetadata,
  } as const;
  const model = scripted(answer([wants]), says("paid"), says("hello"));
  for (const prompt of ["Pay", "And now?"]) {
    const d = durable(session);
    const charge = tool({ inputSchema: z.object({ order: z.string() }), execute: () => "charged" });
    const tools = d.tools({ charge });
    await generateText({
      model: d.model(model),
      tools,
      messages: await d.messages(prompt),
      stopWhen: stepCountIs(9),
    });
  }
  const [, first, second] = model.doGenerateCalls.map(({ prompt }) =>
    prompt.find(({ role }) => role === "tool"),
  );
  expect(first?.content).toMatchObject([{ providerOptions: providerMetadata }]);
  expect(second).toEqual(first);
});
