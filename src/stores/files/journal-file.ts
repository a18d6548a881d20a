/**
 * The journal as a file: one descriptor, how far it has been read, and where payloads lie in it.
 *
 * `end` is the end of the last line that was read or written through this handle, and only ever a place that is known
 * to be synced. What lies behind it is judged by `settle` in `append.ts`, under the lock.
 */

import { closeSync, fdatasyncSync, fstatSync, fsyncSync, ftruncateSync, openSync } from "node:fs";
import type { Payload, StoredWrite } from "../../store.ts";
import {
  type FileIdentity,
  foreignError,
  identityOf,
  isSameFile,
  statOf,
  tooNewError,
} from "../kit/index.ts";
import { readUpTo, writeAll } from "./disk.ts";
import { corrupt } from "./failures.ts";
import { encodeLine, type Form, fromSegment, type Line, parseLine } from "./line.ts";

const FORMAT = "holdfast-files";
const VERSION = 1;

/** The first line of every journal. */
export interface Begin {
  readonly do: "begin";
  readonly format: typeof FORMAT;
  readonly version: number;
  /** Which store this is; a copy of the folder has the same. */
  readonly store: string;
  /** Counts the journals of a store: each rewriting makes the next. */
  readonly journal: number;
}

export function firstLine(store: string, journal: number): Buffer {
  const begin: Begin = { do: "begin", format: FORMAT, version: VERSION, store, journal };
  return encodeLine(1, 1, begin, []).bytes;
}

/** A line with its place in the file. */
export interface PlacedLine extends Line {
  readonly offset: number;
  readonly length: number;
}

const HEADER_BYTES = 4_096;
const LAST_BYTES = 64;
const CHUNK_BYTES = 1024 * 1024;

export class JournalFile {
  #path: string;
  readonly store: string;
  readonly number: number;
  readonly identity: FileIdentity;
  readonly #descriptor: number;
  #end: number;
  #lines = 1;
  /** Where the last line begins, and how: with its checksum. */
  #lastAt = 0;
  #last: Buffer | null = null;

  private constructor(path: string, descriptor: number, begin: Begin, end: number) {
    this.#path = path;
    this.store = begin.store;
    this.number = begin.journal;
    this.identity = identityOf(fstatSync(descriptor));
    this.#descriptor = descriptor;
    this.#end = end;
  }

  /** Opens it and reads its first line; refuses what is not ours or too new. */
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

  /** It was renamed. */
  movedTo(path: string): void {
    this.#path = path;
  }

  get end(): number {
    return this.#end;
  }

  /** Lines up to `end`. */
  get lines(): number {
    return this.#lines;
  }

  get size(): number {
    return fstatSync(this.#descriptor).size;
  }

  /** Whether this is still the file at its path. */
  isInPlace(): boolean {
    return isSameFile(this.identity, statOf(this.path));
  }

  /** Whether the last line is what it was: a file can be overwritten and stay the same file. */
  isUnchanged(): boolean {
    const now = this.bytes(this.#lastAt, Math.min(LAST_BYTES, this.#end - this.#lastAt));
    this.#last ??= now;
    return this.#last.equals(now);
  }

  bytes(offset: number, length: number): Buffer {
    return readUpTo(this.#descriptor, offset, length);
  }

  /** Every line from here to `upTo`, where one must end. Moves on line by line. */
  *read(upTo: number): Generator<PlacedLine> {
    for (const { offset, bytes, isWhole } of rawLines(this.#descriptor, this.#end, upTo)) {
      const line = isWhole ? parseLine(bytes) : null;
      if (!line) throw corrupt(this.path, this.#lines + 1, "its checksum does not fit, or it is cut short");
      this.#inPlace(line);
      this.#moveTo(offset + bytes.length + 1);
      yield { ...line, offset, length: bytes.length + 1 };
    }
    if (this.#end >= upTo) return;
    throw corrupt(this.path, this.#lines + 1, "lines that were acknowledged are missing from here on");
  }

  /**
   * Every good line behind `end`, until the first that is not. Returns nothing more then, unless a line of a later
   * write follows: that one was only begun after the bad one had been synced, so the bad one was good once.
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

  /** Writes the same bytes once more, so that the next sync has them to write. */
  rewrite(from: number): void {
    for (let at = from; at < this.#end; at += CHUNK_BYTES) {
      writeAll(this.#descriptor, this.bytes(at, Math.min(CHUNK_BYTES, this.#end - at)), at);
    }
  }

  /** Takes away everything behind `end`. */
  cut(): void {
    ftruncateSync(this.#descriptor, this.#end);
  }

  sync(): void {
    fsyncSync(this.#descriptor);
  }

  /** Durable when it returns. After a throw nobody knows what is behind `end`. */
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

  /** For whoever overwrites a journal that another has replaced. */
  get descriptor(): number {
    return this.#descriptor;
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #inPlace({ n }: Line): void {
    if (n !== this.#lines + 1) throw corrupt(this.path, this.#lines + 1, `line ${n} stands here`);
  }

  #moveTo(end: number): void {
    this.#lastAt = this.#end;
    this.#end = end;
    this.#lines += 1;
    this.#last = null;
  }
}

/** Looks at the first line only. Says what is wrong in a way that fits: foreign, too new, or damaged. */
function readBegin(path: string, descriptor: number): { begin: Begin; end: number } {
  const bytes = readUpTo(descriptor, 0, HEADER_BYTES);
  const text = bytes.toString("latin1");
  const version = /"format":"holdfast-files","version":(\d+)/.exec(text)?.[1];
  if (version !== undefined && Number(version) > VERSION)
    throw tooNewError({ path }, Number(version), VERSION);
  const length = bytes.indexOf("\n");
  const line = length < 0 ? null : parseLine(bytes.subarray(0, length));
  const begin = line?.act as Partial<Begin> | undefined;
  if (begin?.do === "begin" && begin.format === FORMAT) return { begin: begin as Begin, end: length + 1 };
  if (line || version === undefined) throw foreignError({ path }, "it does not begin as a journal does");
  throw corrupt(path, 1, "its checksum does not fit, or it is cut short");
}

interface RawLine {
  readonly offset: number;
  readonly bytes: Buffer;
  /** False for what follows the last line break. */
  readonly isWhole: boolean;
}

const NEWLINE = 10;

function* rawLines(descriptor: number, from: number, upTo: number): Generator<RawLine> {
  let rest: Buffer = Buffer.alloc(0);
  let offset = from;
  for (let at = from; at < upTo; ) {
    // A line that is longer than a chunk is read in ever larger ones.
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

/** A write whose payload stays in the journal until somebody asks for it. */
export class KeptWrite implements StoredWrite {
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

  /** As it stands in the journal. */
  get segment(): Buffer {
    return this.#journal.bytes(this.#segment.offset, this.#segment.length);
  }

  get form(): Form {
    return this.#segment.form;
  }

  /** About how much of the journal it takes up. */
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
