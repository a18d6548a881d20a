/**
 * Anthropic's content blocks and ours, both ways. Thinking goes back exactly as it came, signature and order included: the
 * API refuses a changed block. What has no kind of its own here (server tools, search results) is kept whole in meta.
 */

import type Anthropic from "@anthropic-ai/sdk";
import type { Block, FileBlock, Json, JsonObject } from "../../model/index.ts";

/** Where the bytes of images and documents live: a `Holdfast` is one. */
export interface Artifacts {
  putArtifact(bytes: Uint8Array): Promise<string>;
  getArtifact(hash: string): Promise<Uint8Array>;
}

export type ContentParam = Anthropic.ContentBlockParam;

/** Any content block, of a request or an answer. */
type AnyContent = { readonly type: string; readonly [member: string]: unknown };

/** Ours, in the meta of a block or message: what Anthropic's has beyond what ours says, such as `cache_control`. */
export function anthropicMeta(extra: object): { meta?: JsonObject } {
  const members = Object.entries(extra).filter(([, value]) => value !== undefined && value !== null);
  if (members.length === 0) return {};
  return { meta: { anthropic: JSON.parse(JSON.stringify(Object.fromEntries(members))) as Json } };
}

export function anthropicExtra(meta: JsonObject | undefined): JsonObject {
  return (meta?.["anthropic"] as JsonObject | undefined) ?? {};
}

export async function blockOf(content: AnyContent, artifacts: Artifacts): Promise<Block> {
  const { type, ...rest } = content;
  switch (type) {
    case "text": {
      const { text, ...extra } = rest;
      return { kind: "text", text: text as string, ...anthropicMeta(extra) };
    }
    case "thinking": {
      const { thinking, ...extra } = rest;
      return { kind: "reasoning", text: thinking as string, ...anthropicMeta(extra) };
    }
    case "redacted_thinking":
      return { kind: "reasoning", text: "", ...anthropicMeta({ redacted: rest["data"] }) };
    case "tool_use": {
      const { id, name, input, ...extra } = rest;
      return {
        kind: "tool_call",
        id: id as string,
        name: name as string,
        args: (input ?? {}) as Json,
        ...anthropicMeta(extra),
      };
    }
    case "tool_result":
      return resultBlock(rest, artifacts);
    case "image":
    case "document":
      return (await fileBlock(content, artifacts)) ?? wholeBlock(content);
    default:
      return wholeBlock(content);
  }
}

function wholeBlock(content: AnyContent): Block {
  return { kind: "text", text: "", ...anthropicMeta({ block: content }) };
}

async function resultBlock(content: Omit<AnyContent, "type">, artifacts: Artifacts): Promise<Block> {
  const { tool_use_id, content: given, is_error, ...extra } = content;
  const parts = given as string | AnyContent[] | undefined;
  const isText = typeof parts === "string";
  return {
    kind: "tool_result",
    callId: tool_use_id as string,
    content: isText ? parts : await Promise.all((parts ?? []).map((part) => blockOf(part, artifacts))),
    ...(is_error !== undefined && { isError: is_error as boolean }),
    ...anthropicMeta({ ...extra, ...(parts === undefined && { empty: true }) }),
  };
}

async function fileBlock(content: AnyContent, artifacts: Artifacts): Promise<FileBlock | null> {
  const { type, source, title, ...extra } = content;
  const { type: kind, media_type, data } = source as { type: string; media_type?: string; data?: string };
  if ((kind !== "base64" && kind !== "text") || data === undefined || media_type === undefined) return null;
  const bytes = Buffer.from(data, kind === "base64" ? "base64" : "utf8");
  const spelled = kind === "base64" ? bytes.toString("base64") : bytes.toString("utf8");
  // Only what comes out again exactly as it was.
  if (spelled !== data) return null;
  return {
    kind: "file",
    artifact: await artifacts.putArtifact(bytes),
    mediaType: media_type,
    ...(typeof title === "string" && { name: title }),
    ...anthropicMeta({ ...extra, as: type, source: kind }),
  };
}

async function contentOf(block: Block, artifacts: Artifacts): Promise<ContentParam | null> {
  const extra = anthropicExtra(block.meta);
  switch (block.kind) {
    case "text":
      if (extra["block"] !== undefined) return extra["block"] as unknown as ContentParam;
      // The API takes no empty text.
      return block.text === "" ? null : ({ type: "text", text: block.text, ...extra } as ContentParam);
    case "reasoning":
      return reasoningOf(block.text, extra);
    case "tool_call":
      return {
        type: "tool_use",
        id: wireId(block.id),
        name: block.name,
        input: block.args,
        ...extra,
      } as ContentParam;
    case "tool_result": {
      const { empty, ...rest } = extra;
      const { callId, isError, content } = block;
      const parts = typeof content === "string" ? content : await contentsOf(content, artifacts);
      return {
        type: "tool_result",
        tool_use_id: wireId(callId),
        ...(empty !== true && { content: parts }),
        ...(isError !== undefined && { is_error: isError }),
        ...rest,
      } as ContentParam;
    }
    case "file":
      return fileOf(block, extra, artifacts);
  }
}

export async function contentsOf(blocks: readonly Block[], artifacts: Artifacts): Promise<ContentParam[]> {
  const contents = await Promise.all(blocks.map((block) => contentOf(block, artifacts)));
  return contents.filter((content) => content !== null);
}

/** Ids of other providers, and those that a session made to tell two calls apart, as this API takes them. */
function wireId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, "_");
}

/** Thinking without a signature is somebody else's: no other model may be told that it thought so. */
function reasoningOf(text: string, extra: JsonObject): ContentParam | null {
  if (extra["redacted"] !== undefined)
    return { type: "redacted_thinking", data: extra["redacted"] as string };
  if (extra["signature"] === undefined) return null;
  return { type: "thinking", thinking: text, ...extra } as unknown as ContentParam;
}

async function fileOf(block: FileBlock, extra: JsonObject, artifacts: Artifacts): Promise<ContentParam> {
  const bytes = Buffer.from(await artifacts.getArtifact(block.artifact));
  const { mediaType, name } = block;
  const isText = mediaType.startsWith("text/");
  const {
    as = mediaType.startsWith("image/") ? "image" : "document",
    source = isText ? "text" : "base64",
    ...rest
  } = extra as { readonly [name: string]: Json };
  const media_type = source === "text" ? "text/plain" : mediaType;
  return {
    type: as,
    source: { type: source, media_type, data: bytes.toString(source === "text" ? "utf8" : "base64") },
    ...(as === "document" && name !== undefined && { title: name }),
    ...rest,
  } as unknown as ContentParam;
}
