/**
 * Converts conversations between the messages of the Chat Completions API and a session's, both ways. Parts
 * without a counterpart here (audio, calls of custom tools) are kept whole in `meta.openai.chat`, where the
 * Responses API does not look for its own.
 */

import type OpenAI from "openai";
import type { Block, JsonObject, Message } from "../../model/session/index.ts";
import type { MessageInput } from "../../session/index.ts";
import type { Artifacts } from "../artifacts.ts";
import {
  type AnyPart,
  argumentsOf,
  callBlock,
  fileOfDataUrl,
  openaiExtra,
  openaiMeta,
  wireFile,
  wireId,
} from "./blocks.ts";

type ChatMessage = OpenAI.Chat.Completions.ChatCompletionMessageParam;

/**
 * Converts a session's messages to the `messages` of `chat.completions.create`. Each tool result becomes a
 * message of its own. Reasoning is left out: the API does not take it back.
 * @example
 * const messages = await toChatMessages(session.messages, holdfast);
 * await client.chat.completions.create({ model: "gpt-4.1", messages });
 */
export async function toChatMessages(
  messages: readonly Message[],
  artifacts: Artifacts,
): Promise<ChatMessage[]> {
  const params: AnyPart[] = [];
  for (const message of messages) {
    const { role, blocks } = message;
    if (role === "assistant") params.push(...assistantParam(message));
    else if (role === "tool")
      for (const block of blocks) params.push(...(await resultParam(block, artifacts)));
    else params.push(await inputParam(message, artifacts));
  }
  return params as unknown as ChatMessage[];
}

/**
 * Converts chat messages for `session.append`. Images and files that are in a message become artifacts.
 * @example await session.append(await fromChatMessages(params.messages, holdfast));
 */
export async function fromChatMessages(
  params: readonly ChatMessage[],
  artifacts: Artifacts,
): Promise<MessageInput[]> {
  const inputs: MessageInput[] = [];
  for (const param of params as unknown as readonly AnyPart[]) {
    const { role: spelled, content, tool_call_id, ...rest } = param;
    if (spelled === "assistant") {
      inputs.push({ role: "assistant", ...blocksOfMessage(param) });
      continue;
    }
    const isText = typeof content === "string";
    const blocks: Block[] = isText
      ? [{ kind: "text", text: content }]
      : await Promise.all((content as AnyPart[]).map((part) => inputBlock(part, artifacts)));
    if (spelled === "tool") {
      const result = isText ? content : blocks;
      inputs.push({
        role: "tool",
        blocks: [{ kind: "tool_result", callId: String(tool_call_id), content: result, ...restMeta(rest) }],
      });
      continue;
    }
    const role = spelled === "user" ? "user" : "system";
    const kept = { ...(spelled !== role && { role: spelled }), ...rest };
    inputs.push({ role, blocks, ...restMeta(kept, isText ? { content: "text" } : {}) });
  }
  return inputs;
}

function chatMeta(extra: object): { meta?: JsonObject } {
  return Object.keys(extra).length > 0 ? openaiMeta({ chat: extra }) : {};
}

function chatExtra(meta: JsonObject | undefined): JsonObject {
  return (openaiExtra(meta)["chat"] as JsonObject | undefined) ?? {};
}

function restMeta(rest: object, more: object = {}): { meta?: JsonObject } {
  return chatMeta({ ...(Object.keys(rest).length > 0 && { param: rest }), ...more });
}

function keepWhole(name: "call" | "part", whole: unknown): Block {
  return { kind: "text", text: "", ...chatMeta({ [name]: whole }) };
}

/** The blocks of an answer, or of an assistant's message: text, a refusal, calls. */
export function blocksOfMessage(message: AnyPart): { blocks: Block[]; meta?: JsonObject } {
  const { role: _, content, refusal, tool_calls, reasoning_content, ...rest } = message;
  const blocks: Block[] = [];
  if (typeof reasoning_content === "string" && reasoning_content !== "")
    blocks.push({ kind: "reasoning", text: reasoning_content });
  if (typeof content === "string") blocks.push({ kind: "text", text: content });
  else for (const part of (content ?? []) as AnyPart[]) blocks.push(partBlock(part));
  if (typeof refusal === "string")
    blocks.push({ kind: "text", text: refusal, ...chatMeta({ refusal: true }) });
  for (const call of (tool_calls ?? []) as AnyPart[]) {
    const { id, type, function: called, ...others } = call;
    const { name, arguments: text, ...more } = (called ?? {}) as { name: string; arguments: string };
    if (type === "function") blocks.push(callBlock(String(id), name, text, { chat: { ...more, ...others } }));
    else blocks.push(keepWhole("call", call));
  }
  return { blocks, ...restMeta(rest, typeof content === "string" ? { content: "text" } : {}) };
}

function partBlock(part: AnyPart): Block {
  const { text, refusal, ...rest } = part;
  return { kind: "text", text: String(text ?? refusal ?? ""), ...chatMeta({ part: rest }) };
}

function assistantParam({ blocks, meta }: Message): AnyPart[] {
  const { param } = chatExtra(meta);
  const texts: { text: string; extra: JsonObject }[] = [];
  const calls: AnyPart[] = [];
  for (const block of blocks) {
    const extra = chatExtra(block.meta);
    if (block.kind === "text" && extra["call"] !== undefined) calls.push(extra["call"] as AnyPart);
    // Items that only the Responses API has are blocks without text.
    else if (block.kind === "text" && (block.text !== "" || extra["part"] !== undefined))
      texts.push({ text: block.text, extra });
    if (block.kind !== "tool_call") continue;
    const called = { name: block.name, arguments: argumentsOf(block) };
    calls.push({ id: wireId(block.id), type: "function", function: called, ...extra });
  }
  const refusal = texts.find(({ extra }) => extra["refusal"] === true)?.text;
  const said = texts.filter(({ extra }) => extra["refusal"] !== true);
  const parts = said.map(({ text, extra }) => {
    const part = (extra["part"] ?? { type: "text" }) as AnyPart;
    return part.type === "refusal" ? { ...part, refusal: text } : { ...part, type: "text", text };
  });
  const [only] = said;
  const isText = said.length === 1 && only?.extra["part"] === undefined;
  if (said.length === 0 && calls.length === 0 && refusal === undefined) return [];
  return [
    {
      role: "assistant",
      ...(param as object),
      content: said.length === 0 ? null : isText ? only?.text : parts,
      ...(refusal !== undefined && { refusal }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ];
}

async function inputParam({ role, blocks, meta }: Message, artifacts: Artifacts): Promise<AnyPart> {
  const { param, content } = chatExtra(meta);
  const [first] = blocks;
  const isText = blocks.length === 1 && first?.kind === "text" && !chatExtra(first.meta)["part"];
  // System texts of one part are sent as text: servers other than OpenAI's take nothing else.
  if (isText && (content === "text" || role === "system"))
    return { role, ...(param as object), content: first.text };
  const parts = await Promise.all(blocks.map((block) => inputPart(block, artifacts)));
  return { role, ...(param as object), content: parts };
}

async function resultParam(block: Block, artifacts: Artifacts): Promise<AnyPart[]> {
  if (block.kind !== "tool_result") return [];
  const { callId, content, meta } = block;
  const { param } = chatExtra(meta);
  const parts =
    typeof content === "string"
      ? content
      : await Promise.all(content.map((each) => inputPart(each, artifacts, "text only")));
  return [{ role: "tool", ...(param as object), tool_call_id: wireId(callId), content: parts }];
}

async function inputBlock(part: AnyPart, artifacts: Artifacts): Promise<Block> {
  const { type, text, image_url, file, ...rest } = part;
  if (type === "text")
    return {
      kind: "text",
      text: String(text),
      ...chatMeta(Object.keys(rest).length > 0 ? { part: { type, ...rest } } : {}),
    };
  const { url, ...image } = (image_url ?? {}) as { url?: string };
  const { file_data, filename, ...others } = (file ?? {}) as { file_data?: string; filename?: string };
  const isImage = type === "image_url";
  const stored = await fileOfDataUrl(isImage ? url : file_data, artifacts);
  if (!stored || (!isImage && type !== "file")) return keepWhole("part", part);
  const inner = isImage ? image : others;
  return {
    kind: "file",
    ...stored,
    ...(filename !== undefined && { name: filename }),
    ...openaiMeta({ as: isImage ? "image" : "file", chat: { inner, part: rest } }),
  };
}

async function inputPart(block: Block, artifacts: Artifacts, limit?: "text only"): Promise<AnyPart> {
  const { part, inner } = chatExtra(block.meta) as { part?: AnyPart; inner?: object };
  if (block.kind === "file") {
    const file = await wireFile(block, artifacts);
    if (file.as === "text") return { type: "text", text: file.text };
    if (limit) return { type: "text", text: `[file of type ${block.mediaType}, artifact ${block.artifact}]` };
    if (file.as === "image") return { type: "image_url", ...part, image_url: { ...inner, url: file.url } };
    const name = inner === undefined ? { filename: file.name } : {};
    const own = block.name === undefined ? name : { filename: block.name };
    return { type: "file", ...part, file: { ...inner, ...own, file_data: file.url } };
  }
  if (part?.type !== undefined && part.type !== "text") return part;
  return { type: "text", ...part, text: "text" in block ? block.text : "" };
}
