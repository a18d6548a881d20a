/**
 * A value of a graph's state as JSON, so that loading it gives the same value: bigint, Date, NaN, typed arrays, Buffers,
 * Map, Set, undefined and LangChain's messages survive. What would come back as something else (a function, a symbol,
 * an object of a class that nobody can make again, a circle) is refused with its path, before anything is written.
 */

import { type BaseMessage, isBaseMessage } from "@langchain/core/messages";
import { isDeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { formatPath, HoldfastError, isHoldfastError, type Json } from "../../model/index.ts";
import { BYTES, type ExactRecord, type JsonMembers, MESSAGES, setMember } from "./exact-records.ts";

const DEPTH_LIMIT = 200;

type Path = (string | number)[];

/** `what` names the value in messages: "channel messages". */
export function encodeExact(value: unknown, what: string): Json {
  return encode(value, [], what);
}

function encode(value: unknown, path: Path, what: string): Json {
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
      if (path.length >= DEPTH_LIMIT)
        return refuse(`is nested deeper than ${DEPTH_LIMIT} levels, or in itself`, path, what);
      if (Array.isArray(value)) return encodeList(value, path, what);
      return isPlain(value) ? encodePlain(value, path, what) : encodeObject(value, path, what);
    default:
      return refuse(`is a ${typeof value}`, path, what);
  }
}

function record(exact: ExactRecord): Json {
  return exact;
}

function encodeList(list: readonly unknown[], path: Path, what: string): Json[] {
  const encoded: Json[] = new Array(list.length);
  for (let index = 0; index < list.length; index++) {
    path.push(index);
    encoded[index] = encode(list[index], path, what);
    path.pop();
  }
  return encoded;
}

function encodeMembers(value: object, names: readonly string[], path: Path, what: string): JsonMembers {
  const members: Record<string, Json> = {};
  for (const name of names) {
    path.push(name);
    setMember(members, name, encode((value as Record<string, unknown>)[name], path, what));
    path.pop();
  }
  return members;
}

function encodePlain(value: object, path: Path, what: string): Json {
  if (Object.getOwnPropertySymbols(value).length > 0) return refuse("has a symbol as key", path, what);
  const members = encodeMembers(value, Object.keys(value), path, what);
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

function encodeObject(value: object, path: Path, what: string): Json {
  if (isBaseMessage(value)) return encodeMessage(value, path, what);
  if (isDeltaSnapshot(value)) {
    return record({ lc: 2, type: "delta_snapshot", value: encode(value.value, path, what) });
  }
  if (value instanceof Date) {
    const time = value.getTime();
    return record({ lc: 2, type: "date", value: Number.isNaN(time) ? null : time });
  }
  if (value instanceof Map) {
    const entries = [...value].map((entry) => encodeList(entry, path, what) as [Json, Json]);
    return record({ lc: 2, type: "map", value: entries });
  }
  if (value instanceof Set) return record({ lc: 2, type: "set", value: encodeList([...value], path, what) });
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return encodeBytes(value, path, what);
  if (value instanceof Error) return encodeError(value, path, what);
  if (value instanceof RegExp)
    return record({ lc: 2, type: "regexp", source: value.source, flags: value.flags });
  if (value instanceof URL) return record({ lc: 2, type: "url", value: value.href });
  if (value.constructor.name === "Document" && "pageContent" in value) {
    return record({
      lc: 2,
      type: "document",
      fields: encodeMembers(value, given(value, Object.keys(value)), path, what),
    });
  }
  return encodeByItsOwnWord(value, path, what);
}

/** Everything that the message has, also what was set after it was made and its constructor never saw. */
function encodeMessage(message: BaseMessage, path: Path, what: string): Json {
  // Its name, and not the class itself: a program may have got two copies of LangChain.
  const of = message.lc_id.at(-1) ?? "message";
  if (!Object.hasOwn(MESSAGES, of)) {
    return refuse(`is a ${of}, a message of a class that cannot be made again on load`, path, what);
  }
  const names = Object.keys(message).filter((name) => name !== "type" && !name.startsWith("lc_"));
  const fields = given(message, names).filter((name) => !isEmptyByDefault(message, name));
  return record({ lc: 2, type: "message", of, fields: encodeMembers(message, fields, path, what) });
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

function encodeBytes(value: ArrayBuffer | ArrayBufferView, path: Path, what: string): Json {
  const of = Buffer.isBuffer(value) ? "Buffer" : value.constructor.name;
  const isKnown = of === "Buffer" || of === "ArrayBuffer" || BYTES[of] === value.constructor;
  if (!isKnown) return refuse(`is a ${of}`, path, what);
  const bytes =
    value instanceof ArrayBuffer
      ? Buffer.from(value)
      : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return record({ lc: 2, type: "bytes", of, value: bytes.toString("base64") });
}

function encodeError(error: Error, path: Path, what: string): Json {
  const { name, message, cause } = error;
  if (cause === undefined) return record({ lc: 2, type: "error", name, message });
  return record({ lc: 2, type: "error", name, message, cause: encodeCause(cause, path, what) });
}

/** Whatever a driver put there, it must not keep the error itself from being saved. */
function encodeCause(cause: unknown, path: Path, what: string): Json {
  try {
    return encode(cause, [...path, "cause"], what);
  } catch (error) {
    if (isHoldfastError(error, "VALUE_NOT_JSON")) return String(cause);
    throw error;
  }
}

/** Objects of LangChain and LangGraph, and any class that says itself how it is written. */
function encodeByItsOwnWord(value: object, path: Path, what: string): Json {
  if (!("toJSON" in value) || typeof value.toJSON !== "function") {
    return refuse(`is a ${value.constructor?.name ?? "object of a class"}`, path, what);
  }
  const own: unknown = value.toJSON();
  if (!("lc_serializable" in value)) {
    const isSend = "lg_name" in value && value.lg_name === "Send";
    const { lg_name: _name, ...send } = isSend ? (own as { lg_name: string }) : { lg_name: "" };
    return encode(isSend ? send : own, path, what);
  }
  const text = JSON.stringify(own);
  if (text.includes('"not_implemented"')) {
    return refuse(`holds a ${value.constructor.name}, which LangChain cannot load again`, path, what);
  }
  return record({ lc: 2, type: "langchain", text });
}

function refuse(problem: string, path: Path, what: string): never {
  const at = formatPath(path);
  throw new HoldfastError("VALUE_NOT_JSON", `${what}: ${at} ${problem}, and would not come back as it is`, {
    hint: "Nothing was saved. Keep plain data in the state; or give the class a toJSON(); or pass a `serde` that knows it.",
    data: { path: at },
  });
}
