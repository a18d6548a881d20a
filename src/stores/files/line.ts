/**
 * A line of the journal: JSON that a person can read, and whose every byte is covered by a checksum.
 *
 *     {"crc":"0f3a91bc","n":12,"from":12,"bytes":187,"act":{"do":"append", …},"events":[[{"type": …}]]}
 *
 *  - `crc`     CRC-32 of everything behind it, up to the end of the line
 *  - `n`       the line's number, counted from 1: a line that is missing or out of place shows
 *  - `from`    the first line of the write that this one came with. Only a line of a later write proves that an
 *              earlier one was synced, so this tells a torn tail from damage in the middle
 *  - `bytes`   length of `act`, so that opening a store need not parse any payload
 *  - `act`     what happened, without payloads; `events` are those, one for each write of the act
 *
 * A payload that is JSON on one line stands there as it is, byte for byte. Other text is a JSON string, bytes are
 * base64, and `form` in the act says so.
 */

import { crc32 } from "node:zlib";
import type { Payload } from "../../store.ts";

export interface Line {
  readonly n: number;
  readonly from: number;
  readonly act: unknown;
  /** Where the first payload begins, counted from the beginning of the line. */
  readonly eventsAt: number;
}

const START = '{"crc":"';
const BODY_AT = START.length + 8 + 2;
const EVENTS = ',"events":[';

export interface EncodedLine {
  /** With its line break. */
  readonly bytes: Buffer;
  readonly eventsAt: number;
}

export function encodeLine(n: number, from: number, act: object, segments: readonly Buffer[]): EncodedLine {
  const text = JSON.stringify(act);
  const actBytes = Buffer.byteLength(text);
  const head = `"n":${n},"from":${from},"bytes":${actBytes},"act":`;
  const parts: (string | Buffer)[] = [head, text];
  segments.forEach((segment, index) => {
    parts.push(index === 0 ? EVENTS : ",", segment);
  });
  parts.push(segments.length > 0 ? "]}\n" : "}\n");
  const length = parts.reduce((sum, part) => sum + Buffer.byteLength(part), BODY_AT);
  const bytes = Buffer.allocUnsafe(length);
  let at = BODY_AT;
  for (const part of parts) at += typeof part === "string" ? bytes.write(part, at) : part.copy(bytes, at);
  const crc = crc32(bytes.subarray(BODY_AT, length - 1));
  bytes.write(`${START}${crc.toString(16).padStart(8, "0")}",`, 0, "latin1");
  return { bytes, eventsAt: BODY_AT + head.length + actBytes + EVENTS.length };
}

interface LineHead extends Omit<Line, "act"> {
  readonly crc: number;
  readonly actAt: number;
  readonly actEnd: number;
}

const HEAD = /^\{"crc":"([0-9a-f]{8})","n":(\d{1,16}),"from":(\d{1,16}),"bytes":(\d{1,16}),"act":/;
const HEAD_BYTES = 120;

function parseHead(line: Buffer): LineHead | null {
  const found = HEAD.exec(line.toString("latin1", 0, HEAD_BYTES));
  if (!found) return null;
  const actAt = found[0].length;
  const actEnd = actAt + Number(found[4]);
  return {
    crc: Number.parseInt(found[1] as string, 16),
    n: Number(found[2]),
    from: Number(found[3]),
    actAt,
    actEnd,
    eventsAt: actEnd + EVENTS.length,
  };
}

/** The line without its break; null when it is not whole and unchanged. */
export function parseLine(line: Buffer): Line | null {
  const head = parseHead(line);
  if (!head || crc32(line.subarray(BODY_AT)) !== head.crc) return null;
  const { n, from, eventsAt: at, actAt, actEnd } = head;
  return { n, from, eventsAt: at, act: JSON.parse(line.toString("utf8", actAt, actEnd)) };
}

/** How a payload stands in its line: as the JSON that it is, as a string, as base64. */
export type Form = "json" | "text" | "bytes";

export function toSegment(payload: Payload): { form: Form; segment: Buffer } {
  if (typeof payload !== "string") {
    const base64 = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength).toString("base64");
    return { form: "bytes", segment: Buffer.from(`"${base64}"`) };
  }
  if (isJsonLine(payload)) return { form: "json", segment: Buffer.from(payload) };
  return { form: "text", segment: Buffer.from(JSON.stringify(payload)) };
}

export function fromSegment(segment: Buffer, form: Form): Payload {
  switch (form) {
    case "json":
      return segment.toString();
    case "text":
      return JSON.parse(segment.toString()) as string;
    case "bytes":
      return new Uint8Array(Buffer.from(segment.toString("latin1", 1, segment.length - 1), "base64"));
  }
}

/** JSON that can stand in a line as it is: no line break outside of strings, where JSON has none, and no half pairs. */
function isJsonLine(text: string): boolean {
  if (text.includes("\n") || text.includes("\r") || !text.isWellFormed()) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
