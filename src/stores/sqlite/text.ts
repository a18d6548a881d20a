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

/** How a payload is to be read: as text, as bytes, or as the units of UTF-16. */
export type PayloadForm = typeof TEXT | typeof BYTES | typeof UTF_16;

export const TEXT = 0;
const BYTES = 1;
const UTF_16 = 2;

/**
 * Making strings of UTF-8 is the most of what reading a long stream costs, unless they are ASCII alone. From Node 24 on
 * its own decoder takes a third of the time that the driver takes, so bytes are asked for.
 */
const DECODES_FAST = Number.parseInt(process.versions.node, 10) >= 24;

/** A payload, for `fromStored`. */
export const PAYLOAD_COLUMN = DECODES_FAST ? "CAST(payload AS BLOB)" : "payload";

/** A payload and its form. */
export const PAYLOAD_COLUMNS = `${PAYLOAD_COLUMN}, iif(utf16 IS NULL, typeof(payload) = 'blob', ${UTF_16})`;

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function fromStored(payload: StoredText, form: PayloadForm): Payload {
  if (typeof payload === "string" || form === BYTES) return payload;
  return form === TEXT ? decoder.decode(payload) : fromText(payload);
}
