// Providers that give one id to several calls of an answer.

import type { LanguageModelV3StreamPart } from "@ai-sdk/provider";
import { generateText, stepCountIs, streamText } from "ai";
import { expect, test } from "vitest";
import { durable } from "../../../src/integrations/ai-sdk/index.ts";
import { answer } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, says, scripted, toolCall } from "./scripted-world.ts";

const many = stepCountIs(9);
const twoOrders = answer([
  toolCall("call_0", "charge", { order: "A" }),
  toolCall("call_0", "charge", { order: "B" }),
]);

test.each(["generate", "stream"] as const)(
  "%s: two calls under one id in one answer both run once and get their own results",
  async (how) => {
    const holdfast = await freshHoldfast();
    const { log, tools } = makeWorld();
    const model = scripted(twoOrders, says("paid"));
    await program(holdfast, async (d, session) => {
      const messages = await d.messages("Pay A and B");
      const request = { model: d.model(model), tools: d.tools(tools), messages, stopWhen: many };
      const text = how === "stream" ? await streamText(request).text : (await generateText(request)).text;
      expect(text).toBe("paid");
      const results = session.messages.flatMap(({ blocks }) =>
        blocks.flatMap((block) => (block.kind === "tool_result" ? [block.content] : [])),
      );
      expect(results).toEqual(['{"charged":"A"}', '{"charged":"B"}']);
    });
    expect(log.toSorted()).toEqual(["charge A", "charge B"]);
  },
);

test("a stream and its replay name each call by its stored id, in any order of parts", async () => {
  const begins = { type: "tool-input-start", id: "call_0", toolName: "charge" } as const;
  const ends = { type: "tool-input-end", id: "call_0" } as const;
  const [first, second] = twoOrders.content as LanguageModelV3StreamPart[];
  const orders: LanguageModelV3StreamPart[][] = [
    [begins, ends, first, begins, ends, second].filter((part) => part !== undefined),
    [begins, ends, begins, ends, first, second].filter((part) => part !== undefined),
    [first, begins, ends, second].filter((part) => part !== undefined),
  ];
  for (const parts of orders) {
    const holdfast = await freshHoldfast();
    await program(holdfast, async (_d, session) => {
      const model = scripted();
      const { finishReason, usage } = twoOrders;
      model.doStream = async () => ({
        stream: ReadableStream.from([...parts, { type: "finish" as const, finishReason, usage }]),
      });
      const read = async (): Promise<string[]> => {
        const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Pay" }] }];
        const { stream } = await durable(session).model(model).doStream({ prompt });
        const seen: string[] = [];
        for await (const part of stream) {
          if (part.type === "tool-call") seen.push(`${part.type} ${part.toolCallId} ${part.input}`);
          if (part.type.startsWith("tool-input")) seen.push(`${part.type} ${(part as { id: string }).id}`);
        }
        return seen;
      };
      const other = "call_0.turn:main:0.1";
      const calls = ['tool-call call_0 {"order":"A"}', `tool-call ${other} {"order":"B"}`];
      const live = await read();
      expect(live.filter((part) => part.startsWith("tool-call"))).toEqual(calls);
      const inputs = live.filter((part) => part.startsWith("tool-input"));
      expect(inputs.slice(-2)).toEqual([`tool-input-start ${other}`, `tool-input-end ${other}`]);
      expect(inputs.slice(0, -2)).toEqual(
        parts[0] === first ? [] : ["tool-input-start call_0", "tool-input-end call_0"],
      );
      expect((await read()).filter((part) => part.startsWith("tool-call"))).toEqual(calls);
    });
  }
});
