// The real provider packages against recorded exchanges on loopback: no API key, real bytes.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, tool as sdkTool, stepCountIs, streamText } from "ai";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, open, tool } from "../../../src/index.ts";
import { durable, fromAiSdk } from "../../../src/integrations/ai-sdk/index.ts";
import { skipWaits } from "../../skip-waits.ts";
import * as anthropicWire from "../wire/anthropic-exchange.ts";
import * as openaiWire from "../wire/openai-exchange.ts";
import { type WireAnswer, type WireRequest, wireServer } from "../wire/server.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function begin(
  answers: readonly WireAnswer[],
): Promise<{ holdfast: Holdfast; url: string; requests: WireRequest[] }> {
  const server = await wireServer(answers);
  const holdfast = await open("memory:");
  closing.push(server.close, () => holdfast.close());
  return { holdfast, ...server };
}

const thinksAloud = (requests: readonly WireRequest[]): void => {
  const sent = requests[1]?.body.messages[1].content as object[];
  expect(sent.slice(0, 2)).toEqual([anthropicWire.THINKING, anthropicWire.REDACTED]);
  // Equal bytes, not only equal values.
  expect(requests[1]?.text).toContain(JSON.stringify(anthropicWire.THINKING.signature));
  expect(requests[1]?.text).toContain(JSON.stringify(anthropicWire.THINKING.thinking));
  expect(requests[1]?.text).toContain(JSON.stringify(anthropicWire.REDACTED.data));
  expect(requests[1]?.body.messages[2].content[0]).toMatchObject({ type: "tool_result" });
};

const SUBJECTS = [
  {
    name: "Anthropic",
    exchanges: { json: anthropicWire.JSON_EXCHANGE, stream: anthropicWire.STREAM_EXCHANGE },
    tokens: anthropicWire.TOKENS,
    model: (url: string) => createAnthropic({ baseURL: url, apiKey: "none" })("claude-sonnet-5-5"),
    providerOptions: { anthropic: { thinking: { type: "adaptive" } } },
    sentBack: thinksAloud,
  },
  {
    name: "OpenAI responses",
    exchanges: { json: openaiWire.RESPONSES_JSON, stream: openaiWire.RESPONSES_STREAM },
    tokens: openaiWire.TOKENS,
    model: (url: string) => createOpenAI({ baseURL: url, apiKey: "none" })("gpt-5"),
    providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } },
    sentBack: (requests: readonly WireRequest[]): void => {
      const sent = requests[1]?.body.input as {
        type?: string;
        encrypted_content?: string;
        output?: string;
      }[];
      expect(sent.find(({ type }) => type === "reasoning")?.encrypted_content).toBe(openaiWire.ENCRYPTED);
      expect(sent.at(-1)).toMatchObject({ type: "function_call_output", call_id: "call_Xl2Yj8" });
    },
  },
  {
    name: "OpenAI chat",
    exchanges: { json: openaiWire.CHAT_JSON, stream: openaiWire.CHAT_STREAM },
    tokens: openaiWire.TOKENS,
    model: (url: string) => createOpenAI({ baseURL: url, apiKey: "none" }).chat("gpt-4o"),
    providerOptions: {},
    sentBack: (requests: readonly WireRequest[]): void => {
      expect(requests[1]?.body.messages.at(-1)).toMatchObject({ role: "tool", tool_call_id: "call_Xl2Yj8" });
    },
  },
] as const;

describe.each(SUBJECTS)("$name", ({ exchanges, model, tokens, providerOptions, sentBack }) => {
  test.each(["json", "stream"] as const)(
    "durable, %s: interrupted after the first answer, one charge",
    async (wire) => {
      const { holdfast, url, requests } = await begin(exchanges[wire]);
      const charges: string[] = [];
      const charge = sdkTool({
        inputSchema: z.object({ order: z.string() }),
        execute: ({ order }) => {
          charges.push(order);
          return { receipt: 9 };
        },
      });
      const run = async (steps: number) => {
        const session = await holdfast.session("pay");
        const d = durable(session);
        const request = {
          model: d.model(model(url)),
          tools: d.tools({ charge }),
          messages: await d.messages({ id: "p", text: "Pay order 4711" }),
          stopWhen: stepCountIs(steps),
          providerOptions: providerOptions as never,
          maxRetries: 0,
        };
        const text = await (wire === "stream"
          ? streamText(request).text
          : generateText(request).then((result) => result.text));
        const { spent } = session.budget;
        await session.close();
        return { text, spent };
      };
      await run(1);
      expect(requests).toHaveLength(1);
      const { text, spent } = await run(5);
      expect(text).toBe("Paid.");
      expect(requests).toHaveLength(2);
      expect(charges).toEqual(["4711"]);
      expect(spent).toMatchObject({ tokens, turns: 2 });
      sentBack(requests);
      // Everything comes from the record now.
      expect((await run(5)).text).toBe("Paid.");
      expect(requests).toHaveLength(2);
    },
  );

  test.each(["json", "stream"] as const)("fromAiSdk, %s: the session's own loop", async (wire) => {
    const { holdfast, url, requests } = await begin(exchanges[wire]);
    const partials: string[] = [];
    const charge = tool({
      name: "charge",
      description: "Charges an order",
      effect: "mutate",
      input: z.object({ order: z.string() }),
      inputJsonSchema: { type: "object", properties: { order: { type: "string" } } },
      execute: () => ({ receipt: 9 }),
    });
    const session = await holdfast.session("pay");
    const settings = { providerOptions: providerOptions as never };
    const prices = { claude: { input: 1, output: 1 }, gpt: { input: 1, output: 1 } };
    const result = await session.run({
      model: fromAiSdk(model(url), { stream: wire === "stream", settings, prices, artifacts: holdfast }),
      tools: [charge],
      system: "You pay orders.",
      prompt: "Pay order 4711",
      on: (progress) => {
        if (progress.type === "model.partial") partials.push(progress.text ?? "");
      },
    });
    expect(result).toMatchObject({
      status: "done",
      text: "Paid.",
      spent: { tokens, usd: tokens / 1e6, turns: 2 },
    });
    expect(partials.join("").endsWith("Paid.")).toBe(wire === "stream");
    sentBack(requests);
  });
});

test("fromAiSdk: only errors that the provider marks as retryable are retried", async () => {
  const { holdfast, url, requests } = await begin([
    anthropicWire.overloaded(529, "overloaded_error"),
    anthropicWire.JSON_EXCHANGE[1] as WireAnswer,
    anthropicWire.overloaded(400, "invalid_request_error"),
  ]);
  const model = fromAiSdk(createAnthropic({ baseURL: url, apiKey: "none" })("claude-sonnet-5-5"));
  const session = await holdfast.session("retry");
  const waited = skipWaits([250]);
  expect(await session.run({ model, prompt: "Pay" })).toMatchObject({ status: "done", text: "Paid." });
  await expect(session.run({ model, prompt: "And now?" })).rejects.toThrow("invalid_request_error");
  expect(requests).toHaveLength(3);
  expect(waited).toEqual([250]);
});
