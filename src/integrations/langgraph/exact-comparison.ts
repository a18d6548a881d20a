/**
 * Whether a value is still what was written of it, found without writing it out again. Only a sure yes is a yes: where
 * this cannot tell (dates, maps, bytes and whatever else JSON does not have), the caller writes the value out and compares.
 */

import type { Json } from "../../model/json.ts";
import { isEmptyByDefault, isPlain } from "./exact-value.ts";

type Members = { readonly [name: string]: Json };

/** `json` is what `writeExact` made of `value`, or of something else, earlier. */
export function isStill(value: unknown, json: Json | undefined): boolean {
  if (value === null || typeof value !== "object") return isSamePrimitive(value, json);
  if (json === null || typeof json !== "object") return false;
  if (Array.isArray(value)) return Array.isArray(json) && isSameList(value, json);
  if (Array.isArray(json) || !isPlain(value)) return false;
  return areSameMembers(value, json as Members);
}

/** The same for a message that was written as `json` before: its class is what it was. */
export function isStillMessage(message: object, json: Json): boolean {
  const { type, fields } = json as { type?: unknown; fields?: Members };
  if (type !== "message" || fields === undefined) return false;
  let left = 0;
  for (const _name in fields) left += 1;
  for (const name in message) {
    const field: unknown = message[name as never];
    if (field === undefined || name === "type" || name.startsWith("lc_")) continue;
    const written = fields[name];
    if (written === undefined) {
      if (isEmptyByDefault(message, name)) continue;
      return false;
    }
    if (!isStill(field, written)) return false;
    left -= 1;
  }
  return left === 0;
}

function isSamePrimitive(value: unknown, json: Json | undefined): boolean {
  // Minus zero equals zero, but is written differently. Undefined and bigint are never equal to what JSON has.
  return value === json && value !== undefined && !Object.is(value, -0);
}

function isSameList(list: readonly unknown[], json: readonly Json[]): boolean {
  if (list.length !== json.length) return false;
  for (let index = 0; index < list.length; index++) if (!isStill(list[index], json[index])) return false;
  return true;
}

/** `in` goes through own members only: nothing that JSON or `hasNoCodec` lets through inherits any. */
function areSameMembers(value: object, json: Members): boolean {
  // Data with a member `lc` is wrapped when it is written.
  if ("lc" in value) return false;
  let left = 0;
  for (const _name in json) left += 1;
  for (const name in value) {
    if (!Object.hasOwn(json, name) || !isStill(value[name as never], json[name])) return false;
    left -= 1;
  }
  return left === 0;
}
