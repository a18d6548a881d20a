/**
 * An AI SDK program that survives a crash. `durable(session)` records each answer of the model before its
 * tools start, and runs their calls through the ledger. Run again after a crash, the program gets its answers
 * from the record.
 */

import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { open } from "holdfast";
import { callContext, durable } from "holdfast/ai-sdk";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

let charges = 0;
const charge = tool({
  description: "Charges an order",
  inputSchema: z.object({ order: z.string() }),
  execute: ({ order }, options) =>
    `receipt ${++charges} for ${order}, key ${callContext(options).key.slice(0, 3)}`,
});

// A model that asks for a charge under a new id each time, and fails after its first answer.
let asked = 0;
const model = (isUp: boolean) =>
  new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const isPaid = prompt.some(({ role }) => role === "tool");
      if (isPaid && !isUp) throw new Error("the network is down");
      const call = {
        type: "tool-call",
        toolCallId: `call-${++asked}`,
        toolName: "charge",
        input: '{"order":"4711"}',
      } as const;
      return {
        content: isPaid ? [{ type: "text", text: "Order 4711 is paid." }] : [call],
        finishReason: { unified: isPaid ? "stop" : "tool-calls", raw: undefined },
        usage: {
          inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 5, text: 5, reasoning: 0 },
        },
        warnings: [],
      };
    },
  });

const holdfast = await open(temporaryFolder());

async function program(isUp: boolean): Promise<string> {
  const session = await holdfast.session("order-4711");
  const d = durable(session, { prices: { "mock-model": { input: 3, output: 15 } } });
  try {
    const { text } = await generateText({
      model: d.model(model(isUp)),
      tools: d.tools({ charge }, { charge: { idempotent: true } }),
      messages: await d.messages({ id: "pay", text: "Pay order 4711" }),
      stopWhen: stepCountIs(9),
    });
    return `${text} ${session.budget.spent.tokens} tokens`;
  } finally {
    await session.close();
  }
}

console.log(
  `first run: ${await program(false).catch((error: Error) => error.message)}; charged ${charges} time`,
);
console.log(`second run: ${await program(true)}; charged ${charges} time`);
console.log(`third run: ${await program(true)}; the model was asked ${asked} times in all`);
await holdfast.close();
