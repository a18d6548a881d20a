/**
 * Converts messages between the SDK's format and a session's, without loss in either direction.
 *
 * Members that a block has no field for are kept in its `meta.ai`. Parts without a matching block (a file by
 * its URL, an approval) are kept there whole, under an empty text. Bytes become artifacts, and their spelling
 * (bytes, base64, data URL) is remembered: a program may compare what it gets back.
 */

import { canonicalText, type Json } from "../../model/json.ts";
import {
  type Block,
  type FileBlock,
  isProvisional,
  type JsonObject,
  type Message,
  type ToolCallBlock,
  type ToolResultBlock,
} from "../../model/session/index.ts";
import type { MessageInput } from "../../session/index.ts";
import type { Artifacts } from "../artifacts.ts";
import type { ModelMessage } from "./sdk-types.ts";

/**
 * Converts the SDK's messages for `session.append`. Files and images become artifacts.
 * @example await session.append(await fromModelMessages(response.messages, holdfast));
 */
export function fromModelMessages(
  messages: readonly ModelMessage[],
  artifacts: Artifacts,
): Promise<MessageInput[]> {
  return Promise.all(messages.map((message) => fromModelMessage(message, artifacts)));
}

export async function fromModelMessage(message: ModelMessage, artifacts: Artifacts): Promise<MessageInput> {
  const { role, content, ...rest } = message;
  const extra = toJson(rest);
  if (typeof content === "string") {
    return { role, blocks: [{ kind: "text", text: content }], ...sdkMeta({ ...extra, content: "text" }) };
  }
  const blocks = await Promise.all(content.map((part) => blockOf(part as unknown as Part, artifacts)));
  return { role, blocks, ...sdkMeta({ ...extra, content: "parts" }) };
}

/**
 * Converts a session's messages to the SDK's, to show a conversation or to continue it with the SDK. `known`
 * supplies the values that tools returned, where the transcript has only their text.
 * @example const messages = await toModelMessages(session.messages, holdfast);
 */
export async function toModelMessages(
  messages: readonly Message[],
  artifacts: Artifacts,
  known: KnownResult = () => Promise.resolve(null),
): Promise<ModelMessage[]> {
  const calls: Calls = { byId: new Map(), failed: new Set() };
  for (const { blocks } of messages) {
    for (const block of blocks) {
      if (block.kind === "tool_call") calls.byId.set(block.id, block);
      if (block.kind === "tool_result" && block.isError) calls.failed.add(block.callId);
    }
  }
  const converted = await Promise.all(
    messages.map((message) => toModelMessage(message, artifacts, calls, known)),
  );
  return converted.filter((message) => message !== null);
}

type KnownResult = (block: ToolResultBlock) => Promise<{ readonly value: Json } | null>;

type Calls = { readonly byId: Map<string, ToolCallBlock>; readonly failed: Set<string> };

async function toModelMessage(
  { role, blocks, meta }: Message,
  artifacts: Artifacts,
  calls: Calls,
  known: KnownResult,
): Promise<ModelMessage | null> {
  const { content, ...rest } = sdkExtra(meta) as { readonly content?: Json };
  const [first] = blocks;
  const isText = blocks.length === 1 && first?.kind === "text" && first.meta === undefined;
  if (content === "text" || role === "system" || (content === undefined && isText && role !== "assistant")) {
    return { role, content: textOf(blocks), ...rest } as ModelMessage;
  }
  const parts: Part[] = [];
  for (const block of blocks) {
    const part = block.kind === "tool_result" ? await knownPart(block, known) : null;
    const found = part ?? (await partOf(block, artifacts));
    const converted = content === undefined ? responsePart(completed(found, block, calls)) : found;
    if (converted) parts.push(converted);
  }
  // Providers refuse an empty message, for example an answer that had only sources.
  if (content === undefined && parts.length === 0) return null;
  return { role, content: parts, ...rest } as unknown as ModelMessage;
}

async function knownPart(block: ToolResultBlock, known: KnownResult): Promise<Part | null> {
  if (block.isError || block.meta?.["ai"] !== undefined || block.meta?.["repeats"] !== undefined) return null;
  if (block.meta?.["changed"] !== undefined || isProvisional(block)) return null;
  const found = await known(block);
  if (!found) return null;
  const { value } = found;
  return {
    type: "tool-result",
    toolCallId: block.callId,
    output: { type: typeof value === "string" ? "text" : "json", value },
  };
}

/** Adds what the SDK itself would add: the name of a result's tool, and the options of its call. */
function completed(part: Part, block: Block, { byId, failed }: Calls): Part {
  if (block.kind === "tool_call") return { ...part, input: inputOf(block, failed) };
  if (block.kind !== "tool_result") return part;
  const call = byId.get(block.callId);
  const { type, toolCallId, toolName = call?.name ?? "unknown", ...rest } = part;
  const { providerOptions } = sdkExtra(call?.meta);
  return {
    type,
    toolCallId,
    toolName,
    ...rest,
    ...(providerOptions !== undefined && rest["providerOptions"] === undefined && { providerOptions }),
  };
}

/** Providers refuse arguments that are not an object, so those of failed calls are left out. */
function inputOf({ id, args, meta }: ToolCallBlock, failed: ReadonlySet<string>): Json {
  if (typeof args === "object" && args !== null && !Array.isArray(args)) return args;
  const isJson = typeof args !== "string" || sdkExtra(meta)["input"] !== args;
  return isJson && !failed.has(id) ? args : {};
}

/** Converts a part of a recorded answer as the SDK does for the next prompt. */
function responsePart({ citations: _citations, ...part }: Part): Part | null {
  if (part.type === "source" || (part.type === "text" && part["text"] === "" && !part["providerOptions"]))
    return null;
  if (!("providerMetadata" in part) && !("result" in part) && part.type !== "tool-call") return part;
  const { providerMetadata, result, dynamic: _dynamic, isError, preliminary, ...rest } = part;
  if (preliminary === true) return null;
  const providerOptions = providerMetadata === undefined ? {} : { providerOptions: providerMetadata };
  if (part.type === "tool-result" && result !== undefined) {
    const output = { type: isError ? "error-json" : "json", value: result };
    const { toolCallId, toolName } = rest;
    return { type: "tool-result", toolCallId, toolName, output, ...providerOptions };
  }
  if (part.type === "tool-call" && typeof rest["input"] === "string" && rest["providerExecuted"] === true)
    return { ...rest, input: parsed(rest["input"]), ...providerOptions };
  return { ...rest, ...providerOptions };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text === "" ? "{}" : text);
  } catch {
    // Providers may send invalid JSON, and accept only an object.
    return {};
  }
}

export function comparableText(blocks: readonly Block[] = []): string {
  const contents = blocks.map((block) => {
    if (block.kind === "file") return block.artifact;
    const { providerOptions: _options, ...part } = (sdkExtra(block.meta)["part"] ?? {}) as JsonObject;
    return block.kind === "text" ? [block.text, part] : block.kind;
  });
  return canonicalText(contents);
}

export type Part = { readonly type: string; readonly [member: string]: unknown };

async function blockOf(part: Part, artifacts: Artifacts): Promise<Block> {
  switch (part.type) {
    case "text":
    case "reasoning": {
      const { type, text, ...rest } = part;
      return { kind: type, text: text as string, ...sdkMeta(toJson(rest)) };
    }
    case "file":
    case "reasoning-file":
    case "image":
      return fileBlock(part, part.type === "image" ? "image" : "data", artifacts);
    case "tool-call":
      return part["providerExecuted"] === true ? wholePart(part) : toolCallBlock(part);
    case "tool-result":
      return resultBlock(part, artifacts);
    default:
      return wholePart(part);
  }
}

function toolCallBlock(part: Part): ToolCallBlock {
  const { type: _type, toolCallId, toolName, input, ...rest } = part;
  const id = toolCallId as string;
  // A value that JSON lacks, such as a Date made by a schema, is stored as JSON.stringify writes it.
  return {
    kind: "tool_call",
    id,
    name: toolName as string,
    args: toJson(input ?? null),
    ...sdkMeta(toJson(rest)),
  };
}

/** A file that is named by a URL or by its provider has no bytes, and is kept whole. */
async function fileBlock(part: Part, member: string, artifacts: Artifacts): Promise<Block> {
  const { type, mediaType, filename, [member]: data, ...rest } = part;
  const stored = await storeData(data, artifacts);
  if (!stored) return wholePart(part);
  const name = filename as string | undefined;
  const extra = {
    ...(rest as JsonObject),
    spelling: stored.spelling,
    ...(isTagged(data) && { tagged: true }),
    type,
    ...(mediaType === undefined && { untyped: true }),
  };
  return {
    kind: "file",
    artifact: stored.artifact,
    mediaType: (mediaType as string | undefined) || "application/octet-stream",
    ...(name !== undefined && { name }),
    ...sdkMeta(toJson(mediaType === "" ? { ...extra, untyped: "" } : extra)),
  };
}

/** For a part without a matching block. URLs are stored as text and marked. */
export function wholePart(part: Part): Block {
  const url = Object.entries(part).find(([, value]) => urlIn(value))?.[0];
  const extra = { part: toJson(part), ...(url !== undefined && { url }) };
  return { kind: "text", text: "", ...sdkMeta(extra) };
}

/** A URL as it is, or tagged: `{ type: "url", url }`. */
function urlIn(value: unknown): boolean {
  return value instanceof URL || (isTagged(value) && value["url"] instanceof URL);
}

export async function partOf(block: Block, artifacts: Artifacts): Promise<Part> {
  const extra = sdkExtra(block.meta);
  switch (block.kind) {
    case "text":
      return extra["part"] ? restorePart(extra) : { type: "text", text: block.text, ...extra };
    case "reasoning":
      return { type: "reasoning", text: block.text, ...extra };
    case "tool_call": {
      const { input: _raw, ...rest } = extra;
      return { type: "tool-call", toolCallId: block.id, toolName: block.name, input: block.args, ...rest };
    }
    case "file":
      return filePart(block, extra, artifacts);
    case "tool_result":
      return resultPart(block, artifacts);
  }
}

export function restorePart(extra: JsonObject): Part {
  const part = extra["part"] as unknown as Part;
  const name = extra["url"] as string | undefined;
  if (name === undefined) return part;
  const stored = part[name];
  const url = isTagged(stored)
    ? { ...stored, url: new URL(stored["url"] as string) }
    : new URL(stored as string);
  return { ...part, [name]: url };
}

async function filePart(block: FileBlock, extra: JsonObject, artifacts: Artifacts): Promise<Part> {
  const { type = "file", spelling, untyped, tagged, ...rest } = extra as { [name: string]: Json | undefined };
  const data = await loadData(block, spelling as string | undefined, artifacts);
  return {
    type: type as string,
    [type === "image" ? "image" : "data"]: tagged ? { type: "data", data } : data,
    ...(untyped === undefined && { mediaType: block.mediaType }),
    ...(untyped === "" && { mediaType: "" }),
    ...(block.name !== undefined && { filename: block.name }),
    ...rest,
  };
}

type Output = { readonly type: string; readonly value?: unknown; readonly reason?: string };

/** The type of the output says how to parse its text on the way back. */
export async function resultBlock(part: Part, artifacts: Artifacts): Promise<ToolResultBlock> {
  const { type: _type, toolCallId, output, ...rest } = part;
  const { type, value, reason, ...more } = output as Output;
  const extra = toJson({ ...rest, output: { type, ...(reason === undefined ? {} : { reason }), ...more } });
  const isError = type === "error-text" || type === "error-json" || type === "execution-denied";
  return {
    kind: "tool_result",
    callId: toolCallId as string,
    content: await resultContent(type, value, reason, artifacts),
    ...(isError && { isError }),
    ...sdkMeta(extra),
  };
}

function textOf(blocks: readonly Block[]): string {
  return blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");
}

async function resultContent(
  type: string,
  value: unknown,
  reason: string | undefined,
  artifacts: Artifacts,
): Promise<string | Block[]> {
  if (type === "content") return Promise.all((value as Part[]).map((part) => contentBlock(part, artifacts)));
  if (type === "execution-denied") return reason ?? "The user did not allow it.";
  return type === "text" || type === "error-text" ? (value as string) : JSON.stringify(value ?? null);
}

const CONTENT_FILES = new Set(["file", "media", "file-data", "image-data"]);

async function contentBlock(part: Part, artifacts: Artifacts): Promise<Block> {
  if (part.type === "text") return blockOf(part, artifacts);
  return CONTENT_FILES.has(part.type) ? fileBlock(part, "data", artifacts) : wholePart(part);
}

async function resultPart(block: ToolResultBlock, artifacts: Artifacts): Promise<Part> {
  const { output, ...rest } = sdkExtra(block.meta) as { readonly [name: string]: Json } & {
    readonly output?: JsonObject & { readonly type: string };
  };
  const { callId, content, isError } = block;
  // Without `output` the result was not written by this integration.
  const value = output
    ? { ...output, ...(await outputValue(output.type, block, artifacts)) }
    : {
        type: isError ? "error-text" : "text",
        value: typeof content === "string" ? content : textOf(content),
      };
  return { type: "tool-result", toolCallId: callId, output: value, ...rest };
}

async function outputValue(
  type: string,
  { content }: ToolResultBlock,
  artifacts: Artifacts,
): Promise<{ value?: unknown }> {
  if (type === "execution-denied") return {};
  if (typeof content !== "string")
    return { value: await Promise.all(content.map((each) => partOf(each, artifacts))) };
  return { value: type === "json" || type === "error-json" ? (JSON.parse(content) as Json) : content };
}

const DATA_URL = /^data:([^,]*);base64,(.*)$/s;

/** The form of the bytes: `bytes`, `buffer` (ArrayBuffer), `base64`, or the beginning of a data URL. */
type Spelling = "bytes" | "buffer" | "base64" | `data:${string}`;

/** A file's data with its kind, as spec v4 and AI SDK 7 write it: `{ type: "data", data }`. */
export type TaggedData = { readonly type: string; readonly [member: string]: unknown };

export function isTagged(data: unknown): data is TaggedData {
  return typeof data === "object" && data !== null && !(data instanceof URL) && "type" in data;
}

/** Null for a URL, or text that is not base64. */
export async function storeData(
  data: unknown,
  artifacts: Artifacts,
): Promise<{ artifact: string; spelling: Spelling } | null> {
  const found = bytesOf(isTagged(data) && data.type === "data" ? data["data"] : data);
  if (!found) return null;
  return { artifact: await artifacts.putArtifact(found.bytes), spelling: found.spelling };
}

function bytesOf(data: unknown): { bytes: Uint8Array; spelling: Spelling } | null {
  if (data instanceof Uint8Array) return { bytes: data, spelling: "bytes" };
  if (data instanceof ArrayBuffer) return { bytes: new Uint8Array(data), spelling: "buffer" };
  if (typeof data !== "string") return null;
  const url = DATA_URL.exec(data);
  const text = url?.[2] ?? data;
  const bytes = Buffer.from(text, "base64");
  // Convert only text that comes back exactly as it was.
  if (bytes.length === 0 || bytes.toString("base64") !== text) return null;
  return { bytes, spelling: url ? `data:${url[1]}` : "base64" };
}

export async function loadData(
  block: FileBlock,
  spelling: string | undefined,
  artifacts: Artifacts,
): Promise<Uint8Array | ArrayBuffer | string> {
  const bytes = await artifacts.getArtifact(block.artifact);
  if (spelling === "buffer")
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  if (spelling === undefined || spelling === "bytes") return new Uint8Array(bytes);
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  return spelling === "base64" ? text : `${spelling};base64,${text}`;
}

export function sdkMeta(extra: JsonObject): { meta?: JsonObject } {
  return Object.keys(extra).length === 0 ? {} : { meta: { ai: extra } };
}

export function sdkExtra(meta: JsonObject | undefined): JsonObject {
  return (meta?.["ai"] as JsonObject | undefined) ?? {};
}

/** Like JSON.stringify, but a bigint becomes text. */
export function toJson<Value>(value: Value): Value extends object ? JsonObject : Json {
  const text = JSON.stringify(value, (_name, member: unknown) =>
    typeof member === "bigint" ? String(member) : member,
  );
  return (text === undefined ? null : JSON.parse(text)) as never;
}
