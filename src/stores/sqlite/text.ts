/**
 * Text as SQLite can keep it. UTF-8 has no lone surrogates, and a NUL ends a text in parts of SQLite, so the
 * rare string that has either is kept as a BLOB of its UTF-16 units. A column that holds only text needs no mark:
 * a BLOB in it is such a string. Payloads, which can be bytes as well, are marked in their `utf16` column.
 */

import type { Payload } from "../../store.ts";

export type StoredText = string | Uint8Array;

function isPlain(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

export function toText(text: string): StoredText {
  return isPlain(text) ? text : Buffer.from(text, "utf16le");
}

export function toTextOrNull(text: string | null | undefined): StoredText | null {
  return text === null || text === undefined ? null : toText(text);
}

export function fromText(stored: StoredText): string {
  return typeof stored === "string" ? stored : Buffer.from(stored).toString("utf16le");
}

export function fromTextOrNull(stored: StoredText | null): string | null {
  return stored === null ? null : fromText(stored);
}

/** The value for a payload column and the mark beside it. */
export function toPayload(payload: Payload): { value: StoredText; utf16: 1 | null } {
  if (typeof payload !== "string") return { value: payload, utf16: null };
  return isPlain(payload) ? { value: payload, utf16: null } : { value: toText(payload), utf16: 1 };
}

export function fromPayload(value: StoredText, utf16: number | null): Payload {
  return utf16 === null ? value : fromText(value);
}
