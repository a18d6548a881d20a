/**
 * Anthropic's content blocks and ours, both ways. Thinking goes back exactly as it came, signature and order included: the
 * API refuses a changed block. What has no kind of its own here (server tools, search results) is kept whole in meta.
 */

import type Anthropic from "@anthropic-ai/sdk";
import type { Json } from "../../model/json.ts";
import type { Block, FileBlock, JsonObject } from "../../model/session/index.ts";

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
        // A call that was no object is on record as it came, and has been refused; the API takes nothing else.
        input: isObject(block.args) ? block.args : {},
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

function isObject(args: Json): boolean {
  return typeof args === "object" && args !== null && !Array.isArray(args);
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

const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

/** What the API takes of a file of this type, which may have parameters (`text/plain; charset=utf-8`); null: nothing. */
function shownAs(mediaType: string): { as: string; source: string; media_type: string } | null {
  const media_type = (mediaType.split(";")[0] as string).trim().toLowerCase();
  if (IMAGES.has(media_type)) return { as: "image", source: "base64", media_type };
  if (media_type === "application/pdf") return { as: "document", source: "base64", media_type };
  if (!media_type.startsWith("text/")) return null;
  return { as: "document", source: "text", media_type: "text/plain" };
}

/**
 * A file that came in this API's format goes back as it came. Of any other, what the API cannot read is named in a text: one
 * block that it refuses would make it refuse the conversation from then on. Nobody needs the bytes for that.
 */
async function fileOf(block: FileBlock, extra: JsonObject, artifacts: Artifacts): Promise<ContentParam> {
  const { mediaType, name, artifact } = block;
  const { as: cameAs, source: cameFrom, ...rest } = extra as { readonly [name: string]: Json };
  const came = cameAs !== undefined && { as: cameAs, source: cameFrom, media_type: mediaType };
  const shown = came || shownAs(mediaType);
  if (!shown) {
    const named = name === undefined ? "" : ` ${JSON.stringify(name)}`;
    const text = `[file${named} of type ${mediaType}, not shown, stored as artifact ${artifact}]`;
    // A document's other members, such as `citations`, mean something else in a text.
    const { cache_control } = rest;
    return { type: "text", text, ...(cache_control !== undefined && { cache_control }) } as ContentParam;
  }
  const { as, source, media_type } = shown;
  const bytes = Buffer.from(await artifacts.getArtifact(artifact));
  return {
    type: as,
    source: { type: source, media_type, data: bytes.toString(source === "text" ? "utf8" : "base64") },
    ...(as === "document" && name !== undefined && { title: name }),
    ...rest,
  } as unknown as ContentParam;
}
