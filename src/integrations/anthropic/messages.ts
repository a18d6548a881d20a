/**
 * Converts conversations between Anthropic's format and a session's, in both directions. Thinking blocks go
 * back unchanged, because the API refuses a changed block. Blocks without a counterpart here (server tools,
 * search results) are kept whole in `meta.anthropic`.
 */

import type Anthropic from "@anthropic-ai/sdk";
import type { Json } from "../../model/json.ts";
import type { Block, FileBlock, JsonObject, Message } from "../../model/session/index.ts";
import type { MessageInput } from "../../session/index.ts";
import type { Artifacts } from "../artifacts.ts";

type MessageParam = Anthropic.MessageParam;

/**
 * Converts a session's messages to the parameters of `messages.create`. Tool results become part of a user
 * message; system messages are returned apart, as the API wants them.
 * @example
 * const { system, messages } = await toAnthropicMessages(session.messages, holdfast);
 * await client.messages.create({ model, max_tokens: 1_024, system, messages });
 */
export async function toAnthropicMessages(
  messages: readonly Message[],
  artifacts: Artifacts,
): Promise<{ system: Anthropic.TextBlockParam[]; messages: MessageParam[] }> {
  const system: Anthropic.TextBlockParam[] = [];
  const params: MessageParam[] = [];
  for (const message of messages) {
    const content = await contentsOf(message.blocks, artifacts);
    if (message.role === "system") {
      system.push(...(content as unknown as Anthropic.TextBlockParam[]));
      continue;
    }
    const { content: spelling, joined } = anthropicExtra(message.meta);
    const [first] = message.blocks;
    const before = params.at(-1);
    const role = message.role === "assistant" ? "assistant" : "user";
    if (spelling === "text" && first?.kind === "text") params.push({ role, content: first.text });
    else if (joined === true && Array.isArray(before?.content))
      (before.content as unknown[]).push(...content);
    else if (content.length > 0) params.push({ role, content });
  }
  return { system, messages: params };
}

/**
 * Converts Anthropic's messages for `session.append`. Tool results become messages of their own; images and
 * documents become artifacts.
 * @example await session.append(await fromAnthropicMessages(params.messages, holdfast));
 */
export async function fromAnthropicMessages(
  params: readonly MessageParam[],
  artifacts: Artifacts,
): Promise<MessageInput[]> {
  const inputs: MessageInput[] = [];
  for (const { role, content } of params) {
    if (typeof content === "string") {
      inputs.push({ role, blocks: [{ kind: "text", text: content }], ...anthropicMeta({ content: "text" }) });
      continue;
    }
    const blocks = await Promise.all(content.map((each) => blockOf(each as never, artifacts)));
    // The API requires tool results at the beginning.
    const other = blocks.findIndex(({ kind }) => role !== "user" || kind !== "tool_result");
    const results = other < 0 ? blocks.length : other;
    if (results > 0) inputs.push({ role: "tool", blocks: blocks.slice(0, results) });
    const rest = blocks.slice(results);
    if (rest.length > 0)
      inputs.push({ role, blocks: rest, ...anthropicMeta({ joined: results > 0 || undefined }) });
  }
  return inputs;
}

type ContentParam = Anthropic.ContentBlockParam;

type AnyContent = { readonly type: string; readonly [member: string]: unknown };

/** Meta of a block or message: members that only Anthropic's format has, such as `cache_control`. */
export function anthropicMeta(extra: object): { meta?: JsonObject } {
  const members = Object.entries(extra).filter(([, value]) => value !== undefined && value !== null);
  if (members.length === 0) return {};
  return { meta: { anthropic: JSON.parse(JSON.stringify(Object.fromEntries(members))) as Json } };
}

function anthropicExtra(meta: JsonObject | undefined): JsonObject {
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
      return (await fileBlock(content, artifacts)) ?? keepOriginal(content);
    default:
      return keepOriginal(content);
  }
}

function keepOriginal(content: AnyContent): Block {
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
  const decoded = kind === "base64" ? bytes.toString("base64") : bytes.toString("utf8");
  // Convert only data that comes back exactly as it was.
  if (decoded !== data) return null;
  return {
    kind: "file",
    artifact: await artifacts.putArtifact(bytes),
    mediaType: media_type,
    ...(typeof title === "string" && { name: title }),
    ...anthropicMeta({ ...extra, as: type, source: kind }),
  };
}

async function contentsOf(blocks: readonly Block[], artifacts: Artifacts): Promise<ContentParam[]> {
  const contents = await Promise.all(blocks.map((block) => contentOf(block, artifacts)));
  return contents.filter((content) => content !== null);
}

async function contentOf(block: Block, artifacts: Artifacts): Promise<ContentParam | null> {
  const extra = anthropicExtra(block.meta);
  switch (block.kind) {
    case "text":
      if (extra["block"] !== undefined) return extra["block"] as unknown as ContentParam;
      // The API refuses empty text.
      return block.text === "" ? null : ({ type: "text", text: block.text, ...extra } as ContentParam);
    case "reasoning":
      return reasoningOf(block.text, extra);
    case "tool_call":
      return {
        type: "tool_use",
        id: wireId(block.id),
        name: block.name,
        // The API accepts only objects. Other arguments are on record, and the call was refused.
        input: typeof block.args === "object" && !Array.isArray(block.args) ? (block.args ?? {}) : {},
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

/** The API's alphabet for call ids is smaller than a session's, whose ids may come from other providers. */
function wireId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, "_");
}

/** Thinking without a signature comes from another provider's model, and is left out. */
function reasoningOf(text: string, extra: JsonObject): ContentParam | null {
  if (extra["redacted"] !== undefined)
    return { type: "redacted_thinking", data: extra["redacted"] as string };
  if (extra["signature"] === undefined) return null;
  return { type: "thinking", thinking: text, ...extra } as unknown as ContentParam;
}

const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

/** The form in which the API accepts a media type such as `text/plain; charset=utf-8`, or null. */
function sourceFor(mediaType: string): { as: string; source: string; media_type: string } | null {
  const media_type = (mediaType.split(";")[0] as string).trim().toLowerCase();
  if (IMAGES.has(media_type)) return { as: "image", source: "base64", media_type };
  if (media_type === "application/pdf") return { as: "document", source: "base64", media_type };
  if (!media_type.startsWith("text/")) return null;
  return { as: "document", source: "text", media_type: "text/plain" };
}

/** A file that the API cannot read becomes a text: one refused block would end the whole conversation. */
async function fileOf(block: FileBlock, extra: JsonObject, artifacts: Artifacts): Promise<ContentParam> {
  const { mediaType, name, artifact } = block;
  const { as: originalAs, source: originalSource, ...rest } = extra as { readonly [name: string]: Json };
  const original = { as: originalAs, source: originalSource, media_type: mediaType };
  const form = originalAs === undefined ? sourceFor(mediaType) : original;
  if (!form) {
    const named = name === undefined ? "" : ` ${JSON.stringify(name)}`;
    const text = `[file${named} of type ${mediaType}, not shown, stored as artifact ${artifact}]`;
    // Other members of a document, such as `citations`, mean something else in a text.
    const { cache_control } = rest;
    return { type: "text", text, ...(cache_control !== undefined && { cache_control }) } as ContentParam;
  }
  const { as, source, media_type } = form;
  const bytes = Buffer.from(await artifacts.getArtifact(artifact));
  return {
    type: as,
    source: { type: source, media_type, data: bytes.toString(source === "text" ? "utf8" : "base64") },
    ...(as === "document" && name !== undefined && { title: name }),
    ...rest,
  } as unknown as ContentParam;
}

/** The container of the last answer that had one; undefined after it expired: the API would refuse it. */
export function currentContainer(messages: readonly Message[], nowMs: number): string | undefined {
  const answer = messages.findLast(({ meta }) => anthropicExtra(meta)["container"] !== undefined);
  const container = anthropicExtra(answer?.meta)["container"] as Partial<Anthropic.Container> | undefined;
  return Date.parse(container?.expires_at ?? "") <= nowMs ? undefined : container?.id;
}

/**
 * Leaves out uses of the API's own tools (search, code execution) that can no longer end. With stop reason
 * `tool_use` a server tool waits for the results of our calls, and has to be sent back, with its container. A
 * use that nothing can end any more (the answer was cut off or refused, or a user message came in between)
 * makes the API refuse the conversation. The transcript keeps all of them.
 */
export function withoutDeadToolUses(messages: readonly Message[], container: string | undefined): Message[] {
  const open = messages.findLastIndex((message) => !isTurnOpen(message)) + 1;
  const blocks = messages.flatMap((message) => message.blocks);
  const answered = new Set<unknown>(blocks.map((block) => originalBlock(block)["tool_use_id"]));
  const callers = new Set<unknown>(blocks.map(callerOf));
  const dead = new Set<unknown>();
  messages.forEach((message, index) => {
    // The last answer is being continued.
    const isOpen = index >= open || index === messages.length - 1;
    for (const id of message.blocks.map(serverToolUse)) {
      if (id === undefined || answered.has(id)) continue;
      // Code that made a call waits in its container, and cannot continue in another.
      if (!isOpen || (callers.has(id) && container === undefined)) dead.add(id);
    }
  });
  if (dead.size === 0) return [...messages];
  return messages.map((message) => {
    const remaining = message.blocks.filter((block) => !dead.has(serverToolUse(block)));
    const blocks = remaining.map((block) => (dead.has(callerOf(block)) ? withoutCaller(block) : block));
    return { ...message, blocks };
  });
}

function isTurnOpen({ role, blocks, meta }: Message): boolean {
  if (role !== "assistant") return role !== "user";
  const { stop_reason = "tool_use" } = anthropicExtra(meta);
  return stop_reason === "tool_use" && blocks.some(({ kind }) => kind === "tool_call");
}

function originalBlock(block: Block): JsonObject {
  return (anthropicExtra(block.meta)["block"] as JsonObject | undefined) ?? {};
}

function serverToolUse(block: Block): unknown {
  const { type, id } = originalBlock(block);
  return type === "server_tool_use" || type === "mcp_tool_use" ? id : undefined;
}

/** The id of the code execution that made this call. */
function callerOf(block: Block): unknown {
  const caller = originalBlock(block)["caller"] ?? anthropicExtra(block.meta)["caller"];
  return (caller as JsonObject | undefined)?.["tool_id"];
}

function withoutCaller(block: Block): Block {
  const { caller: _, block: whole, ...anthropic } = anthropicExtra(block.meta);
  if (whole === undefined) return { ...block, meta: { ...block.meta, anthropic } };
  const { caller: __, ...rest } = whole as JsonObject;
  return { ...block, meta: { ...block.meta, anthropic: { ...anthropic, block: rest } } };
}
