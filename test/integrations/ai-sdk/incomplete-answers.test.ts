// `fromAiSdk`: answers that ended too early, and streams that break.

import { createAnthropic } from "@ai-sdk/anthropic";
import type { LanguageModelV3GenerateResult, LanguageModelV3StreamPart } from "@ai-sdk/provider";
import { generateText, streamText } from "ai";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { type Model, tool } from "../../../src/index.ts";
import { fromAiSdk } from "../../../src/integrations/ai-sdk/index.ts";
import { skipWaits } from "../../skip-waits.ts";
import * as anthropicWire from "../wire/anthropic-exchange.ts";
import { type WireAnswer, wireServer } from "../wire/server.ts";
import { answer, MockModel, streamed } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, says, scripted, toolCall } from "./scripted-world.ts";

const chargeTool = (log: string[]) =>
  tool({
    name: "charge",
    description: "Charges an order",
    effect: "mutate",
    input: z.object({ order: z.string() }),
    execute: ({ order }) => log.push(order),
  });

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

type Reason = LanguageModelV3GenerateResult["finishReason"]["unified"];
const calls = answer([toolCall("c", "charge", { order: "1" }), { type: "text", text: "and" }]);
const ended = (unified: Reason) => ({ ...calls, finishReason: { unified, raw: "refusal" } });

test.each([
  ["length", "ran out of tokens"],
  ["content-filter", "content-filter (refusal)"],
  ["other", "other (refusal)"],
] as const)(
  "a call in an answer that ended with %s is not run: its arguments may be cut",
  async (unified, words) => {
    const { log, tools } = makeWorld();
    for (const stream of [false, true]) {
      const holdfast = await freshHoldfast();
      const session = await holdfast.session("own");
      const charge = chargeTool(log);
      const model = fromAiSdk(scripted(ended(unified), says("paid")), { stream });
      const run = session.run({ model, tools: [charge], prompt: "Pay" });
      await expect(run).rejects.toMatchObject({
        code: "INPUT_INVALID",
        message: expect.stringContaining(words),
      });
      // With `durable` the SDK decides not to run it.
      await program(holdfast, async (d) => {
        const request = { model: d.model(scripted(ended(unified))), tools: d.tools(tools), prompt: "Pay" };
        if (stream) await streamText(request).consumeStream();
        else await generateText(request);
      });
    }
    expect(log).toEqual([]);
  },
);

test("a call of a complete answer runs, with any finish reason", async () => {
  for (const unified of ["stop", "tool-calls"] as const) {
    const holdfast = await freshHoldfast();
    const session = await holdfast.session("own");
    const log: string[] = [];
    const charge = chargeTool(log);
    const model = fromAiSdk(scripted(ended(unified), says("paid")));
    expect(await session.run({ model, tools: [charge], prompt: "Pay" })).toMatchObject({ text: "paid" });
    expect(log).toEqual(["1"]);
  }
});

test("an overload error in the middle of a stream is retried", async () => {
  const begun = anthropicWire.STREAM_EXCHANGE[1]?.events?.slice(0, 2) ?? [];
  const overloaded = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  const server = await wireServer([
    { events: [...begun, overloaded] },
    anthropicWire.STREAM_EXCHANGE[1] as WireAnswer,
  ]);
  closing.push(server.close);
  const holdfast = await freshHoldfast();
  const session = await holdfast.session("own");
  const provider = createAnthropic({ baseURL: server.url, apiKey: "none" });
  const waited = skipWaits([250]);
  const model = fromAiSdk(provider("claude-sonnet-5-5"), { stream: true });
  expect(await session.run({ model, prompt: "Pay" })).toMatchObject({ status: "done", text: "Paid." });
  expect(server.requests).toHaveLength(2);
  expect(waited).toEqual([250]);
});

test.each([
  [{ type: "overloaded_error", message: "Overloaded" }, "overloaded_error: Overloaded", true],
  [{ type: "error", error: { type: "api_error", message: "Oops" } }, "api_error: Oops", true],
  [{ type: "rate_limit_error", message: "Slow down" }, "rate_limit_error: Slow down", true],
  [{ message: "busy", isRetryable: true }, "busy", true],
  [{ type: "invalid_request_error", message: "No" }, "invalid_request_error: No", false],
  ["broken", '"broken"', false],
  [undefined, "undefined", false],
] as const)(
  "a stream's error %j becomes an Error with its message, and is retried if that may help",
  async (error, words, helps) => {
    const holdfast = await freshHoldfast();
    const session = await holdfast.session("own");
    const parts: LanguageModelV3StreamPart[] = [{ type: "error", error }];
    const streams = [ReadableStream.from(parts), streamed(says("Paid."))];
    const provider = scripted();
    provider.doStream = async () => ({ stream: streams.shift() as (typeof streams)[number] });
    const seen: unknown[] = [];
    const model: Model = (request) =>
      fromAiSdk(provider, { stream: true })(request).catch((thrown: unknown) => {
        seen.push(thrown);
        throw thrown;
      });
    skipWaits([250]);
    const run = session.run({ model, prompt: "Pay" });
    if (helps) expect(await run).toMatchObject({ text: "Paid." });
    else await expect(run).rejects.toThrow(words);
    expect(seen).toHaveLength(1);
    expect(seen[0]).toBeInstanceOf(Error);
    expect(seen[0]).toMatchObject({ message: expect.stringContaining(words), cause: error });
  },
);

test("a stream that ends with nothing rejects as it does without durable, and is asked for again", async () => {
  const holdfast = await freshHoldfast();
  const empty = () =>
    new MockModel({ doStream: async () => ({ stream: new ReadableStream({ start: (to) => to.close() }) }) });
  const onError = () => undefined;
  const plain = await Promise.resolve(streamText({ model: empty(), prompt: "Hi", onError }).text).catch(
    String,
  );
  const run = (model: MockModel) =>
    program(holdfast, async (d) => streamText({ model: d.model(model), prompt: "Hi", onError }).text);
  expect(await run(empty()).catch(String)).toBe(plain);
  expect(plain).toContain("No output generated");
  expect(await run(scripted(says("hello")))).toBe("hello");
});
