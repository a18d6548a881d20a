/**
 * A value of a graph's state as JSON, so that loading it gives the same value: bigint, Date, NaN, typed arrays, Buffers,
 * Map, Set, undefined and LangChain's messages survive. What would come back as something else (a function, a symbol,
 * an object of a class that nobody can make again, a circle) is refused with its path, before anything is written.
 */

import { type BaseMessage, isBaseMessage } from "@langchain/core/messages";
import { isDeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { formatPath, type Json } from "../../model/json.ts";
import { BYTES, type ExactRecord, type JsonMembers, MESSAGES, setMember } from "./exact-records.ts";

const DEPTH_LIMIT = 200;

/** Where in a value we are, and what was found on the way. */
interface Writing {
  readonly path: (string | number)[];
  readonly what: string;
  needsLoading: boolean;
}

/** `what` names the value in messages: "channel messages". `needsLoading`: only LangChain's own loader can make it again. */
export function writeExact(value: unknown, what: string): { json: Json; needsLoading: boolean } {
  const at: Writing = { path: [], what, needsLoading: false };
  const json = encode(value, at);
  return { json, needsLoading: at.needsLoading };
}

function encode(value: unknown, at: Writing): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value) && !Object.is(value, -0)) return value;
      return record({ lc: 2, type: "number", value: Object.is(value, -0) ? "-0" : String(value) });
    case "undefined":
      return record({ lc: 2, type: "undefined" });
    case "bigint":
      return record({ lc: 2, type: "bigint", value: String(value) });
    case "object":
      if (value === null) return null;
      if (at.path.length >= DEPTH_LIMIT)
        return refuse(`is nested deeper than ${DEPTH_LIMIT} levels, or in itself`, at);
      if (Array.isArray(value)) return encodeList(value, at);
      return isPlain(value) ? encodePlain(value, at) : encodeObject(value, at);
    default:
      return refuse(`is a ${typeof value}`, at);
  }
}

function record(exact: ExactRecord): Json {
  return exact;
}

function encodeList(list: readonly unknown[], at: Writing): Json[] {
  const encoded: Json[] = new Array(list.length);
  for (let index = 0; index < list.length; index++) {
    at.path.push(index);
    encoded[index] = encode(list[index], at);
    at.path.pop();
  }
  return encoded;
}

function encodeMembers(value: object, names: readonly string[], at: Writing): JsonMembers {
  const members: Record<string, Json> = {};
  for (const name of names) {
    at.path.push(name);
    setMember(members, name, encode((value as Record<string, unknown>)[name], at));
    at.path.pop();
  }
  return members;
}

function encodePlain(value: object, at: Writing): Json {
  if (Object.getOwnPropertySymbols(value).length > 0) return refuse("has a symbol as key", at);
  const members = encodeMembers(value, Object.keys(value), at);
  return Object.hasOwn(members, "lc") ? record({ lc: 2, type: "plain", value: members }) : members;
}

/** Also for objects of another realm: their prototype is the end of its own chain. */
export function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return (
    prototype === null ||
    prototype === Object.prototype ||
    (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf"))
  );
}

function encodeObject(value: object, at: Writing): Json {
  if (isBaseMessage(value)) return encodeMessage(value, at);
  if (isDeltaSnapshot(value)) {
    return record({ lc: 2, type: "delta_snapshot", value: encode(value.value, at) });
  }
  if (value instanceof Date) {
    const time = value.getTime();
    return record({ lc: 2, type: "date", value: Number.isNaN(time) ? null : time });
  }
  if (value instanceof Map) {
    const entries = [...value].map((entry) => encodeList(entry, at) as [Json, Json]);
    return record({ lc: 2, type: "map", value: entries });
  }
  if (value instanceof Set) return record({ lc: 2, type: "set", value: encodeList([...value], at) });
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return encodeBytes(value, at);
  if (value instanceof Error) return encodeError(value, at);
  if (value instanceof RegExp)
    return record({ lc: 2, type: "regexp", source: value.source, flags: value.flags });
  if (value instanceof URL) return record({ lc: 2, type: "url", value: value.href });
  if (value.constructor.name === "Document" && "pageContent" in value) {
    return record({
      lc: 2,
      type: "document",
      fields: encodeMembers(value, given(value, Object.keys(value)), at),
    });
  }
  return encodeByItsOwnWord(value, at);
}

/** Everything that the message has, also what was set after it was made and its constructor never saw. */
function encodeMessage(message: BaseMessage, at: Writing): Json {
  // Its name, and not the class itself: a program may have got two copies of LangChain.
  const of = message.lc_id.at(-1) ?? "message";
  if (!Object.hasOwn(MESSAGES, of)) {
    return refuse(`is a ${of}, a message of a class that cannot be made again on load`, at);
  }
  const fields: Record<string, Json> = {};
  for (const name of Object.keys(message)) {
    const field: unknown = message[name as never];
    if (field === undefined || name === "type" || name.startsWith("lc_") || isEmptyByDefault(message, name))
      continue;
    at.path.push(name);
    setMember(fields, name, encode(field, at));
    at.path.pop();
  }
  return record({ lc: 2, type: "message", of, fields });
}

/** A field that was not given and one that is undefined are the same to a constructor. */
function given(value: object, names: readonly string[]): string[] {
  return names.filter((name) => value[name as never] !== undefined);
}

/** Every message has these two, and nearly always they are empty. */
export function isEmptyByDefault(message: object, name: string): boolean {
  if (name !== "additional_kwargs" && name !== "response_metadata") return false;
  return Object.keys(message[name as never]).length === 0;
}

function encodeBytes(value: ArrayBuffer | ArrayBufferView, at: Writing): Json {
  const of = Buffer.isBuffer(value) ? "Buffer" : value.constructor.name;
  const isKnown = of === "Buffer" || of === "ArrayBuffer" || BYTES[of] === value.constructor;
  if (!isKnown) return refuse(`is a ${of}`, at);
  const bytes =
    value instanceof ArrayBuffer
      ? Buffer.from(value)
      : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return record({ lc: 2, type: "bytes", of, value: bytes.toString("base64") });
}

function encodeError(error: Error, at: Writing): Json {
  const { name, message, cause } = error;
  if (cause === undefined) return record({ lc: 2, type: "error", name, message });
  return record({ lc: 2, type: "error", name, message, cause: encodeCause(cause, at) });
}

/** Whatever a driver put there, it must not keep the error itself from being saved. */
function encodeCause(cause: unknown, at: Writing): Json {
  const here = at.path.length;
  at.path.push("cause");
  try {
    return encode(cause, at);
  } catch (error) {
    if (isHoldfastError(error, "VALUE_NOT_JSON")) return String(cause);
    throw error;
  } finally {
    at.path.length = here;
  }
}

/** Objects of LangChain and LangGraph, and any class that says itself how it is written. */
function encodeByItsOwnWord(value: object, at: Writing): Json {
  if (!("toJSON" in value) || typeof value.toJSON !== "function") {
    return refuse(`is a ${value.constructor?.name ?? "object of a class"}`, at);
  }
  const own: unknown = value.toJSON();
  if (!("lc_serializable" in value)) {
    const isSend = "lg_name" in value && value.lg_name === "Send";
    const { lg_name: _name, ...send } = isSend ? (own as { lg_name: string }) : { lg_name: "" };
    return encode(isSend ? send : own, at);
  }
  const text = JSON.stringify(own);
  if (text.includes('"not_implemented"')) {
    return refuse(`holds a ${value.constructor.name}, which LangChain cannot load again`, at);
  }
  at.needsLoading = true;
  return record({ lc: 2, type: "langchain", text });
}

function refuse(problem: string, at: Writing): never {
  const path = formatPath(at.path);
  throw new HoldfastError(
    "VALUE_NOT_JSON",
    `${at.what}: ${path} ${problem}, and would not come back as it is`,
    {
      hint: "Nothing was saved. Keep plain data in the state; or give the class a toJSON(); or pass a `serde` that knows it.",
      data: { path },
    },
  );
}
