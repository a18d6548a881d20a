// OpenAI's own client against recorded exchanges on loopback: Responses and Chat Completions.

import OpenAI from "openai";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, open, tool } from "../../../src/index.ts";
import { type FromOpenAIOptions, fromOpenAI } from "../../../src/integrations/openai/index.ts";
import { skipWaits } from "../../skip-waits.ts";
import {
  CHAT_JSON,
  CHAT_STREAM,
  ENCRYPTED,
  RESPONSES_JSON,
  RESPONSES_STREAM,
  TOKENS,
} from "../wire/openai-exchange.ts";
import { type WireAnswer, wireServer } from "../wire/server.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function begin(answers: readonly WireAnswer[]) {
  const server = await wireServer(answers);
  const holdfast = await open("memory:");
  closing.push(server.close, () => holdfast.close());
  const client = new OpenAI({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
  return { holdfast, client, requests: server.requests };
}

const PARAMETERS = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };
const charged: string[] = [];
const charge = tool({
  name: "charge",
  description: "Charges an order",
  effect: "mutate",
  input: z.object({ order: z.string() }),
  execute: ({ order }) => {
    charged.push(order);
    return { receipt: `for ${order}` };
  },
});

async function pay(holdfast: Holdfast, model: ReturnType<typeof fromOpenAI>) {
  const partials: string[] = [];
  const session = await holdfast.session("pay");
  const result = await session.run({
    model,
    tools: [charge],
    system: "You pay orders.",
    prompt: "Pay order 4711",
    on: (progress) => {
      if (progress.type === "model.partial") partials.push(progress.text ?? progress.reasoning ?? "");
    },
  });
  return { result, session, partials };
}

const USD = (10 * 3 + 40 * 0.3 + 7 * 15) / 1e6;
const prices = { gpt: { input: 3, output: 15, cacheRead: 0.3 } };

describe.each([
  { wire: "json", responses: RESPONSES_JSON, chat: CHAT_JSON },
  { wire: "stream", responses: RESPONSES_STREAM, chat: CHAT_STREAM },
])("$wire", ({ wire, responses, chat }) => {
  const stream = wire === "stream";

  test("Responses: a tool round trip sends reasoning back, and counts usage and price", async () => {
    const { holdfast, client, requests } = await begin(responses);
    const params = { store: false, include: ["reasoning.encrypted_content"] } as const;
    const options = { stream, prices, params } as unknown as FromOpenAIOptions;
    const { result, session, partials } = await pay(holdfast, fromOpenAI(client, "gpt-5", options));
    expect(result).toMatchObject({ status: "done", text: "Paid.", spent: { tokens: TOKENS, turns: 2 } });
    expect(result.spent["usd"]).toBeCloseTo(2 * USD, 12);
    expect(requests[0]?.path).toBe("/responses");
    expect(requests[0]?.body).toMatchObject({
      ...params,
      model: "gpt-5",
      instructions: "You pay orders.",
      tools: [{ type: "function", name: "charge", parameters: PARAMETERS, strict: false }],
      input: [{ role: "user", content: [{ type: "input_text", text: "Pay order 4711" }] }],
    });
    const [, reasoning, call, output] = requests[1]?.body.input ?? [];
    expect(reasoning).toEqual({
      type: "reasoning",
      id: "rs_68af4f5ad8b08197",
      summary: [{ type: "summary_text", text: "It must be paid." }],
      encrypted_content: ENCRYPTED,
    });
    expect(call).toMatchObject({
      type: "function_call",
      call_id: "call_Xl2Yj8",
      arguments: '{"order":"4711"}',
    });
    expect(output).toEqual({
      type: "function_call_output",
      call_id: "call_Xl2Yj8",
      output: '{"receipt":"for 4711"}',
    });
    expect(session.messages.at(-1)?.meta).toMatchObject({ openai: { status: "completed" } });
    expect(partials.join("|")).toBe(stream ? "It must be paid.|Paid." : "");
  });

  test("Chat Completions: a tool round trip, with usage and price", async () => {
    const { holdfast, client, requests } = await begin(chat);
    const model = fromOpenAI(client, "gpt-4o", { api: "chat", stream, prices });
    const { result, session, partials } = await pay(holdfast, model);
    expect(result).toMatchObject({ status: "done", text: "Paid.", spent: { tokens: TOKENS, turns: 2 } });
    expect(result.spent["usd"]).toBeCloseTo(2 * USD, 12);
    expect(requests[0]?.path).toBe("/chat/completions");
    expect(requests[0]?.body).toMatchObject({
      model: "gpt-4o",
      tools: [{ type: "function", function: { name: "charge", parameters: PARAMETERS } }],
      messages: [
        { role: "system", content: "You pay orders." },
        { role: "user", content: [{ type: "text", text: "Pay order 4711" }] },
      ],
    });
    const called = { name: "charge", arguments: '{"order":"4711"}' };
    expect(requests[1]?.body.messages.slice(2)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_Xl2Yj8", type: "function", function: called }],
      },
      { role: "tool", tool_call_id: "call_Xl2Yj8", content: '{"receipt":"for 4711"}' },
    ]);
    expect(session.messages.at(-1)?.meta).toMatchObject({ openai: { finish_reason: "stop" } });
    expect(partials.join("|")).toBe(stream ? "Pa|id." : "");
  });
});

const failed = (status: number, code: string, headers = {}): WireAnswer => ({
  status,
  headers,
  body: { error: { message: code, type: code, code } },
});
const FAILURES: readonly { what: string; answer: WireAnswer; retried: boolean }[] = [
  { what: "429", answer: failed(429, "rate_limit_exceeded", { "retry-after-ms": "1" }), retried: true },
  { what: "500", answer: failed(500, "server_error"), retried: true },
  { what: "400", answer: failed(400, "invalid_request_error"), retried: false },
  { what: "401", answer: failed(401, "invalid_api_key"), retried: false },
  { what: "a quota that is used up", answer: failed(429, "insufficient_quota"), retried: false },
  { what: "a stream that ends early", answer: { events: [{ type: "response.created" }] }, retried: true },
  {
    what: "an answer that failed in its stream",
    answer: {
      events: [
        {
          type: "response.failed",
          response: { status: "failed", output: [], error: { code: "server_error", message: "sorry" } },
        },
      ],
    },
    retried: true,
  },
  {
    what: "an error in a stream",
    answer: { events: [{ type: "error", code: "server_error", message: "sorry", param: null }] },
    retried: true,
  },
];

test.each(FAILURES)("errors: $what, retried: $retried", async ({ answer, retried }) => {
  const stream = answer.events !== undefined;
  const { holdfast, client, requests } = await begin([
    answer,
    ...(stream ? RESPONSES_STREAM : RESPONSES_JSON).slice(1),
  ]);
  skipWaits([250]);
  const paid = pay(holdfast, fromOpenAI(client, "gpt-5", { stream }));
  if (retried) await expect(paid).resolves.toMatchObject({ result: { text: "Paid." } });
  else
    await expect(paid).rejects.toMatchObject({
      name: "OpenAICallFailed",
      retryable: false,
      status: answer.status,
    });
  expect(requests).toHaveLength(retried ? 2 : 1);
});

test("a chat stream that ends early is asked again", async () => {
  const { events = [] } = CHAT_STREAM[1] as WireAnswer;
  const { holdfast, client, requests } = await begin([
    { events: events.slice(0, 1), done: "[DONE]" },
    ...CHAT_STREAM.slice(1),
  ]);
  skipWaits([250]);
  const { result } = await pay(holdfast, fromOpenAI(client, "gpt-4o", { api: "chat", stream: true }));
  expect([result.text, requests.length]).toEqual(["Paid.", 2]);
});

const [asksResponses, asksChat] = [RESPONSES_JSON[0]?.body, CHAT_JSON[0]?.body] as {
  [name: string]: unknown;
}[];
const cutChat = {
  ...asksChat,
  choices: [{ ...((asksChat?.["choices"] ?? []) as object[])[0], finish_reason: "length" }],
};
test.each([
  [
    "Responses",
    { ...asksResponses, status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
    {},
  ],
  ["Chat Completions", cutChat, { api: "chat" }],
] as const)("%s: a call that was cut off is not run", async (_api, body, options) => {
  const { holdfast, client } = await begin([{ body }]);
  charged.splice(0);
  await expect(pay(holdfast, fromOpenAI(client, "gpt-5", options))).rejects.toMatchObject({
    code: "INPUT_INVALID",
    message: expect.stringContaining("in the middle of a tool call"),
  });
  expect(charged).toEqual([]);
});

test("without a store, reasoning that the API cannot know is not sent", async () => {
  const { output, ...head } = asksResponses as { output: { encrypted_content?: string }[] };
  const [{ encrypted_content: _, ...bare } = {}, call] = output;
  const { holdfast, client, requests } = await begin([
    { body: { ...head, output: [bare, call] } },
    ...RESPONSES_JSON.slice(1),
  ]);
  await pay(holdfast, fromOpenAI(client, "gpt-5", { params: { store: false } }));
  expect(requests[1]?.body.input.map(({ type }: { type?: string }) => type)).toEqual([
    undefined,
    "function_call",
    "function_call_output",
  ]);
});

test("arguments that are no JSON are refused for the model to read, and go back as they were", async () => {
  const { output, ...head } = asksResponses as { output: object[] };
  const { holdfast, client, requests } = await begin([
    { body: { ...head, output: [{ ...output[1], arguments: '{"order": ' }] } },
    ...RESPONSES_JSON.slice(1),
  ]);
  charged.splice(0);
  await pay(holdfast, fromOpenAI(client, "gpt-5"));
  expect([charged, requests[1]?.body.input[1].arguments]).toEqual([[], '{"order": ']);
});
