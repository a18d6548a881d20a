// Anthropic's own client against recorded exchanges on loopback.

import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, open, tool } from "../../../src/index.ts";
import {
  fromAnthropic,
  fromAnthropicMessages,
  toAnthropicMessages,
} from "../../../src/integrations/anthropic/index.ts";
import { skipWaits } from "../../skip-waits.ts";
import { anyUrl } from "../any-url.ts";
import {
  JSON_EXCHANGE,
  overloaded,
  REDACTED,
  STREAM_EXCHANGE,
  THINKING,
  TOKENS,
} from "../wire/anthropic-exchange.ts";
import { type WireAnswer, wireServer } from "../wire/server.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function begin(answers: readonly WireAnswer[]) {
  const server = await wireServer(answers);
  const holdfast = await open("memory:");
  closing.push(server.close, () => holdfast.close());
  const client = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
  return { holdfast, client, requests: server.requests };
}

const PARAMETERS = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };
const charge = tool({
  name: "charge",
  description: "Charges an order",
  effect: "mutate",
  input: z.object({ order: z.string() }),
  execute: ({ order }) => ({ receipt: `for ${order}` }),
});

async function pay(holdfast: Holdfast, model: ReturnType<typeof fromAnthropic>) {
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

describe.each([
  { wire: "json", answers: JSON_EXCHANGE },
  { wire: "stream", answers: STREAM_EXCHANGE },
])("$wire", ({ wire, answers }) => {
  test("a tool round trip sends thinking back byte for byte, and counts usage and price", async () => {
    const { holdfast, client, requests } = await begin(answers);
    const prices = { "claude-sonnet-5-5": { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 } };
    const params = { max_tokens: 4_096, thinking: { type: "enabled", budget_tokens: 1_024 } } as const;
    const model = fromAnthropic(client, "claude-sonnet-5-5", { stream: wire === "stream", prices, params });
    const { result, session, partials } = await pay(holdfast, model);
    const usd = (40 * 3 + 22 * 15 + 2_000 * 0.3 + 200 * 3.75) / 1e6;
    expect(result).toMatchObject({ status: "done", text: "Paid.", spent: { tokens: TOKENS, usd, turns: 2 } });
    expect(requests[0]?.body).toMatchObject({
      max_tokens: 4_096,
      system: [{ type: "text", text: "You pay orders." }],
      tools: [{ name: "charge", input_schema: PARAMETERS }],
      messages: [{ role: "user", content: [{ type: "text", text: "Pay order 4711" }] }],
    });
    const [, assistant, results] = requests[1]?.body.messages ?? [];
    expect(assistant.content.slice(0, 2)).toEqual([THINKING, REDACTED]);
    expect(requests[1]?.text).toContain(
      `${JSON.stringify(THINKING.thinking)},"signature":"${THINKING.signature}"`,
    );
    expect(assistant.content[3]).toMatchObject({ type: "tool_use", input: { order: "4711" } });
    expect(results.content).toEqual([
      { type: "tool_result", tool_use_id: assistant.content[3].id, content: '{"receipt":"for 4711"}' },
    ]);
    expect(session.messages.at(-1)?.meta).toMatchObject({ anthropic: { stop_reason: "end_turn" } });
    const shown = wire === "stream" ? `${THINKING.thinking}I will charge it.Paid.` : "";
    expect(partials.join("")).toBe(shown);
  });
});

const FAILURES: readonly { what: string; answer: WireAnswer; retried: boolean }[] = [
  { what: "529", answer: overloaded(529, "overloaded_error"), retried: true },
  { what: "429", answer: overloaded(429, "rate_limit_error", { "retry-after-ms": "1" }), retried: true },
  { what: "500", answer: overloaded(500, "api_error"), retried: true },
  { what: "400", answer: overloaded(400, "invalid_request_error"), retried: false },
  { what: "401", answer: overloaded(401, "authentication_error"), retried: false },
  // A stream has no status once it has begun.
  {
    what: "overloaded in a stream",
    answer: { events: [{ type: "error", error: { type: "overloaded_error", message: "overloaded" } }] },
    retried: true,
  },
];

test.each(FAILURES)("errors: $what, retried: $retried", async ({ answer, retried }) => {
  const { holdfast, client, requests } = await begin([
    answer,
    ...(answer.events ? STREAM_EXCHANGE : JSON_EXCHANGE).slice(1),
  ]);
  const model = fromAnthropic(client, "claude-sonnet-5-5", { stream: answer.events !== undefined });
  const waited = skipWaits([250]);
  const paid = pay(holdfast, model);
  if (retried) await expect(paid).resolves.toMatchObject({ result: { text: "Paid." } });
  else await expect(paid).rejects.toMatchObject({ retryable: false, status: answer.status });
  expect(requests).toHaveLength(retried ? 2 : 1);
  expect(waited).toHaveLength(requests.length - 1);
});

test("a call that max_tokens cut off is not run", async () => {
  const [asks] = JSON_EXCHANGE;
  const { holdfast, client } = await begin([
    { body: { ...(asks?.body as object), stop_reason: "max_tokens" } },
  ]);
  await expect(pay(holdfast, fromAnthropic(client, "claude-sonnet-5-5"))).rejects.toThrow(
    "in the middle of a tool call",
  );
});

test("a paused answer continues as one message", async () => {
  const [, ends] = JSON_EXCHANGE;
  const search = {
    type: "server_tool_use",
    id: "srvtoolu_1",
    name: "web_search",
    input: { query: "orders" },
  };
  const paused = { body: { ...(ends?.body as object), content: [search], stop_reason: "pause_turn" } };
  const { holdfast, client, requests } = await begin([paused, ends as WireAnswer]);
  const { session } = await pay(holdfast, fromAnthropic(client, "claude-sonnet-5-5"));
  expect(requests[1]?.body.messages[1]).toEqual({ role: "assistant", content: [search] });
  expect(session.messages).toHaveLength(2);
});

test("images, documents and cache breakpoints are sent in the API's format", async () => {
  const { holdfast, client, requests } = await begin([JSON_EXCHANGE[1] as WireAnswer]);
  const session = await holdfast.session("files");
  const anthropic = { cache_control: { type: "ephemeral" } };
  const put = (text: string) => holdfast.putArtifact(new TextEncoder().encode(text));
  await session.append({
    role: "user",
    blocks: [
      { kind: "file", artifact: await put("png"), mediaType: "image/png" },
      {
        kind: "file",
        artifact: await put("pdf"),
        mediaType: "application/pdf",
        name: "bill.pdf",
        meta: { anthropic },
      },
      { kind: "file", artifact: await put("plain"), mediaType: "text/markdown" },
      { kind: "text", text: "Read these", meta: { anthropic } },
    ],
  });
  await session.run({ model: fromAnthropic(client, "claude-sonnet-5-5", { artifacts: holdfast }) });
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  expect(requests[0]?.body.messages[0].content).toEqual([
    { type: "image", source: { type: "base64", media_type: "image/png", data: base64("png") } },
    {
      type: "document",
      source: { type: "base64", media_type: "application/pdf", data: base64("pdf") },
      title: "bill.pdf",
      cache_control: { type: "ephemeral" },
    },
    { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" } },
    { type: "text", text: "Read these", cache_control: { type: "ephemeral" } },
  ]);
});

test("Anthropic's messages come back unchanged", async () => {
  const holdfast = await open("memory:");
  closing.push(() => holdfast.close());
  const word = fc.string({ minLength: 1, maxLength: 9 });
  const id = fc.stringMatching(/^[a-z0-9_]{1,9}$/);
  const cached = fc.constantFrom({}, { cache_control: { type: "ephemeral" } });
  const data = fc
    .uint8Array({ minLength: 1, maxLength: 9 })
    .map((each) => Buffer.from(each).toString("base64"));
  const text = fc.tuple(word, cached).map(([said, extra]) => ({ type: "text", text: said, ...extra }));
  const image = data.map((each) => ({
    type: "image",
    source: { type: "base64", media_type: "image/png", data: each },
  }));
  const linked = anyUrl.map((url) => ({ type: "image", source: { type: "url", url } }));
  const plain = fc.tuple(word, word).map(([said, title]) => {
    return {
      type: "document",
      source: { type: "text", media_type: "text/plain", data: said },
      title,
      citations: { enabled: true },
    };
  });
  const thinking = fc
    .tuple(word, word)
    .map(([said, signature]) => ({ type: "thinking", thinking: said, signature }));
  const redacted = word.map((each) => ({ type: "redacted_thinking", data: each }));
  const use = fc
    .tuple(id, fc.dictionary(id, word))
    .map(([each, input]) => ({ type: "tool_use", id: each, name: "t", input }));
  const server = id.map((each) => ({ type: "server_tool_use", id: each, name: "web_search", input: {} }));
  const inner = fc.oneof(word, fc.array(fc.oneof(text, image), { maxLength: 2 }));
  const result = fc
    .tuple(id, fc.option(inner, { nil: undefined }), fc.boolean())
    .map(([each, content, is_error]) => {
      return {
        type: "tool_result",
        tool_use_id: each,
        ...(content !== undefined && { content }),
        ...(is_error && { is_error }),
      };
    });
  const user = fc
    .tuple(
      fc.array(result, { maxLength: 2 }),
      fc.array(fc.oneof(text, image, linked, plain), { maxLength: 2 }),
    )
    .map(([results, rest]) => ({ role: "user", content: [...results, ...rest] }));
  const assistant = fc
    .array(fc.oneof(thinking, redacted, text, use, server), { minLength: 1, maxLength: 4 })
    .map((content) => ({ role: "assistant", content }));
  const spoken = fc
    .tuple(fc.constantFrom("user", "assistant"), word)
    .map(([role, content]) => ({ role, content }));
  const conversation = fc.array(fc.oneof(user, assistant, spoken), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(conversation, async (made) => {
      const params = made.filter(({ content }) => content.length > 0) as Anthropic.MessageParam[];
      const inputs = await fromAnthropicMessages(params, holdfast);
      const createdAt = new Date(0).toISOString();
      const messages = inputs.map((input, index) => ({ id: `m${index}`, createdAt, blocks: [], ...input }));
      expect((await toAnthropicMessages(messages, holdfast)).messages).toEqual(params);
    }),
    { numRuns: 60 },
  );
});
