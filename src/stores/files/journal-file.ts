/**
 * The journal: its lines, and the file they are in.
 *
 * A line is JSON that a person can read, and a checksum covers its every byte:
 *
 *     {"crc":"0f3a91bc","n":12,"from":12,"bytes":187,"act":{"do":"append", …},"events":[[{"type": …}]]}
 *
 *  - `crc`     CRC-32 of everything behind it, up to the end of the line
 *  - `n`       the line's number, counted from 1: a line that is missing or out of place shows
 *  - `from`    the first line of the write that this one came with. Only a line of a later write proves that
 *              an earlier one was synced, so this tells a torn tail from damage in the middle
 *  - `bytes`   length of `act`, so that opening a store need not parse any payload
 *  - `act`     the record, without payloads; `events` are those, one for each write of the record
 *
 * A payload that is JSON on one line is stored as it is, byte for byte. Other text is a JSON string, bytes
 * are base64, and `form` in the record says so.
 */

import { closeSync, fdatasyncSync, fstatSync, fsyncSync, ftruncateSync, openSync } from "node:fs";
import { crc32 } from "node:zlib";
import type { Payload, StoredWrite } from "../../store.ts";
import type { FileIdentity } from "../kit/index.ts";
import { foreignError, identityOf, isSameFile, statOf, tooNewError } from "../kit/index.ts";
import { corrupt, readUpTo, writeAll } from "./disk.ts";

export interface Line {
  readonly n: number;
  readonly from: number;
  readonly act: unknown;
  /** The offset of the first payload in the line. */
  readonly eventsAt: number;
}

const START = '{"crc":"';
const BODY_AT = START.length + 8 + 2;
const EVENTS = ',"events":[';

export function encodeLine(n: number, from: number, act: object, segments: readonly Buffer[]) {
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

const HEAD = /^\{"crc":"([0-9a-f]{8})","n":(\d{1,16}),"from":(\d{1,16}),"bytes":(\d{1,16}),"act":/;
const HEAD_BYTES = 120;

/** `line` comes without its line break. Null unless it is whole and unchanged. */
export function parseLine(line: Buffer): Line | null {
  const head = HEAD.exec(line.toString("latin1", 0, HEAD_BYTES));
  if (!head) return null;
  const [start, crc, n, from, actBytes] = head as unknown as [string, string, string, string, string];
  if (crc32(line.subarray(BODY_AT)) !== Number.parseInt(crc, 16)) return null;
  const actEnd = start.length + Number(actBytes);
  const act: unknown = JSON.parse(line.toString("utf8", start.length, actEnd));
  return { n: Number(n), from: Number(from), act, eventsAt: actEnd + EVENTS.length };
}

/** How a payload is stored: as the JSON that it is, as a JSON string, as base64. */
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

/** JSON that fits a line as it is: no line break, which JSON strings never have, and no lone surrogates. */
function isJsonLine(text: string): boolean {
  if (text.includes("\n") || text.includes("\r") || !text.isWellFormed()) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const FORMAT = "holdfast-files";
const VERSION = 1;

export interface BeginRecord {
  readonly do: "begin";
  readonly format: typeof FORMAT;
  readonly version: number;
  /** The store's id; a copy of the folder has the same. */
  readonly store: string;
  /** Counts the journals of a store: each compaction makes the next. */
  readonly journal: number;
}

export function firstLine(store: string, journal: number): Buffer {
  const begin: BeginRecord = { do: "begin", format: FORMAT, version: VERSION, store, journal };
  return encodeLine(1, 1, begin, []).bytes;
}

export interface LinePosition extends Pick<Line, "eventsAt"> {
  readonly offset: number;
  readonly length: number;
}

export interface PlacedLine extends Line, LinePosition {}

const HEADER_BYTES = 4_096;
const LAST_BYTES = 64;
const CHUNK_BYTES = 1024 * 1024;

/**
 * The file: one descriptor, how far it has been read, and where payloads lie in it.
 *
 * `end` is the end of the last line that was read or written through this handle, and always known to be
 * synced. `settle` in `append.ts` judges the bytes behind it, under the lock.
 */
export class JournalFile {
  #path: string;
  readonly store: string;
  readonly number: number;
  readonly identity: FileIdentity;
  readonly #descriptor: number;
  #end: number;
  #lines = 1;
  /** The offset of the last line, and its first bytes, which hold its checksum. */
  #lastAt = 0;
  #last: Buffer | null = null;

  private constructor(path: string, descriptor: number, begin: BeginRecord, end: number) {
    this.#path = path;
    this.store = begin.store;
    this.number = begin.journal;
    this.identity = identityOf(fstatSync(descriptor));
    this.#descriptor = descriptor;
    this.#end = end;
  }

  /** Opens it and reads its first line. Throws for a file that is foreign or too new. */
  static open(path: string, readOnly: boolean): JournalFile {
    const descriptor = openSync(path, readOnly ? "r" : "r+");
    try {
      const { begin, end } = readBegin(path, descriptor);
      return new JournalFile(path, descriptor, begin, end);
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
  }

  get path(): string {
    return this.#path;
  }

  movedTo(path: string): void {
    this.#path = path;
  }

  get end(): number {
    return this.#end;
  }

  get lines(): number {
    return this.#lines;
  }

  get size(): number {
    return fstatSync(this.#descriptor).size;
  }

  isInPlace(): boolean {
    return isSameFile(this.identity, statOf(this.path));
  }

  /** Whether the last line is unchanged: a file can be overwritten and stay the same file. */
  isUnchanged(): boolean {
    const now = this.bytes(this.#lastAt, Math.min(LAST_BYTES, this.#end - this.#lastAt));
    this.#last ??= now;
    return this.#last.equals(now);
  }

  bytes(offset: number, length: number): Buffer {
    return readUpTo(this.#descriptor, offset, length);
  }

  /** Every line from `end` to `upTo`, where one must end. Advances `end` line by line. */
  *read(upTo: number): Generator<PlacedLine> {
    for (const { offset, bytes, isWhole } of rawLines(this.#descriptor, this.#end, upTo)) {
      const line = isWhole ? parseLine(bytes) : null;
      if (!line) throw corrupt(this.path, this.#lines + 1, "its checksum does not fit, or it is cut short");
      if (line.n !== this.#lines + 1) {
        throw corrupt(this.path, this.#lines + 1, `line ${line.n} stands here`);
      }
      this.#moveTo(offset + bytes.length + 1);
      yield { ...line, offset, length: bytes.length + 1 };
    }
    if (this.#end >= upTo) return;
    throw corrupt(this.path, this.#lines + 1, "lines that were acknowledged are missing from here on");
  }

  /**
   * Every good line behind `end`, up to the first bad one. Throws if a line of a later write follows the bad
   * one: that write began only after the bad line had been synced, so the bad line was good once.
   */
  *readTail(): Generator<PlacedLine> {
    let bad = 0;
    for (const { offset, bytes, isWhole } of rawLines(this.#descriptor, this.#end, this.size)) {
      const line = isWhole ? parseLine(bytes) : null;
      if (bad > 0) {
        if (line && line.from > bad) throw corrupt(this.path, bad, "its checksum does not fit");
      } else if (line && line.n === this.#lines + 1) {
        this.#moveTo(offset + bytes.length + 1);
        yield { ...line, offset, length: bytes.length + 1 };
      } else if (line && line.from > this.#lines + 1) {
        throw corrupt(this.path, this.#lines + 1, `line ${line.n} stands here`);
      } else bad = this.#lines + 1;
    }
  }

  /** Writes the same bytes once more, so that the next sync writes them to the disk. */
  rewrite(from: number): void {
    for (let at = from; at < this.#end; at += CHUNK_BYTES) {
      writeAll(this.#descriptor, this.bytes(at, Math.min(CHUNK_BYTES, this.#end - at)), at);
    }
  }

  cut(): void {
    ftruncateSync(this.#descriptor, this.#end);
  }

  sync(): void {
    fsyncSync(this.#descriptor);
  }

  /** Durable when it returns. After a throw the bytes behind `end` are unknown. */
  append(lines: readonly Buffer[]): void {
    const [only] = lines;
    const bytes = only && lines.length === 1 ? only : Buffer.concat(lines);
    writeAll(this.#descriptor, bytes, this.#end);
    fdatasyncSync(this.#descriptor);
    this.#end += bytes.length;
    this.#lines += lines.length;
    const last = lines.at(-1) as Buffer;
    this.#lastAt = this.#end - last.length;
    this.#last = Buffer.from(last.subarray(0, LAST_BYTES));
  }

  /** For erasing a journal that another has replaced. */
  get descriptor(): number {
    return this.#descriptor;
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #moveTo(end: number): void {
    this.#lastAt = this.#end;
    this.#end = end;
    this.#lines += 1;
    this.#last = null;
  }
}

/** Reads the first line only. Tells files that are foreign, too new and damaged apart. */
function readBegin(path: string, descriptor: number): { begin: BeginRecord; end: number } {
  const bytes = readUpTo(descriptor, 0, HEADER_BYTES);
  const text = bytes.toString("latin1");
  const version = /"format":"holdfast-files","version":(\d+)/.exec(text)?.[1];
  const format = Number(version ?? 0);
  if (format > VERSION) throw tooNewError({ path }, format, VERSION);
  const length = bytes.indexOf("\n");
  const line = length < 0 ? null : parseLine(bytes.subarray(0, length));
  const begin = line?.act as Partial<BeginRecord> | undefined;
  if (begin?.do === "begin" && begin.format === FORMAT)
    return { begin: begin as BeginRecord, end: length + 1 };
  if (line || version === undefined) throw foreignError({ path }, "it does not begin as a journal does");
  throw corrupt(path, 1, "its checksum does not fit, or it is cut short");
}

const NEWLINE = 10;

/** `isWhole` is false for bytes after the last line break. */
function* rawLines(descriptor: number, from: number, upTo: number) {
  let rest: Buffer = Buffer.alloc(0);
  let offset = from;
  for (let at = from; at < upTo; ) {
    // Chunks grow while they hold no line break.
    const chunk = readUpTo(descriptor, at, Math.min(Math.max(CHUNK_BYTES, rest.length), upTo - at));
    if (chunk.length === 0) break;
    at += chunk.length;
    const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      yield { offset: offset + start, bytes: bytes.subarray(start, end), isWhole: true };
      start = end + 1;
    }
    offset += start;
    rest = bytes.subarray(start);
  }
  if (rest.length > 0) yield { offset, bytes: rest, isWhole: false };
}

/** A stored write whose payload stays in the journal and is read on demand. */
export class JournaledWrite implements StoredWrite {
  readonly first: number;
  readonly last: number;
  readonly batch: string;
  readonly codec: string | null;
  readonly sum: number;
  readonly at: number;
  // Private, so that a copy of the row does not carry them.
  readonly #journal: JournalFile;
  readonly #segment: Segment;

  constructor(stored: Omit<StoredWrite, "payload">, journal: JournalFile, segment: Segment) {
    this.first = stored.first;
    this.last = stored.last;
    this.batch = stored.batch;
    this.codec = stored.codec;
    this.sum = stored.sum;
    this.at = stored.at;
    this.#journal = journal;
    this.#segment = segment;
  }

  get payload(): Payload {
    return fromSegment(this.segment, this.#segment.form);
  }

  get segment(): Buffer {
    return this.#journal.bytes(this.#segment.offset, this.#segment.length);
  }

  get form(): Form {
    return this.#segment.form;
  }

  /** About how many bytes of the journal it takes up. */
  get weight(): number {
    return this.#segment.weight;
  }
}

export interface Segment {
  readonly offset: number;
  readonly length: number;
  readonly form: Form;
  readonly weight: number;
}
