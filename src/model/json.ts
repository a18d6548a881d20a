import { type ErrorCode, HoldfastError } from "./errors.ts";
import { frozenText } from "./json-text.ts";

/**
 * JSON text with sorted keys: equal values give equal text. Unlike `canonicalJson` it takes anything that a log
 * can hold, lone surrogates included; it compares and renders, it never becomes a key.
 */
export function canonicalText(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (member === null || typeof member !== "object" || Array.isArray(member)) return member;
    const sorted: [string, unknown][] = Object.keys(member)
      .sort()
      .map((key) => [key, (member as Record<string, unknown>)[key]]);
    return Object.fromEntries(sorted);
  });
}

/** What a log can hold, and gives back exactly. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

interface Strictness {
  code: ErrorCode;
  /** What is being checked, for the message: "args of charge", "message". */
  what: string;
  /** `undefined` members of objects: left out as JSON.stringify does, or refused. */
  undefinedMembers: "drop" | "refuse";
  /** Half of a surrogate pair: kept (JSON escapes it exactly), or refused because no vendor hashes it alike. */
  loneSurrogates: "keep" | "refuse";
}

const DEPTH_LIMIT = 200;
const FEW_NAMES = 12;

/**
 * A deep, frozen copy of `value` that is exactly what reading it back from the log will give. What JSON would
 * change silently (NaN, Date, bigint, Map, functions, holes) is refused with its path. The copy is what keeps
 * memory and store from diverging when the caller later changes its own object.
 */
export function copyJson(value: unknown, what: string): Json {
  const plain = copyPlain(value, "drop", 0);
  if (plain !== undefined) return plain;
  return copy(value, [], {
    code: "VALUE_NOT_JSON",
    what,
    undefinedMembers: "drop",
    loneSurrogates: "keep",
  });
}

/**
 * The same, without tolerance: for arguments of tools, whose hash must mean the same to everyone. Members come in their canonical
 * order, but for names that are numbers, which JavaScript puts first: so one text serves for the log and for the hash.
 */
export function copyArgs(value: unknown, what: string): Json {
  const plain = copyPlain(value, "refuse", 0);
  if (plain !== undefined) return plain;
  return copy(value, [], {
    code: "ARGS_NOT_JSON",
    what,
    undefinedMembers: "refuse",
    loneSurrogates: "refuse",
  });
}

/** Canonical JSON (RFC 8785) of a value that `copyArgs` accepts: sorted keys, one spelling per number. */
export function canonicalJson(value: unknown, what = "value"): string {
  return canonicalOf(copyArgs(value, what));
}

/** The same for what `copyArgs` has made. JavaScript writes numbers and strings, and orders names, as the RFC does. */
export function canonicalOf(value: Json): string {
  if (isInOrder(value)) return frozenText(value);
  const ordered = inOrder(value);
  return ordered === undefined ? canonicalPart(value) : JSON.stringify(ordered);
}

function isInOrder(value: Json): boolean {
  if (value === null || typeof value !== "object") return true;
  if (Array.isArray(value)) {
    for (const item of value as readonly Json[]) if (!isInOrder(item)) return false;
    return true;
  }
  let before = "";
  for (const name in value) {
    if (
      name < before ||
      isNumeric(name) ||
      !isInOrder((value as { readonly [name: string]: Json })[name] as Json)
    )
      return false;
    before = name;
  }
  return true;
}

/** Equal to `value`, with all members in order; undefined where JavaScript has an order of its own: numbers go first. */
function inOrder(value: Json): Json | undefined {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) {
    const items: Json[] = [];
    for (const item of value as readonly Json[]) {
      const ordered = inOrder(item);
      if (ordered === undefined) return undefined;
      items.push(ordered);
    }
    return items;
  }
  const result: Record<string, Json> = {};
  for (const name of sorted(Object.keys(value))) {
    const member = inOrder((value as { readonly [name: string]: Json })[name] as Json);
    if (member === undefined || isNumeric(name) || name === "__proto__") return undefined;
    result[name] = member;
  }
  return result;
}

/** In place, by their units of UTF-16, as JavaScript's own `sort` does, which takes longer to begin than a few names take. */
function sorted(names: string[]): string[] {
  if (names.length > FEW_NAMES) return names.sort();
  for (let next = 1; next < names.length; next++) {
    const name = names[next] as string;
    let at = next;
    for (; at > 0 && (names[at - 1] as string) > name; at--) names[at] = names[at - 1] as string;
    names[at] = name;
  }
  return names;
}

function isNumeric(name: string): boolean {
  const first = name.charCodeAt(0);
  return first >= 48 && first <= 57;
}

function canonicalPart(value: Json): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalPart).join(",")}]`;
  const members = value as { readonly [name: string]: Json };
  let text = "";
  for (const name of Object.keys(members).sort()) {
    text += `${text === "" ? "{" : ","}${JSON.stringify(name)}:${canonicalPart(members[name] as Json)}`;
  }
  return text === "" ? "{}" : `${text}}`;
}

/** Whether two values say the same, in whatever order their members are. Faster than comparing canonical texts. */
export function sameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const names = Object.keys(left);
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => Object.hasOwn(right, name) && sameJson(left[name as never], right[name as never]))
  );
}

/** A lower bound of the length of a value as JSON: its texts, which are most of anything large. */
export function minJsonLength(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (value === null || typeof value !== "object") return 0;
  let length = 0;
  for (const name in value) length += minJsonLength(value[name as never]);
  return length;
}

/**
 * Freezes what was parsed from the log, all the way down. What is frozen already is left alone: nothing here freezes a
 * value before what is in it.
 */
export function freezeJson<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (Array.isArray(value)) for (const item of value) freezeJson(item);
  else for (const name in value) freezeJson(value[name]);
  return Object.freeze(value);
}

/**
 * The copy where there is nothing to remark on, as nearly always, in a third of the time: it does not know where in the
 * value it is. Undefined: the value has to be looked at more closely. `doubtful` is what becomes of undefined members and
 * of half surrogate pairs.
 */
export function copyPlain(value: unknown, doubtful: "drop" | "refuse", depth: number): Json | undefined {
  if (typeof value === "string") return doubtful === "drop" || value.isWellFormed() ? value : undefined;
  if (typeof value === "number") return Number.isFinite(value) ? value + 0 : undefined;
  if (typeof value === "boolean" || value === null) return value;
  if (typeof value !== "object" || depth >= DEPTH_LIMIT) return undefined;
  if (Array.isArray(value)) return copyPlainArray(value, doubtful, depth);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return undefined;
  if (Object.getOwnPropertySymbols(value).length > 0) return undefined;
  const result: Record<string, Json> = {};
  const names = Object.keys(value);
  for (const key of doubtful === "refuse" ? sorted(names) : names) {
    const member = (value as Record<string, unknown>)[key];
    if (member === undefined && doubtful === "drop") continue;
    const copied = copyPlain(member, doubtful, depth + 1);
    if (copied === undefined || key === "__proto__") return undefined;
    if (doubtful === "refuse" && !key.isWellFormed()) return undefined;
    result[key] = copied;
  }
  return Object.freeze(result);
}

function copyPlainArray(
  value: readonly unknown[],
  doubtful: "drop" | "refuse",
  depth: number,
): Json | undefined {
  const result: Json[] = [];
  for (let index = 0; index < value.length; index++) {
    const copied = copyPlain(value[index], doubtful, depth + 1);
    if (copied === undefined) return undefined;
    result.push(copied);
  }
  return Object.freeze(result);
}

function copy(value: unknown, path: (string | number)[], strict: Strictness): Json {
  switch (typeof value) {
    case "string":
      if (strict.loneSurrogates === "refuse" && !value.isWellFormed()) {
        return refuse("has half of a surrogate pair", path, strict);
      }
      return value;
    case "boolean":
      return value;
    case "number":
      if (!Number.isFinite(value)) return refuse(`is ${value}`, path, strict);
      return Object.is(value, -0) ? 0 : value;
    case "object":
      if (value === null) return null;
      if (path.length >= DEPTH_LIMIT)
        return refuse(`is nested deeper than ${DEPTH_LIMIT} levels`, path, strict);
      return Array.isArray(value) ? copyArray(value, path, strict) : copyObject(value, path, strict);
    case "bigint":
      return refuse("is a bigint", path, strict);
    default:
      return refuse(`is ${typeof value === "undefined" ? "undefined" : `a ${typeof value}`}`, path, strict);
  }
}

function copyArray(value: readonly unknown[], path: (string | number)[], strict: Strictness): Json {
  const result: Json[] = new Array(value.length);
  for (let index = 0; index < value.length; index++) {
    path.push(index);
    result[index] = copy(value[index], path, strict);
    path.pop();
  }
  return Object.freeze(result);
}

function copyObject(value: object, path: (string | number)[], strict: Strictness): Json {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    return refuse(`is a ${value.constructor?.name ?? "object with a prototype"}`, path, strict);
  }
  if (Object.getOwnPropertySymbols(value).length > 0) return refuse("has a symbol as key", path, strict);
  const result: Record<string, Json> = {};
  const names = Object.keys(value);
  for (const key of strict.undefinedMembers === "refuse" ? sorted(names) : names) {
    const member = (value as Record<string, unknown>)[key];
    if (member === undefined && strict.undefinedMembers === "drop") continue;
    if (strict.loneSurrogates === "refuse" && !key.isWellFormed()) {
      return refuse("has a key with half of a surrogate pair", path, strict);
    }
    path.push(key);
    const copied = copy(member, path, strict);
    path.pop();
    // A plain assignment to "__proto__" would set the prototype and lose the member.
    if (key === "__proto__") Object.defineProperty(result, key, { value: copied, enumerable: true });
    else result[key] = copied;
  }
  return Object.freeze(result);
}

function refuse(problem: string, path: readonly (string | number)[], strict: Strictness): never {
  const at = formatPath(path);
  throw new HoldfastError(strict.code, `${strict.what}: ${at} ${problem}, which JSON cannot hold`, {
    hint: "Pass plain JSON: convert dates to ISO strings, bigints to strings, and leave out what is undefined.",
    data: { path: at },
  });
}

/** `$.items[3].price` */
export function formatPath(path: readonly PropertyKey[]): string {
  let text = "$";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else if (/^[A-Za-z_$][\w$]*$/.test(String(part))) text += `.${String(part)}`;
    else text += `[${JSON.stringify(String(part))}]`;
  }
  return text;
}
