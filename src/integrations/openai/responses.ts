/**
 * Converts conversations between the items of the Responses API and a session's messages, both ways.
 *
 *     reasoning, message, function_call, web_search_call …   one assistant message, a block each
 *     function_call_output …                                 one tool message
 *     message of a user, system or developer                 a message each
 *
 * Reasoning goes back unchanged, with its encrypted content. Items without a counterpart here are kept whole
 * in `meta.openai.item`.
 */

import type OpenAI from "openai";
import type { Json } from "../../model/json.ts";
import type { Block, JsonObject, Message, ToolResultBlock } from "../../model/session/index.ts";
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

type InputItem = OpenAI.Responses.ResponseInputItem;

/**
 * Converts a session's messages to the `input` of `responses.create`.
 * @example
 * const input = await toResponsesInput(session.messages, holdfast);
 * await client.responses.create({ model: "gpt-5", input });
 */
export async function toResponsesInput(
  messages: readonly Message[],
  artifacts: Artifacts,
): Promise<InputItem[]> {
  const items: AnyPart[] = [];
  for (const { role, blocks, meta } of messages) {
    if (role === "assistant") for (const block of blocks) pushAnswerBlock(items, block);
    else if (role === "tool") for (const block of blocks) items.push(await outputItem(block, artifacts));
    else {
      const { item, content } = openaiExtra(meta) as { item?: object; content?: Json };
      const parts = await Promise.all(blocks.map((block) => inputPart(block, artifacts)));
      const [first] = blocks;
      const isText = content === "text" && first?.kind === "text";
      items.push({ role, ...item, content: isText ? first.text : parts });
    }
  }
  return items as unknown as InputItem[];
}

/**
 * Converts input or output items of the Responses API for `session.append`. Images and files that are in an
 * item become artifacts.
 * @example await session.append(await fromResponsesInput(response.output, holdfast));
 */
export async function fromResponsesInput(
  items: readonly (InputItem | OpenAI.Responses.ResponseOutputItem)[],
  artifacts: Artifacts,
): Promise<MessageInput[]> {
  const inputs: { role: MessageInput["role"]; blocks: Block[]; meta?: JsonObject }[] = [];
  const push = (role: MessageInput["role"], blocks: readonly Block[]): void => {
    const last = inputs.at(-1);
    if (last?.role === role) last.blocks.push(...blocks);
    else inputs.push({ role, blocks: [...blocks] });
  };
  for (const each of items as unknown as readonly AnyPart[]) {
    const { type = "message", role } = each;
    if (type === "function_call_output") push("tool", [await resultBlock(each, artifacts)]);
    else if (type !== "message" || role === "assistant") push("assistant", blocksOfItem(each));
    else inputs.push(await messageOf(each, artifacts));
  }
  return inputs;
}

/** A part without a counterpart here, such as a search of the API's own, is kept whole. */
function keepWhole(name: "item" | "part", whole: unknown): Block {
  return { kind: "text", text: "", ...openaiMeta({ [name]: whole }) };
}

async function messageOf(item: AnyPart, artifacts: Artifacts) {
  const { content, ...rest } = item;
  const role = item["role"] === "user" ? ("user" as const) : ("system" as const);
  const { role: spelled, ...others } = rest;
  const kept = { ...(spelled !== role && { role: spelled }), ...others };
  const extra = Object.keys(kept).length > 0 ? { item: kept } : {};
  if (typeof content === "string") {
    const blocks: Block[] = [{ kind: "text", text: content }];
    return { role, blocks, ...openaiMeta({ ...extra, content: "text" }) };
  }
  const blocks = await Promise.all((content as AnyPart[]).map((part) => inputBlock(part, artifacts)));
  return { role, blocks, ...openaiMeta(extra) };
}

/** The blocks of one item of an answer. A message has a block per part; those after the first are joined. */
export function blocksOfItem(item: AnyPart): Block[] {
  switch (item.type ?? "message") {
    case "message": {
      const { content, ...message } = item;
      if (typeof content === "string")
        return [{ kind: "text", text: content, ...openaiMeta({ message, content: "text" }) }];
      const parts = content as AnyPart[];
      if (parts.length === 0) return [keepWhole("item", item)];
      return parts.map((part, index) => {
        const { text, refusal, ...rest } = part;
        const place = index === 0 ? { message } : { joined: true };
        return { kind: "text", text: String(text ?? refusal ?? ""), ...openaiMeta({ ...place, part: rest }) };
      });
    }
    case "reasoning":
      return [{ kind: "reasoning", text: reasoningText(item), ...openaiMeta({ item }) }];
    case "function_call": {
      const { type: _, call_id, name, arguments: text, ...rest } = item;
      return [callBlock(String(call_id), String(name), String(text), { item: rest })];
    }
    default:
      return [keepWhole("item", item)];
  }
}

function reasoningText({ summary, content }: AnyPart): string {
  const texts = [summary, content].map((parts) =>
    ((parts ?? []) as { text?: string }[]).map(({ text = "" }) => text).join("\n\n"),
  );
  return texts.find((text) => text !== "") ?? "";
}

function pushAnswerBlock(items: AnyPart[], block: Block): void {
  const extra = openaiExtra(block.meta);
  const item = extra["item"] as JsonObject | undefined;
  if (block.kind === "tool_call") {
    const call = { call_id: wireId(block.id), name: block.name, arguments: argumentsOf(block) };
    items.push({ type: "function_call", ...item, ...call });
  } else if (item) items.push(item as AnyPart);
  else if (block.kind === "text") pushAnswerText(items, block.text, extra);
  // Reasoning without its item comes from another provider's model, and is left out. So are files.
}

function pushAnswerText(items: AnyPart[], text: string, extra: JsonObject): void {
  const { message, joined, content, part } = extra as { [name: string]: Json } & { message?: object };
  const whole = {
    ...(part as object),
    ...((part as AnyPart)?.type === "refusal" ? { refusal: text } : { text }),
  };
  const before = items.at(-1)?.["content"];
  if (joined === true && Array.isArray(before)) before.push(whole);
  else if (message && content !== "text") items.push({ ...message, content: [whole] });
  // The API refuses empty text.
  else if (message || text !== "") items.push({ role: "assistant", ...message, content: text });
}

async function outputItem(block: Block, artifacts: Artifacts): Promise<AnyPart> {
  const extra = openaiExtra(block.meta);
  if (block.kind !== "tool_result") return (extra["item"] ?? {}) as AnyPart;
  const { callId, content } = block;
  const parts = typeof content === "string" ? content : content.map((each) => inputPart(each, artifacts));
  const output = typeof parts === "string" ? parts : await Promise.all(parts);
  return { type: "function_call_output", ...(extra["item"] as object), call_id: wireId(callId), output };
}

async function resultBlock(item: AnyPart, artifacts: Artifacts): Promise<ToolResultBlock> {
  const { type: _, call_id, output, ...rest } = item;
  const isText = typeof output === "string";
  return {
    kind: "tool_result",
    callId: String(call_id),
    content: isText
      ? output
      : await Promise.all((output as AnyPart[]).map((part) => inputBlock(part, artifacts))),
    ...openaiMeta({ item: Object.keys(rest).length > 0 ? rest : undefined }),
  };
}

async function inputBlock(part: AnyPart, artifacts: Artifacts): Promise<Block> {
  const { type, text, image_url, file_data, filename, ...rest } = part;
  const extra = Object.keys(rest).length > 0 ? { part: rest } : {};
  if (type === "input_text") return { kind: "text", text: String(text), ...openaiMeta(extra) };
  const isImage = type === "input_image";
  const file = await fileOfDataUrl(isImage ? image_url : file_data, artifacts);
  if (!file || (!isImage && type !== "input_file")) return keepWhole("part", part);
  const name = typeof filename === "string" ? { name: filename } : {};
  return { kind: "file", ...file, ...name, ...openaiMeta({ ...extra, as: isImage ? "image" : "file" }) };
}

async function inputPart(block: Block, artifacts: Artifacts): Promise<AnyPart> {
  const part = openaiExtra(block.meta)["part"] as AnyPart | undefined;
  if (block.kind === "file") {
    const file = await wireFile(block, artifacts);
    if (file.as === "text") return { type: "input_text", text: file.text };
    if (file.as === "image") return { type: "input_image", detail: "auto", ...part, image_url: file.url };
    const named = part === undefined && block.name === undefined ? { filename: file.name } : {};
    const own = block.name === undefined ? named : { filename: block.name };
    return { type: "input_file", ...part, ...own, file_data: file.url };
  }
  if (part?.type !== undefined) return part;
  return { type: "input_text", text: "text" in block ? block.text : "", ...part };
}
