import * as z from "zod";
import { HoldfastError } from "../errors.ts";
import { copyJson, formatPath, type Json } from "../json.ts";
import { quoteValue } from "../names.ts";
import { isPlainMessage } from "./message-shape.ts";

/**
 * Messages and their blocks, told apart by `kind`. The transcript round-trips exactly: what an agent saved is
 * what the next one reads, down to the spelling of a timestamp.
 */

/** JSON with names: metadata of messages, blocks and sessions. */
export type JsonObject = { readonly [key: string]: Json };

interface BlockBase {
  /** For integrations: signatures, cache marks, provider data. Kept exactly, never interpreted. */
  readonly meta?: JsonObject;
}

/** What is said. */
export interface TextBlock extends BlockBase {
  readonly kind: "text";
  readonly text: string;
}

/** What a model thought before it said something. Kept for providers that want it back. */
export interface ReasoningBlock extends BlockBase {
  readonly kind: "reasoning";
  readonly text: string;
}

/**
 * A call that an assistant message asks for. Its id means this call, for good; the result names it: 1 to 256 characters,
 * none of them a control character.
 */
export interface ToolCallBlock extends BlockBase {
  readonly kind: "tool_call";
  readonly id: string;
  readonly name: string;
  readonly args: Json;
}

/** What a call came to, as the model sees it. */
export interface ToolResultBlock extends BlockBase {
  readonly kind: "tool_result";
  readonly callId: string;
  readonly content: string | readonly Block[];
  readonly isError?: boolean;
}

/** Bytes that live outside the transcript, as an artifact. */
export interface FileBlock extends BlockBase {
  readonly kind: "file";
  readonly artifact: string;
  readonly mediaType: string;
  readonly name?: string;
}

/** A part of a message. What has no kind of its own goes under a block's `meta`, which is kept exactly. */
export type Block = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock | FileBlock;

/** Who says it. */
export type MessageRole = "system" | "user" | "assistant" | "tool";

/**
 * One message of a transcript, as it is stored. A `Session` hands it out frozen; versions and `holdfast.sessions` give copies.
 * `MessageInput` is how people write one. Its id is its identity: the same id is appended once. The results of an
 * assistant message's calls follow it as role `tool`.
 */
export interface Message {
  readonly id: string;
  readonly role: MessageRole;
  /** ISO 8601, kept as it was spelled. */
  readonly createdAt: string;
  readonly blocks: readonly Block[];
  readonly meta?: JsonObject;
}

const meta = z.record(z.string(), z.json()).optional();
const hash = z.string().regex(/^[0-9a-f]{64}$/, "expected the SHA-256 of an artifact in lower-case hex");

/** Call ids come from model providers: any short text without control characters. */
export const callIdSchema = z
  .string()
  .min(1)
  .max(256)
  .refine((id) => !/\p{Cc}/u.test(id), "has a control character");

/** Checks an id that comes from outside any message, before anything is written under it. */
export function checkCallId(id: unknown): string {
  const parsed = callIdSchema.safeParse(id);
  if (parsed.success) return parsed.data;
  throw new HoldfastError("INPUT_INVALID", `call id ${quoteValue(id)}: ${parsed.error.issues[0]?.message}`, {
    hint: "Nothing was run or written. Use 1 to 256 characters, none of them a control character.",
  });
}

export const blockSchema: z.ZodType<Block> = z.lazy(() =>
  z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("text"), text: z.string(), meta }),
    z.strictObject({ kind: z.literal("reasoning"), text: z.string(), meta }),
    z.strictObject({
      kind: z.literal("tool_call"),
      id: callIdSchema,
      name: z.string().min(1),
      args: z.json(),
      meta,
    }),
    z.strictObject({
      kind: z.literal("tool_result"),
      callId: callIdSchema,
      content: z.union([z.string(), z.array(blockSchema)]),
      isError: z.boolean().optional(),
      meta,
    }),
    z.strictObject({
      kind: z.literal("file"),
      artifact: hash,
      mediaType: z.string().min(1),
      name: z.string().optional(),
      meta,
    }),
  ]),
) as z.ZodType<Block>;

export const BLOCK_KINDS = ["text", "reasoning", "tool_call", "tool_result", "file"] as const;

export const messageSchema = z.strictObject({
  id: z.string().min(1).max(256),
  role: z.enum(["system", "user", "assistant", "tool"]),
  createdAt: z.iso.datetime({ offset: true }),
  blocks: z.array(blockSchema),
  meta,
}) as unknown as z.ZodType<Message>;

/** A frozen copy of a valid message. An unknown kind of block says so, and which ones there are. */
export function checkMessage(value: unknown): Message {
  const copied = copyJson(value, "message");
  if (isPlainMessage(copied)) return copied as unknown as Message;
  const parsed = messageSchema.safeParse(copied);
  if (parsed.success) return copied as unknown as Message;
  const issue = parsed.error.issues[0] && innermost(parsed.error.issues[0]);
  const path = issue?.path ?? [];
  if (path.at(-1) === "kind") {
    const kind = path.reduce<unknown>((at, key) => (at as never)?.[key], copied);
    throw new HoldfastError(
      "BLOCK_UNKNOWN",
      `message: ${formatPath(path)} is ${quoteValue(kind)}, not a kind of block`,
      {
        hint: `Use one of ${BLOCK_KINDS.join(", ")}; put what has no place there under the block's meta.`,
        data: { path: formatPath(path), kind },
      },
    );
  }
  throw new HoldfastError("INPUT_INVALID", `message: ${formatPath(path)}: ${issue?.message}`, {
    hint: "Nothing was written. Correct the value at that path and try again.",
    data: { path: formatPath(path) },
  });
}

/** Of the ways in which a value could have been right, the one that got furthest says what is wrong. */
function innermost(issue: z.core.$ZodIssue): { readonly path: PropertyKey[]; readonly message: string } {
  if (issue.code !== "invalid_union") return issue;
  const tried = issue.errors.flatMap(([first]) => (first ? [innermost(first)] : []));
  const furthest = tried.sort((left, right) => right.path.length - left.path.length)[0];
  if (!furthest || furthest.path.length === 0) return issue;
  return { path: [...issue.path, ...furthest.path], message: furthest.message };
}

/** The calls an assistant message asks for, in order. */
export function toolCalls(message: Message): readonly ToolCallBlock[] {
  const calls: ToolCallBlock[] = [];
  // Counted, here and below: what V8's array methods and iterators do on frozen arrays is many times slower.
  const { blocks } = message;
  for (let at = 0; at < blocks.length; at++) {
    const block = blocks[at] as Block;
    if (block.kind === "tool_call") calls.push(block);
  }
  return calls;
}

/** All text of a message, without reasoning. */
export function messageText({ blocks }: Pick<Message, "blocks">): string {
  return blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");
}

/** A lower bound of the length of a message as JSON: its texts, which are nearly all of it. */
export function minMessageLength({ blocks }: Message): number {
  let length = 0;
  for (let at = 0; at < blocks.length; at++) {
    const block = blocks[at] as Block;
    if (block.kind === "text" || block.kind === "reasoning") length += block.text.length;
    else if (block.kind === "tool_result") length += block.content.length;
  }
  return length;
}

/** Adds the hashes of the artifacts that file blocks refer to, also inside tool results. */
export function messageArtifacts(blocks: readonly Block[], hashes: string[] = []): string[] {
  for (let at = 0; at < blocks.length; at++) {
    const block = blocks[at] as Block;
    if (block.kind === "file") hashes.push(block.artifact);
    else if (block.kind === "tool_result" && typeof block.content !== "string")
      messageArtifacts(block.content, hashes);
  }
  return hashes;
}
