// Conversations in both of OpenAI's formats come back as they were.

import { afterEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import {
  fromChatMessages,
  fromResponsesInput,
  toChatMessages,
  toResponsesInput,
} from "../../../src/integrations/openai/index.ts";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

const PNG = `data:image/png;base64,${Buffer.from("png").toString("base64")}`;
const PDF = `data:application/pdf;base64,${Buffer.from("pdf").toString("base64")}`;

/** A session that stores the messages, as a reader of it would see them. */
async function stored() {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  return { holdfast, session: await holdfast.session("s") };
}

const ITEMS = [
  { role: "developer", content: "Be brief." },
  { type: "message", role: "system", content: [{ type: "input_text", text: "You pay." }] },
  { role: "user", content: "Pay order 4711" },
  {
    type: "message",
    role: "user",
    content: [
      { type: "input_text", text: "See:", prompt_cache_breakpoint: { mode: "explicit" } },
      { type: "input_image", detail: "high", image_url: PNG },
      { type: "input_image", detail: "auto", image_url: "https://example.com/a.png" },
      { type: "input_file", filename: "a.pdf", file_data: PDF },
      { type: "input_file", file_id: "file-1" },
    ],
  },
  { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "abc==" },
  { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "4711" } },
  {
    type: "message",
    id: "msg_1",
    role: "assistant",
    status: "completed",
    phase: "commentary",
    content: [
      {
        type: "output_text",
        text: "I will",
        annotations: [{ type: "url_citation", url: "https://a.example" }],
      },
      { type: "output_text", text: "", annotations: [] },
      { type: "refusal", refusal: "not that" },
    ],
  },
  { type: "message", id: "msg_2", role: "assistant", status: "completed", content: [] },
  {
    type: "function_call",
    id: "fc_1",
    call_id: "c1",
    name: "charge",
    arguments: '{ "order": 1 }',
    status: "completed",
  },
  { type: "function_call", call_id: "c2", name: "charge", arguments: "" },
  { type: "function_call_output", call_id: "c1", output: "done" },
  {
    type: "function_call_output",
    call_id: "c2",
    status: "completed",
    output: [
      { type: "input_text", text: "seen" },
      { type: "input_image", detail: "auto", image_url: PNG },
    ],
  },
  { role: "assistant", content: "Paid." },
];

test("items of the Responses API", async () => {
  const { holdfast, session } = await stored();
  await session.append(await fromResponsesInput(ITEMS as never, holdfast));
  expect(await toResponsesInput(session.messages, holdfast)).toEqual(ITEMS);
  expect(session.messages.map(({ role }) => role).join()).toBe(
    "system,system,user,user,assistant,tool,assistant",
  );
});

const called = (name: string, args: string) => ({ name, arguments: args });
const CHAT = [
  { role: "developer", content: "Be brief.", name: "ops" },
  { role: "system", content: "You pay." },
  { role: "user", content: "Pay order 4711" },
  {
    role: "user",
    name: "ann",
    content: [
      { type: "text", text: "See:" },
      { type: "text", text: "cached", prompt_cache_breakpoint: { mode: "explicit" } },
      { type: "image_url", image_url: { url: PNG, detail: "low" } },
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      { type: "file", file: { filename: "a.pdf", file_data: PDF } },
      { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
    ],
  },
  {
    role: "assistant",
    content: "I will.",
    tool_calls: [
      { id: "c1", type: "function", function: called("charge", '{"order":1}') },
      { id: "c2", type: "function", function: called("charge", "{ }") },
      { id: "c3", type: "custom", custom: { name: "sql", input: "select 1" } },
    ],
  },
  { role: "tool", tool_call_id: "c1", content: "done" },
  { role: "tool", tool_call_id: "c2", content: [{ type: "text", text: "seen" }] },
  { role: "assistant", content: null, refusal: "not that" },
  {
    role: "assistant",
    content: [
      { type: "text", text: "a" },
      { type: "refusal", refusal: "b" },
    ],
  },
];

test("chat messages", async () => {
  const { holdfast, session } = await stored();
  await session.append(await fromChatMessages(CHAT as never, holdfast));
  expect(await toChatMessages(session.messages, holdfast)).toEqual(CHAT);
});

test("items of the Responses API go to Chat Completions without what only that API has", async () => {
  const { holdfast, session } = await stored();
  const items = ITEMS.filter(({ role, type }) => role !== "user" || type === undefined);
  await session.append(await fromResponsesInput(items as never, holdfast));
  const chat = await toChatMessages(session.messages, holdfast);
  expect(chat.slice(3)).toMatchObject([
    {
      role: "assistant",
      content: [
        { type: "text", text: "I will" },
        { type: "text", text: "not that" },
      ],
      tool_calls: [{ id: "c1" }, { id: "c2" }],
    },
    { role: "tool", tool_call_id: "c1", content: "done" },
    { role: "tool", tool_call_id: "c2" },
    { role: "assistant", content: "Paid." },
  ]);
  expect(JSON.stringify(chat)).not.toMatch(/annotations|output_text|web_search|encrypted/);
});

test("a conversation with another provider's model is sent without what only that knows", async () => {
  const { holdfast, session } = await stored();
  const artifact = await holdfast.putArtifact(Buffer.from("a,b"));
  const id = `toolu_${"x".repeat(80)}`;
  await session.append([
    {
      role: "user",
      blocks: [
        { kind: "text", text: "Read" },
        { kind: "file", artifact, mediaType: "text/csv", name: "a.csv" },
        { kind: "file", artifact, mediaType: "application/zip", name: "a.zip" },
      ],
    },
    {
      role: "assistant",
      blocks: [
        { kind: "reasoning", text: "Hm.", meta: { anthropic: { signature: "s" } } },
        { kind: "text", text: "Reading." },
        { kind: "tool_call", id, name: "read", args: { n: 1 } },
      ],
    },
    { role: "tool", blocks: [{ kind: "tool_result", callId: id, content: "ok", isError: false }] },
  ]);
  const input = (await toResponsesInput(session.messages, holdfast)) as unknown as {
    [name: string]: unknown;
  }[];
  const [user, text, call, output] = input;
  expect(user?.["content"]).toMatchObject([
    { type: "input_text", text: "Read" },
    { type: "input_text", text: "a,b" },
    { type: "input_text", text: expect.stringContaining('[file "a.zip" of type application/zip') },
  ]);
  expect([text, input.length]).toEqual([{ role: "assistant", content: "Reading." }, 4]);
  expect(String(call?.["call_id"])).toHaveLength(37);
  expect(output?.["call_id"]).toBe(call?.["call_id"]);
  const chat = await toChatMessages(session.messages, holdfast);
  expect(chat[1]).toMatchObject({
    role: "assistant",
    content: "Reading.",
    tool_calls: [{ type: "function" }],
  });
});
