/** Values as a log holds them: copied, frozen, compared, and written in canonical order. */

import { type ErrorCode, HoldfastError } from "./errors.ts";

/** A value that a log stores and gives back exactly: `{ "items": [1, null, "a"] }`. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const MAX_DEPTH = 200;

/**
 * A deep, frozen copy of `value`, equal to what the log gives back later. Values that JSON would silently
 * change (NaN, Date, bigint, Map, functions, holes in arrays) are rejected with their path.
 *
 * The copy keeps memory and store equal when the caller changes its own object afterwards.
 */
export function copyJson(value: unknown, what: string): Json {
  return copyOrThrow(value, what, LENIENT);
}

/**
 * `copyJson` for arguments of tools, whose hash must mean the same to everyone: undefined members and lone
 * surrogates are rejected as well. Members come in canonical order, so that one text serves for log and hash.
 * Only names that are numbers stay out of order, because JavaScript puts them first.
 */
export function copyArgs(value: unknown, what: string): Json {
  return copyOrThrow(value, what, STRICT);
}

/** `copyJson` of a value that is `depth` levels below the top; undefined where `copyJson` would throw. */
export function tryCopyJson(value: unknown, depth: number): Json | undefined {
  return copy(value, LENIENT, depth, { problem: "", path: [] });
}

interface Strictness {
  readonly code: ErrorCode;
  /** Rejects undefined members (JSON.stringify drops them) and lone surrogates; sorts members by name. */
  readonly isStrict: boolean;
}

const LENIENT: Strictness = { code: "VALUE_NOT_JSON", isStrict: false };
const STRICT: Strictness = { code: "ARGS_NOT_JSON", isStrict: true };

/** Why a value has no copy, and where. Each level adds its part of the path on the way back up. */
interface Failure {
  problem: string;
  readonly path: (string | number)[];
}

function copyOrThrow(value: unknown, what: string, how: Strictness): Json {
  const failure: Failure = { problem: "", path: [] };
  const copied = copy(value, how, 0, failure);
  if (copied !== undefined) return copied;
  const path = formatPath(failure.path.reverse());
  throw new HoldfastError(how.code, `${what}: ${path} ${failure.problem}, which JSON cannot hold`, {
    hint: "Pass plain JSON: convert dates to ISO strings, bigints to strings, and omit undefined members.",
    data: { path },
  });
}

function copy(value: unknown, how: Strictness, depth: number, failure: Failure): Json | undefined {
  switch (typeof value) {
    case "string":
      return how.isStrict && !value.isWellFormed() ? fail(failure, "has half of a surrogate pair") : value;
    case "boolean":
      return value;
    case "number":
      // Adding 0 turns -0 into 0, as JSON does.
      return Number.isFinite(value) ? value + 0 : fail(failure, `is ${value}`);
    case "object":
      if (value === null) return null;
      if (depth >= MAX_DEPTH) return fail(failure, `is nested deeper than ${MAX_DEPTH} levels`);
      return Array.isArray(value)
        ? copyArray(value, how, depth, failure)
        : copyObject(value, how, depth, failure);
    case "undefined":
      return fail(failure, "is undefined");
    default:
      return fail(failure, `is a ${typeof value}`);
  }
}

function copyArray(
  value: readonly unknown[],
  how: Strictness,
  depth: number,
  failure: Failure,
): Json | undefined {
  const result: Json[] = [];
  for (let index = 0; index < value.length; index++) {
    const item = copy(value[index], how, depth + 1, failure);
    if (item === undefined) return failAt(failure, index);
    result.push(item);
  }
  return Object.freeze(result);
}

function copyObject(value: object, how: Strictness, depth: number, failure: Failure): Json | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    return fail(failure, `is a ${value.constructor?.name ?? "object with a prototype"}`);
  }
  if (Object.getOwnPropertySymbols(value).length > 0) return fail(failure, "has a symbol as key");
  const result: Record<string, Json> = {};
  const names = Object.keys(value);
  for (const name of how.isStrict ? names.sort() : names) {
    const member = (value as Record<string, unknown>)[name];
    if (member === undefined && !how.isStrict) continue;
    if (how.isStrict && !name.isWellFormed()) {
      return fail(failure, "has a key with half of a surrogate pair");
    }
    const copied = copy(member, how, depth + 1, failure);
    if (copied === undefined) return failAt(failure, name);
    // An assignment to "__proto__" would set the prototype and lose the member.
    if (name === "__proto__") Object.defineProperty(result, name, { value: copied, enumerable: true });
    else result[name] = copied;
  }
  return Object.freeze(result);
}

function fail(failure: Failure, problem: string): undefined {
  failure.problem = problem;
}

function failAt(failure: Failure, key: string | number): undefined {
  failure.path.push(key);
}

/**
 * Canonical JSON (RFC 8785) of a value that `copyArgs` accepts: sorted keys, one spelling per number.
 *
 * @example
 * canonicalJson({ b: 1, a: [1.0] }); // '{"a":[1],"b":1}'
 */
export function canonicalJson(value: unknown, what = "value"): string {
  return canonicalOf(copyArgs(value, what));
}

/** `canonicalJson` of a value that is a copy. JavaScript writes numbers and strings as the RFC does. */
export function canonicalOf(value: Json): string {
  if (isInOrder(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalOf).join(",")}]`;
  const members = value as { readonly [name: string]: Json };
  const names = Object.keys(members).sort();
  const parts = names.map((name) => `${JSON.stringify(name)}:${canonicalOf(members[name] as Json)}`);
  return `{${parts.join(",")}}`;
}

/** Whether `JSON.stringify` writes all members in canonical order. It writes names that are numbers first. */
function isInOrder(value: Json): boolean {
  if (value === null || typeof value !== "object") return true;
  if (Array.isArray(value)) return value.every(isInOrder);
  let previous = "";
  for (const name in value) {
    const member = (value as { readonly [name: string]: Json })[name] as Json;
    if (name < previous || isDigit(name.charCodeAt(0)) || !isInOrder(member)) return false;
    previous = name;
  }
  return true;
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

/**
 * JSON text with sorted keys: equal values give equal text. Unlike `canonicalJson` it takes everything that a
 * log can hold, lone surrogates included. It compares and renders; keys are never made of it.
 */
export function canonicalText(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (member === null || typeof member !== "object" || Array.isArray(member)) return member;
    const names = Object.keys(member).sort();
    return Object.fromEntries(names.map((name) => [name, (member as Record<string, unknown>)[name]]));
  });
}

/** Whether two values are equal, in any order of members. Faster than comparing canonical texts. */
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

/** A lower bound for the length of a value as JSON: the sum of its texts, most of anything large. */
export function minJsonLength(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (value === null || typeof value !== "object") return 0;
  let length = 0;
  for (const name in value) length += minJsonLength(value[name as never]);
  return length;
}

/** Whether a JSON value has at most so many characters as text, and so many levels. */
export function isJsonWithin(value: unknown, characters: number, levels: number): boolean {
  return tryCopyJson(value, MAX_DEPTH - levels) !== undefined && JSON.stringify(value).length <= characters;
}

/** Freezes a parsed value all the way down. A frozen value is skipped: its members were frozen before it. */
export function freezeJson<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (Array.isArray(value)) for (const item of value) freezeJson(item);
  else for (const name in value) freezeJson(value[name]);
  return Object.freeze(value);
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
