/**
 * The serializer of a saver: a value comes back exactly as it was, or `put` refuses it before anything is
 * written. LangGraph's own serializer turns a Date into a string, NaN into null and a Buffer into an object.
 *
 * Kept exactly:
 *  - JSON values, also -0, NaN, ±Infinity, undefined, bigint
 *  - Date, URL, RegExp, Map, Set, Buffer, ArrayBuffer, typed arrays, DataView
 *  - Error: its name, message and cause; other members are dropped
 *  - LangChain's messages (also members set after construction) and documents
 *  - other objects that LangChain can load again, and LangGraph's Send
 *  - objects of any class with a `toJSON()`: its result comes back, not the object
 *
 * Refused, with the path of the value: functions, symbols, objects of other classes, subclasses of
 * LangChain's messages, and values nested deeper than 200 levels.
 *
 * A value that JSON lacks is written as a record: an object with `lc: 2`. A user's object with a member `lc`
 * is wrapped in a record of type `plain`. So data of a user never turns into an object of some class.
 */

import { Document } from "@langchain/core/documents";
import { load } from "@langchain/core/load";
import * as langchain from "@langchain/core/messages";
import { DeltaSnapshot, isDeltaSnapshot, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { formatPath, type Json } from "../../model/json.ts";
import { quoteValue } from "../../model/names.ts";
import { refusal } from "../refusal.ts";

const TYPE = "holdfast.exact";
const DEPTH_LIMIT = 200;

/**
 * The default `serde` of `HoldfastSaver`: values come back exactly as they were, or are refused when they are
 * saved. Pass it to another checkpointer to get the same guarantee there.
 * @example
 * const [type, bytes] = await new ExactSerializer().dumpsTyped({ due: new Date(0), cents: 10n });
 * await new ExactSerializer().loadsTyped(type, bytes); // { due: Date, cents: 10n }
 */
export class ExactSerializer implements SerializerProtocol {
  /** Encodes a value, or throws with the path of the part that cannot be kept. */
  async dumpsTyped(data: unknown): Promise<[string, Uint8Array]> {
    return [TYPE, new TextEncoder().encode(JSON.stringify(encodeJson(data, "value").json))];
  }

  /** Decodes what `dumpsTyped` has encoded. */
  async loadsTyped(type: string, data: Uint8Array | string): Promise<unknown> {
    if (type !== TYPE) {
      throw new HoldfastError("CODEC_UNKNOWN", `saved value: unknown type ${JSON.stringify(type)}`, {
        hint: "Pass the serializer that wrote it to the saver as `serde`.",
      });
    }
    const text = typeof data === "string" ? data : new TextDecoder().decode(data);
    return decodeWithLangChain(JSON.parse(text) as Json);
  }
}

type JsonMembers = { readonly [name: string]: Json };

type ExactRecord = { readonly lc: 2 } & (
  | { readonly type: "undefined" }
  /** A number that JSON cannot write: `NaN`, `Infinity`, `-Infinity`, `-0`. */
  | { readonly type: "number"; readonly value: string }
  | { readonly type: "bigint"; readonly value: string }
  /** Milliseconds; null for an invalid date. */
  | { readonly type: "date"; readonly value: number | null }
  | { readonly type: "url"; readonly value: string }
  | { readonly type: "regexp"; readonly source: string; readonly flags: string }
  | { readonly type: "error"; readonly name: string; readonly message: string; readonly cause?: Json }
  | { readonly type: "map"; readonly value: readonly (readonly [Json, Json])[] }
  | { readonly type: "set"; readonly value: readonly Json[] }
  /** The bytes of a typed array, a buffer or a view, little-endian, as base64. */
  | { readonly type: "bytes"; readonly of: string; readonly value: string }
  | { readonly type: "delta_snapshot"; readonly value: Json }
  | { readonly type: "message"; readonly of: string; readonly fields: JsonMembers }
  | { readonly type: "document"; readonly fields: JsonMembers }
  /** Any other object that LangChain can write and load, as the text that LangChain wrote. */
  | { readonly type: "langchain"; readonly text: string }
  | { readonly type: "plain"; readonly value: JsonMembers }
);

/** Views of bytes by class name. `Buffer` and `ArrayBuffer` have no such constructor. */
const BYTES: Readonly<Record<string, new (buffer: ArrayBuffer) => ArrayBufferView>> = {
  Uint8Array,
  Uint8ClampedArray,
  Int8Array,
  Uint16Array,
  Int16Array,
  Uint32Array,
  Int32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
  DataView,
};

/** LangChain's classes of messages. A user's subclass is missing here, and refused when it is saved. */
const MESSAGES: ReadonlySet<string> = new Set([
  "RemoveMessage",
  ...["AI", "Chat", "Function", "Human", "System", "Tool"].map((kind) => `${kind}Message`),
  ...["AI", "Chat", "Function", "Human", "System", "Tool"].map((kind) => `${kind}MessageChunk`),
]);

const CLASSES = langchain as unknown as Readonly<Record<string, new (fields: never) => object>>;

// Encoding.

interface Encoding {
  readonly path: (string | number)[];
  readonly what: string;
  needsLoading: boolean;
}

/** `what` names the value in errors. `needsLoading`: only LangChain's asynchronous loader can decode it. */
export function encodeJson(value: unknown, what: string): { json: Json; needsLoading: boolean } {
  const at: Encoding = { path: [], what, needsLoading: false };
  const json = encode(value, at);
  return { json, needsLoading: at.needsLoading };
}

function encode(value: unknown, at: Encoding): Json {
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
      return isPlainObject(value) ? encodePlainObject(value, at) : encodeObject(value, at);
    default:
      return refuse(`is a ${typeof value}`, at);
  }
}

function record(exact: ExactRecord): Json {
  return exact;
}

function encodeList(list: readonly unknown[], at: Encoding): Json[] {
  const encoded: Json[] = new Array(list.length);
  for (let index = 0; index < list.length; index++) {
    at.path.push(index);
    encoded[index] = encode(list[index], at);
    at.path.pop();
  }
  return encoded;
}

function encodeMembers(value: object, names: readonly string[], at: Encoding): JsonMembers {
  const members: Record<string, Json> = {};
  for (const name of names) {
    at.path.push(name);
    setMember(members, name, encode((value as Record<string, unknown>)[name], at));
    at.path.pop();
  }
  return members;
}

function encodePlainObject(value: object, at: Encoding): Json {
  if (Object.getOwnPropertySymbols(value).length > 0) return refuse("has a symbol as key", at);
  const members = encodeMembers(value, Object.keys(value), at);
  return Object.hasOwn(members, "lc") ? record({ lc: 2, type: "plain", value: members }) : members;
}

/** True for object literals, also those of another realm: their prototype has no prototype itself. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return (
    prototype === null ||
    prototype === Object.prototype ||
    (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf"))
  );
}

function encodeObject(value: object, at: Encoding): Json {
  if (langchain.isBaseMessage(value)) return encodeMessage(value, at);
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
    // A constructor treats an undefined field like a missing one.
    const names = Object.keys(value).filter((name) => value[name as never] !== undefined);
    return record({ lc: 2, type: "document", fields: encodeMembers(value, names, at) });
  }
  return encodeByToJson(value, at);
}

/** Encodes every member of a message, also those that were set after construction. */
function encodeMessage(message: langchain.BaseMessage, at: Encoding): Json {
  // By class name, not by class: a program may contain two copies of LangChain.
  const of = message.lc_id.at(-1) ?? "message";
  if (!MESSAGES.has(of)) {
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

/** Every message has these two members, and they are nearly always empty. */
function isEmptyByDefault(message: object, name: string): boolean {
  if (name !== "additional_kwargs" && name !== "response_metadata") return false;
  return Object.keys(message[name as never]).length === 0;
}

function encodeBytes(value: ArrayBuffer | ArrayBufferView, at: Encoding): Json {
  const of = Buffer.isBuffer(value) ? "Buffer" : value.constructor.name;
  const isKnown = of === "Buffer" || of === "ArrayBuffer" || BYTES[of] === value.constructor;
  if (!isKnown) return refuse(`is a ${of}`, at);
  const bytes =
    value instanceof ArrayBuffer
      ? Buffer.from(value)
      : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return record({ lc: 2, type: "bytes", of, value: bytes.toString("base64") });
}

function encodeError(error: Error, at: Encoding): Json {
  const { name, message, cause } = error;
  if (cause === undefined) return record({ lc: 2, type: "error", name, message });
  return record({ lc: 2, type: "error", name, message, cause: encodeCause(cause, at) });
}

/** A cause that cannot be encoded becomes text: it must not keep the error itself from being saved. */
function encodeCause(cause: unknown, at: Encoding): Json {
  const depth = at.path.length;
  at.path.push("cause");
  try {
    return encode(cause, at);
  } catch (error) {
    if (isHoldfastError(error, "VALUE_NOT_JSON")) return String(cause);
    throw error;
  } finally {
    at.path.length = depth;
  }
}

function encodeByToJson(value: object, at: Encoding): Json {
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

function refuse(problem: string, at: Encoding): never {
  const path = formatPath(at.path);
  throw refusal(
    "VALUE_NOT_JSON",
    `${at.what}: ${path} ${problem}, and would not come back as it is`,
    "Nothing was saved. Keep plain data in the state, give the class a toJSON(), or pass a `serde` " +
      "that can encode it.",
    { path },
  );
}

/** Sets a member, also one named `__proto__`, which an assignment would take for the prototype. */
export function setMember<Value>(target: Record<string, Value>, name: string, value: Value): void {
  if (name !== "__proto__") target[name] = value;
  else Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}

// Decoding. Every call makes new objects, so callers never share one. An unknown record comes from a later
// release: refused.

/** Objects that LangChain's asynchronous loader made before `decode` starts, by their record. */
type LoadedObjects = ReadonlyMap<Json, unknown>;

const NOTHING_LOADED: LoadedObjects = new Map();

export function decodeJson(json: Json): unknown {
  return decode(json, NOTHING_LOADED);
}

export async function decodeWithLangChain(json: Json): Promise<unknown> {
  const loaded = new Map<Json, unknown>();
  for (const each of langchainRecords(json)) loaded.set(each, await load(each.text));
  return decode(json, loaded);
}

function* langchainRecords(json: Json): Generator<Extract<ExactRecord, { type: "langchain" }>> {
  if (json === null || typeof json !== "object") return;
  if (isRecord(json) && json.type === "langchain") yield json;
  else for (const member of Object.values(json as JsonMembers)) yield* langchainRecords(member);
}

function isRecord(json: object): json is ExactRecord {
  return (json as { lc?: unknown }).lc === 2;
}

function decode(json: Json, loaded: LoadedObjects): unknown {
  if (json === null || typeof json !== "object") return json;
  if (Array.isArray(json)) {
    const list = new Array<unknown>(json.length);
    for (let index = 0; index < json.length; index++) list[index] = decode(json[index] as Json, loaded);
    return list;
  }
  return isRecord(json) ? decodeRecord(json, loaded) : decodeMembers(json as JsonMembers, loaded);
}

function decodeMembers(members: JsonMembers, loaded: LoadedObjects): Record<string, unknown> {
  const decoded: Record<string, unknown> = {};
  for (const name of Object.keys(members)) setMember(decoded, name, decode(members[name] as Json, loaded));
  return decoded;
}

function decodeRecord(record: ExactRecord, loaded: LoadedObjects): unknown {
  switch (record.type) {
    case "undefined":
      return undefined;
    case "number":
      return Number(record.value);
    case "bigint":
      return BigInt(record.value);
    case "date":
      return new Date(record.value ?? Number.NaN);
    case "url":
      return new URL(record.value);
    case "regexp":
      return new RegExp(record.source, record.flags);
    case "error":
      return decodeError(record, loaded);
    case "map":
      return new Map(record.value.map(([key, value]) => [decode(key, loaded), decode(value, loaded)]));
    case "set":
      return new Set(record.value.map((each) => decode(each, loaded)));
    case "bytes":
      return decodeBytes(record.of, record.value);
    case "delta_snapshot":
      return new DeltaSnapshot(decode(record.value, loaded));
    case "message": {
      const Message = MESSAGES.has(record.of) ? CLASSES[record.of] : undefined;
      if (!Message) return refuseRecord(record);
      return new Message(decodeMembers(record.fields, loaded) as never);
    }
    case "document":
      return new Document(decodeMembers(record.fields, loaded) as never);
    case "langchain":
      return loaded.get(record);
    case "plain":
      return decodeMembers(record.value, loaded);
    default:
      return refuseRecord(record);
  }
}

function decodeError(record: Extract<ExactRecord, { type: "error" }>, loaded: LoadedObjects): Error {
  const { name, message, cause } = record;
  const error =
    cause === undefined ? new Error(message) : new Error(message, { cause: decode(cause, loaded) });
  if (name !== "Error") {
    Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  }
  return error;
}

function decodeBytes(of: string, base64: string): unknown {
  const buffer = Buffer.from(base64, "base64");
  if (of === "Buffer") return buffer;
  // Copy: small buffers share one block of memory, at offsets where a typed array may not begin.
  const own = new Uint8Array(buffer).buffer;
  if (of === "ArrayBuffer") return own;
  const View = Object.hasOwn(BYTES, of) ? BYTES[of] : undefined;
  return View ? new View(own) : refuseRecord({ type: "bytes", of });
}

function refuseRecord(record: unknown): never {
  throw new HoldfastError("EVENT_TOO_NEW", `saved value: unknown form ${quoteValue(record)}`, {
    hint: "Upgrade holdfast to the release that wrote it, or a later one. Nothing was changed.",
  });
}
