/**
 * Messages as nearly all come: valid, with their members in the order of their types. One walk reads each member once, checks it,
 * copies it and writes its JSON text, where copying, checking and writing apart from each other cost twice as much. What this does
 * not take is not refused: the schema decides. A test holds the one to the other.
 */

import { copyPlain } from "../json.ts";
import type { JsonText } from "../json-text.ts";
import type { Block, JsonObject, Message, MessageRole } from "./message.ts";
import { DATE_TIME, isCallId, isShortText, MESSAGE_ROLES } from "./message-shape.ts";

/** A frozen copy; what `JSON.stringify` would make of it is added to `out`. If it is not taken, that is left half written. */
export function takePlainMessage(value: unknown, out: JsonText): Message | undefined {
  if (!isPlainObject(value)) return undefined;
  const names = Object.keys(value);
  if (!begins(names, "id", "role", "createdAt", "blocks")) return undefined;
  const { id, role, createdAt } = value;
  if (!isShortText(id) || !MESSAGE_ROLES.includes(role)) return undefined;
  if (typeof createdAt !== "string" || !DATE_TIME.test(createdAt)) return undefined;
  out.json(`{"id":${JSON.stringify(id)},"role":"${role}","createdAt":"${createdAt}","blocks":`);
  const blocks = takeBlocks(value["blocks"], out);
  if (!blocks) return undefined;
  const meta = takeMeta(value, names, 4, 1, out);
  if (meta === undefined) return undefined;
  const message = { id, role: role as MessageRole, createdAt, blocks };
  return Object.freeze(meta ? { ...message, meta } : message);
}

function takeBlocks(value: unknown, out: JsonText): readonly Block[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const blocks: Block[] = [];
  for (let index = 0; index < value.length; index++) {
    out.json(index === 0 ? "[" : ",");
    const block = takeBlock(value[index], out);
    if (!block) return undefined;
    blocks.push(block);
  }
  out.json(blocks.length === 0 ? "[]" : "]");
  return Object.freeze(blocks);
}

function takeBlock(value: unknown, out: JsonText): Block | undefined {
  if (!isPlainObject(value)) return undefined;
  const { kind } = value;
  if (kind === "text" || kind === "reasoning") return takeText(value, kind, out);
  if (kind === "tool_call") return takeCall(value, kind, out);
  return kind === "tool_result" ? takeResult(value, kind, out) : undefined;
}

function takeText(value: Members, kind: "text" | "reasoning", out: JsonText): Block | undefined {
  const names = Object.keys(value);
  const { text } = value;
  if (!begins(names, "kind", "text") || typeof text !== "string") return undefined;
  out.json(kind === "text" ? '{"kind":"text","text":' : '{"kind":"reasoning","text":');
  out.text(text);
  return withMeta({ kind, text }, takeMeta(value, names, 2, 3, out));
}

function takeCall(value: Members, kind: "tool_call", out: JsonText): Block | undefined {
  const names = Object.keys(value);
  if (!begins(names, "kind", "id", "name", "args")) return undefined;
  const { id, name } = value;
  if (!isCallId(id) || typeof name !== "string" || name === "") return undefined;
  const args = copyPlain(value["args"], "drop", 3);
  if (args === undefined) return undefined;
  const call = { kind, id, name, args };
  out.json(JSON.stringify(call).slice(0, -1));
  return withMeta(call, takeMeta(value, names, 4, 3, out));
}

function takeResult(value: Members, kind: "tool_result", out: JsonText): Block | undefined {
  const names = Object.keys(value);
  const { callId, content } = value;
  if (!begins(names, "kind", "callId", "content") || !isCallId(callId) || typeof content !== "string")
    return undefined;
  out.json(`{"kind":"tool_result","callId":${JSON.stringify(callId)},"content":`);
  out.text(content);
  if (names[3] !== "isError") return withMeta({ kind, callId, content }, takeMeta(value, names, 3, 3, out));
  const { isError } = value;
  if (typeof isError !== "boolean") return undefined;
  out.json(isError ? ',"isError":true' : ',"isError":false');
  return withMeta({ kind, callId, content, isError }, takeMeta(value, names, 4, 3, out));
}

/** The last member, if there is one more than `count`, else null, and the end; undefined if there are others, or it is none. */
function takeMeta(
  value: Members,
  names: readonly string[],
  count: number,
  depth: number,
  out: JsonText,
): JsonObject | null | undefined {
  if (names.length === count) {
    out.json("}");
    return null;
  }
  if (names.length > count + 1 || names[count] !== "meta") return undefined;
  const { meta } = value;
  if (!isPlainObject(meta)) return undefined;
  const copied = copyPlain(meta, "drop", depth) as JsonObject | undefined;
  if (copied) out.json(`,"meta":${JSON.stringify(copied)}}`);
  return copied;
}

function withMeta(block: Block, meta: JsonObject | null | undefined): Block | undefined {
  if (meta === undefined) return undefined;
  return Object.freeze(meta ? { ...block, meta } : block);
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
