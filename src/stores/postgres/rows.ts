/**
 * Values as Postgres stores them. Its text has no NUL and no lone surrogates. A string that has either, or
 * that starts with the mark, is stored as a mark and the hexadecimal digits of its UTF-16 units.
 */

import type { Payload, StreamRow } from "../../store.ts";
import * as kit from "../kit/index.ts";

/** The last code point of Unicode, a noncharacter. */
const MARK = "\u{10ffff}";

export function toText(text: string): string {
  if (text.isWellFormed() && !text.includes("\0") && !text.startsWith(MARK)) return text;
  return MARK + Buffer.from(text, "utf16le").toString("hex");
}

export function toTextOrNull(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : toText(text);
}

export function fromText(stored: string): string {
  if (!stored.startsWith(MARK)) return stored;
  return Buffer.from(stored.slice(MARK.length), "hex").toString("utf16le");
}

export function fromTextOrNull(stored: string | null): string | null {
  return stored === null ? null : fromText(stored);
}

/** A payload that `toText` has encoded, as bytes. */
export function toBytes(payload: string | Buffer): Buffer {
  return typeof payload === "string" ? Buffer.from(payload) : payload;
}

/** A payload is in one of two columns, so that a person can read text with any SQL shell. */
export interface StoredPayload {
  readonly payload: string | null;
  readonly bytes: Buffer | null;
}

export function toPayload(payload: Payload): StoredPayload {
  if (typeof payload === "string") return { payload: toText(payload), bytes: null };
  return { payload: null, bytes: Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength) };
}

export function fromPayload({ payload, bytes }: StoredPayload): Payload {
  return payload === null ? new Uint8Array(bytes ?? []) : fromText(payload);
}

/** One key for a name in a namespace. The length says where the namespace ends. */
export const placeName = (namespace: string, name: string): string =>
  `${namespace.length}:${namespace}${name}`;

export type StoredStream = kit.StoredStream<string>;
export type StoredWriteRow = kit.StoredWriteRow<string> & StoredPayload;

/** The columns of a `StoredStream`, for a query that calls the table `s`. */
export const STREAM_COLUMNS = `s.stream, s.state, s.generation, s.seq, s.base, s.parent, s.parent_generation,
  s.created_at, s.updated_at, s.open_calls, s.expires_at, s.status, s.title, s.goal, s.budget`;

export const streamRow = (stored: StoredStream): StreamRow => kit.streamRow(stored, fromText);
export const itemRow = (stored: kit.StoredItem<string>) => kit.itemRow(stored, fromText);
export const writeRow = (stored: StoredWriteRow) => kit.writeRow(stored, fromPayload(stored), fromText);
