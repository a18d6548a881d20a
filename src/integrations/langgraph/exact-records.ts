/**
 * How values that JSON does not have are written: as objects whose member `lc` is 2, as LangGraph's own serializer does
 * it. Plain data that has a member `lc` of its own is wrapped, so that no data can pose as a record: what a user or a
 * model wrote is never turned into an object of some class when it is loaded.
 */

import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";
import type { Json } from "../../model/json.ts";

export type JsonMembers = { readonly [name: string]: Json };

export type ExactRecord = { readonly lc: 2 } & (
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
  /** Any other object that LangChain knows how to write and load, as the text that it wrote. */
  | { readonly type: "langchain"; readonly text: string }
  | { readonly type: "plain"; readonly value: JsonMembers }
);

type Bytes = new (buffer: ArrayBuffer) => ArrayBufferView;

/** Views of bytes that come back as what they were. `Buffer` and `ArrayBuffer` have no such constructor. */
export const BYTES: Readonly<Record<string, Bytes>> = {
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

/** Messages by the name of their class. A subclass of one's own is not among them and is refused when it is saved. */
export const MESSAGES: Readonly<Record<string, new (fields: never) => object>> = {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
};

/** Sets a member also when it is called `__proto__`, which an assignment would take for the prototype. */
export function setMember<Value>(target: Record<string, Value>, name: string, value: Value): void {
  if (name !== "__proto__") target[name] = value;
  else Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}
