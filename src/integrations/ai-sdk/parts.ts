/**
 * Parts of messages both ways, without loss: what a block has no place for stands in its meta, and what no kind of block is
 * made for (a file by its URL, an approval) stands there whole, under an empty text.
 */

import type { Json } from "../../model/json.ts";
import type {
  Block,
  FileBlock,
  JsonObject,
  ToolCallBlock,
  ToolResultBlock,
} from "../../model/session/index.ts";
import { type Artifacts, loadData, sdkExtra, sdkMeta, storeData } from "./file-data.ts";

/** Any part of the SDK's messages: told apart by `type`. */
export type Part = { readonly type: string; readonly [member: string]: unknown };

export async function blockOf(part: Part, artifacts: Artifacts): Promise<Block> {
  switch (part.type) {
    case "text":
    case "reasoning": {
      const { type, text, ...rest } = part;
      return { kind: type, text: text as string, ...sdkMeta(plain(rest)) };
    }
    case "file":
    case "image":
      return (await fileBlock(part, part.type === "image" ? "image" : "data", artifacts)) ?? wholePart(part);
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
  // What JSON cannot hold, such as a date that a schema made, is kept as JSON would write it.
  return {
    kind: "tool_call",
    id,
    name: toolName as string,
    args: plain(input ?? null),
    ...sdkMeta(plain(rest)),
  };
}

async function fileBlock(part: Part, member: string, artifacts: Artifacts): Promise<FileBlock | null> {
  const { type, mediaType, filename, [member]: data, ...rest } = part;
  const stored = await storeData(data, artifacts);
  if (!stored) return null;
  const name = filename as string | undefined;
  const extra = {
    ...(rest as JsonObject),
    spelling: stored.spelling,
    type,
    ...(mediaType === undefined && { untyped: true }),
  };
  return {
    kind: "file",
    artifact: stored.artifact,
    mediaType: (mediaType as string | undefined) || "application/octet-stream",
    ...(name !== undefined && { name }),
    ...sdkMeta(plain(mediaType === "" ? { ...extra, untyped: "" } : extra)),
  };
}

/** A part without a kind of its own. URLs are written as text and marked. */
function wholePart(part: Part): Block {
  const url = Object.entries(part).find(([, value]) => value instanceof URL)?.[0];
  const extra = { part: plain(part), ...(url !== undefined && { url }) };
  return { kind: "text", text: "", ...sdkMeta(extra) };
}

export async function partOf(block: Block, artifacts: Artifacts): Promise<Part> {
  const extra = sdkExtra(block.meta);
  switch (block.kind) {
    case "text":
      return extra["part"] ? revivedPart(extra) : { type: "text", text: block.text, ...extra };
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

function revivedPart(extra: JsonObject): Part {
  const part = extra["part"] as unknown as Part;
  const url = extra["url"] as string | undefined;
  return url === undefined ? part : { ...part, [url]: new URL(part[url] as string) };
}

async function filePart(block: FileBlock, extra: JsonObject, artifacts: Artifacts): Promise<Part> {
  const { type = "file", spelling, untyped, ...rest } = extra as { [name: string]: Json | undefined };
  const data = await loadData(block, spelling as string | undefined, artifacts);
  return {
    type: type as string,
    [type === "image" ? "image" : "data"]: data,
    ...(untyped === undefined && { mediaType: block.mediaType }),
    ...(untyped === "" && { mediaType: "" }),
    ...(block.name !== undefined && { filename: block.name }),
    ...rest,
  };
}

type Output = { readonly type: string; readonly value?: unknown; readonly reason?: string };

/** A result as the model reads it. The kind of output decides how its text is to be read back. */
export async function resultBlock(part: Part, artifacts: Artifacts): Promise<ToolResultBlock> {
  const { type: _type, toolCallId, output: given, ...rest } = part;
  const { type, value, reason, ...more } = given as Output;
  const extra = plain({ ...rest, output: { type, ...(reason === undefined ? {} : { reason }), ...more } });
  const isError = type === "error-text" || type === "error-json" || type === "execution-denied";
  return {
    kind: "tool_result",
    callId: toolCallId as string,
    content: await resultContent(type, value, reason, artifacts),
    ...(isError && { isError }),
    ...sdkMeta(extra),
  };
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

const CONTENT_FILES = new Set(["media", "file-data", "image-data"]);

async function contentBlock(part: Part, artifacts: Artifacts): Promise<Block> {
  if (part.type === "text") return blockOf(part, artifacts);
  const file = CONTENT_FILES.has(part.type) ? await fileBlock(part, "data", artifacts) : null;
  return file ?? wholePart(part);
}

async function resultPart(block: ToolResultBlock, artifacts: Artifacts): Promise<Part> {
  const { output, ...rest } = sdkExtra(block.meta) as { readonly [name: string]: Json } & {
    readonly output?: JsonObject & { readonly type: string };
  };
  const value = output
    ? { ...output, ...(await outputValue(output.type, block, artifacts)) }
    : plainOutput(block);
  return { type: "tool-result", toolCallId: block.callId, output: value, ...rest };
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

/** A result that was not written by this integration. */
function plainOutput({ content, isError }: ToolResultBlock): Output {
  const text =
    typeof content === "string"
      ? content
      : content.map((block) => (block.kind === "text" ? block.text : "")).join("");
  return { type: isError ? "error-text" : "text", value: text };
}

/** As JSON writes it: undefined members are left out, dates become text. */
export function plain<Value>(value: Value): Value extends object ? JsonObject : Json {
  const text = JSON.stringify(value, (_name, member: unknown) =>
    typeof member === "bigint" ? String(member) : member,
  );
  return (text === undefined ? null : JSON.parse(text)) as never;
}
