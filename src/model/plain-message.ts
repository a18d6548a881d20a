/**
 * Messages as nearly all come: valid, with their members in the order of their types. One walk reads each member once, checks it,
 * copies it and writes its JSON text, where copying, checking and writing apart from each other cost twice as much. What this does
 * not take is not refused: the schema decides. A test holds the one to the other.
 */

import { copyPlain } from "./json.ts";
import { quote } from "./json-text.ts";
import type { Block, JsonObject, Message, MessageRole } from "./message.ts";
import { DATE_TIME, isCallId, isShortText, MESSAGE_ROLES } from "./message-shape.ts";

/** A frozen copy, and what `JSON.stringify` would make of it. */
interface Taken<Value> {
  readonly value: Value;
  readonly text: string;
}

const NONE: Taken<undefined> = { value: undefined, text: "" };

export function takePlainMessage(value: unknown): Taken<Message> | undefined {
  if (!isPlainObject(value)) return undefined;
  const names = Object.keys(value);
  if (!begins(names, "id", "role", "createdAt", "blocks")) return undefined;
  const { id, role, createdAt } = value;
  if (!isShortText(id) || !MESSAGE_ROLES.includes(role)) return undefined;
  if (typeof createdAt !== "string" || !DATE_TIME.test(createdAt)) return undefined;
  const blocks = takeBlocks(value["blocks"]);
  const meta = takeMeta(value, names, 4, 1);
  if (!blocks || !meta) return undefined;
  const text = `{"id":${JSON.stringify(id)},"role":"${role}","createdAt":"${createdAt}","blocks":${blocks.text}${meta.text}}`;
  const message = { id, role: role as MessageRole, createdAt, blocks: blocks.value };
  return { value: Object.freeze(meta.value ? { ...message, meta: meta.value } : message), text };
}

function takeBlocks(value: unknown): Taken<readonly Block[]> | undefined {
  if (!Array.isArray(value)) return undefined;
  const blocks: Block[] = [];
  let text = "";
  for (let index = 0; index < value.length; index++) {
    const block = takeBlock(value[index]);
    if (!block) return undefined;
    blocks.push(block.value);
    text += index === 0 ? block.text : `,${block.text}`;
  }
  return { value: Object.freeze(blocks), text: `[${text}]` };
}

function takeBlock(value: unknown): Taken<Block> | undefined {
  if (!isPlainObject(value)) return undefined;
  const { kind } = value;
  if (kind === "text" || kind === "reasoning") return takeText(value, kind);
  if (kind === "tool_call") return takeCall(value, kind);
  return kind === "tool_result" ? takeResult(value, kind) : undefined;
}

function takeText(value: Members, kind: "text" | "reasoning"): Taken<Block> | undefined {
  const names = Object.keys(value);
  const { text } = value;
  if (!begins(names, "kind", "text") || typeof text !== "string") return undefined;
  return withMeta({ kind, text }, `{"kind":"${kind}","text":${quote(text)}`, takeMeta(value, names, 2, 3));
}

function takeCall(value: Members, kind: "tool_call"): Taken<Block> | undefined {
  const names = Object.keys(value);
  if (!begins(names, "kind", "id", "name", "args")) return undefined;
  const { id, name } = value;
  if (!isCallId(id) || typeof name !== "string" || name === "") return undefined;
  const args = copyPlain(value["args"], "drop", 3);
  if (args === undefined) return undefined;
  const call = { kind, id, name, args };
  return withMeta(call, JSON.stringify(call).slice(0, -1), takeMeta(value, names, 4, 3));
}

function takeResult(value: Members, kind: "tool_result"): Taken<Block> | undefined {
  const names = Object.keys(value);
  const { callId, content } = value;
  if (!begins(names, "kind", "callId", "content") || !isCallId(callId) || typeof content !== "string")
    return undefined;
  const text = `{"kind":"tool_result","callId":${JSON.stringify(callId)},"content":${quote(content)}`;
  if (names[3] !== "isError") {
    return withMeta({ kind, callId, content }, text, takeMeta(value, names, 3, 3));
  }
  const { isError } = value;
  if (typeof isError !== "boolean") return undefined;
  const block = { kind, callId, content, isError };
  return withMeta(block, `${text},"isError":${isError}`, takeMeta(value, names, 4, 3));
}

/** The last member, if there is one more than `count`; undefined if there are others, or it is none. */
function takeMeta(
  value: Members,
  names: readonly string[],
  count: number,
  depth: number,
): Taken<JsonObject | undefined> | undefined {
  if (names.length === count) return NONE;
  if (names.length > count + 1 || names[count] !== "meta") return undefined;
  const { meta } = value;
  if (!isPlainObject(meta)) return undefined;
  const copied = copyPlain(meta, "drop", depth) as JsonObject | undefined;
  return copied && { value: copied, text: `,"meta":${JSON.stringify(copied)}` };
}

function withMeta(
  block: Block,
  text: string,
  meta: Taken<JsonObject | undefined> | undefined,
): Taken<Block> | undefined {
  if (!meta) return undefined;
  const value = meta.value ? { ...block, meta: meta.value } : block;
  return { value: Object.freeze(value), text: `${text}${meta.text}}` };
}

type Members = { readonly [name: string]: unknown };

function isPlainObject(value: unknown): value is Members {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  return Object.getOwnPropertySymbols(value).length === 0;
}

function begins(names: readonly string[], first: string, second: string, third?: string, fourth?: string) {
  if (names[0] !== first || names[1] !== second) return false;
  return (third === undefined || names[2] === third) && (fourth === undefined || names[3] === fourth);
}
