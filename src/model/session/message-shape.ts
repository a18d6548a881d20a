/**
 * The schema of messages is exact and says what is wrong, but walking it costs more than all else that happens to a
 * message on its way to the store. This accepts at a glance what is plainly valid, as nearly every message is. What
 * it does not accept is not refused: the schema decides. A test holds the one to the other.
 */

import { regexes } from "zod";
import type { Json } from "../json.ts";

type Members = { readonly [name: string]: Json };

export const MESSAGE_ROLES: readonly unknown[] = ["system", "user", "assistant", "tool"];
export const DATE_TIME = regexes.datetime({ offset: true });
const CONTROL = /\p{Cc}/u;

/** `value` comes from `copyJson`, so all of it is JSON and no member is undefined. */
export function isPlainMessage(value: Json): boolean {
  if (!isObject(value)) return false;
  const { id, role, createdAt, blocks, meta } = value;
  return (
    isShortText(id) &&
    MESSAGE_ROLES.includes(role) &&
    typeof createdAt === "string" &&
    DATE_TIME.test(createdAt) &&
    Array.isArray(blocks) &&
    arePlainBlocks(blocks) &&
    hasNoMore(value, 4, meta)
  );
}

function arePlainBlocks(blocks: readonly Json[]): boolean {
  for (const block of blocks) if (!isPlainBlock(block)) return false;
  return true;
}

function isPlainBlock(block: Json): boolean {
  if (!isObject(block)) return false;
  switch (block["kind"]) {
    case "text":
    case "reasoning":
      return typeof block["text"] === "string" && hasNoMore(block, 2, block["meta"]);
    case "tool_call": {
      const { id, name, args, meta } = block;
      const isNamed = isCallId(id) && typeof name === "string" && name !== "";
      return isNamed && args !== undefined && hasNoMore(block, 4, meta);
    }
    case "tool_result": {
      const { callId, content, isError, meta } = block;
      const isFlagged = typeof isError === "boolean";
      return isCallId(callId) && typeof content === "string" && hasNoMore(block, isFlagged ? 4 : 3, meta);
    }
    default:
      return false;
  }
}

function isObject(value: Json | undefined): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The members that were looked at, perhaps `meta`, and none besides. */
function hasNoMore(value: Members, members: number, meta: Json | undefined): boolean {
  const count = Object.keys(value).length;
  if (meta === undefined) return count === members;
  return count === members + 1 && isObject(meta) && !Object.hasOwn(meta, "__proto__");
}

export function isShortText(value: unknown): value is string {
  return typeof value === "string" && value.length >= 1 && value.length <= 256;
}

export function isCallId(value: unknown): value is string {
  return isShortText(value) && !CONTROL.test(value);
}
