/**
 * Text as Postgres can keep it. Its text has no NUL, and UTF-8 has no lone surrogates, so the rare string that has
 * either is kept as a mark and the hexadecimal digits of its UTF-16 units. A string that begins with the mark by
 * itself is kept the same way, so that every stored text has one meaning, and equal texts stay equal.
 */

import type { Payload } from "../../store.ts";

/** The last code point there is, which means nothing to anybody. */
const MARK = "\u{10ffff}";

export function toText(text: string): string {
  if (text.isWellFormed() && !text.includes("\0") && !text.startsWith(MARK)) return text;
  return MARK + Buffer.from(text, "utf16le").toString("hex");
}

export function toTextOrNull(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : toText(text);
}

/** What is sent of a payload, which is text or bytes already, where it goes among others. */
export function toBytes(payload: string | Buffer): Buffer {
  return typeof payload === "string" ? Buffer.from(payload) : payload;
}

export function fromText(stored: string): string {
  if (!stored.startsWith(MARK)) return stored;
  return Buffer.from(stored.slice(MARK.length), "hex").toString("utf16le");
}

export function fromTextOrNull(stored: string | null): string | null {
  return stored === null ? null : fromText(stored);
}

/** A payload lies in one of two columns, so that a person can read what is text with any SQL shell. */
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

/** One name for something in a namespace. The length tells where that ends. */
export const placeName = (namespace: string, name: string): string =>
  `${namespace.length}:${namespace}${name}`;
