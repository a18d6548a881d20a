/**
 * The portable file: a store's content as lines of JSON, the last of them a checksum of all before it.
 *
 *     header · ( namespace · (artifact …) (stream · write … · ends) … · gone … ) … · end
 *
 * Writes keep their ids, so importing a file twice changes nothing, and running an interrupted import again
 * completes it. Facets and items are derived again from the events. Leases and snapshots are left out: they
 * belong to the store.
 *
 * Two things do not follow from the events, but vendors' idempotency keys and "once, ever" depend on them. So
 * the file has the generation of every session, removed ones included, and the keys that earlier generations
 * claimed.
 *
 * A payload or artifact is split into pieces, one line each, so that no line is long.
 *
 * `dump` and `restore`, which `copy` uses, need a sealed store and an empty one. An export reads a store that
 * others write to and skips damaged streams; an import adds to a store that may hold a part of the file.
 */

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { type Journal, verifySum } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { goalKind } from "../../model/goal/index.ts";
import { ERASED, streamId, streamKind } from "../../model/names.ts";
import { sessionKind } from "../../model/session/index.ts";
import { applyEvent, type FacetChange, type StreamKind } from "../../model/stream/index.ts";
import type { Payload, StoredWrite } from "../../store.ts";
import { lineProblem } from "./line-schema.ts";

export const VERSION = 3;

export type Line =
  | { readonly holdfast: "export"; readonly version: number; readonly at: string }
  /** All lines up to the next of these belong to this namespace. */
  | { readonly namespace: string }
  | StreamLine
  | EndsLine
  | GoneLine
  | (Piece & { readonly write: Omit<StoredWrite, "payload"> })
  | (Piece & { readonly artifact: string })
  | (Piece & { readonly goesOn: true })
  | { readonly end: { readonly streams: number; readonly writes: number; readonly sha256: string } };

/** Text as it is, bytes in base64. `more`: the next line continues it. `size`: of the whole, in bytes. */
interface Piece {
  readonly text?: string;
  readonly bytes?: string;
  readonly size?: number;
  readonly more?: true;
}

export type KeyAt = readonly [key: string, seq: number];

export interface StreamLine {
  readonly stream: string;
  readonly parent: string | null;
  readonly base: number;
  readonly generation: number;
  readonly hidden: boolean;
}

/** After the writes of a stream: what has become of its keys. */
export interface EndsLine {
  readonly ends: number;
  readonly openCalls: number;
  /** Claimed in this generation and still held. */
  readonly held: readonly KeyAt[];
  /** Claimed in this generation and released for good. */
  readonly freed: readonly KeyAt[];
  /** Claimed in an earlier generation: they stay claimed. */
  readonly before: readonly KeyAt[];
}

/** A session that was removed. `generation` is the next one of its name. */
export interface GoneLine {
  readonly gone: string;
  readonly generation: number;
  readonly before: readonly KeyAt[];
}

export interface PortableReport {
  readonly file: string;
  readonly namespaces: string[];
  readonly streams: number;
  readonly writes: number;
  readonly artifacts: number;
  readonly left: string[];
}

export interface ExportReport extends PortableReport {
  readonly damaged: { readonly stream: string; readonly why: string }[];
  readonly supervisorNotes: number;
}

const KINDS: Readonly<Record<string, StreamKind<unknown>>> = {
  goal: goalKind as unknown as StreamKind<unknown>,
  session: sessionKind as unknown as StreamKind<unknown>,
};

/** Null for a kind that this release does not know. */
export function kindOf(stream: string): StreamKind<unknown> | null {
  const kind = streamKind(stream);
  return Object.hasOwn(KINDS, kind) ? (KINDS[kind] ?? null) : null;
}

export function requireKind(stream: string): StreamKind<unknown> {
  const kind = kindOf(stream);
  if (!kind) throw new Error(`${stream}: portable files cannot hold this kind of stream`);
  return kind;
}

const PIECE = 512 * 1024;

export function* pieces(
  head: { write: Omit<StoredWrite, "payload"> } | { artifact: string },
  content: Payload,
): Generator<Line> {
  const isText = typeof content === "string";
  for (let at = 0; at === 0 || at < content.length; at += PIECE) {
    const size = at === 0 && !isText ? { size: content.length } : {};
    const body = isText ? { text: content.slice(at, at + PIECE) } : { bytes: base64At(content, at) };
    const more = at + PIECE < content.length ? ({ more: true } as const) : {};
    yield { ...(at === 0 ? head : ({ goesOn: true } as const)), ...size, ...body, ...more };
  }
}

function base64At(content: Uint8Array, at: number): string {
  const length = Math.min(PIECE, content.length - at);
  return Buffer.from(content.buffer, content.byteOffset + at, length).toString("base64");
}

export interface Entry {
  readonly line: Line;
  readonly content: Payload | null;
}

export async function* entriesOf(file: string): AsyncGenerator<Entry> {
  let begun: { readonly line: Line; readonly parts: Parts } | null = null;
  for await (const line of linesOf(file)) {
    if (!("text" in line || "bytes" in line)) {
      yield { line, content: null };
      continue;
    }
    begun ??= { line, parts: new Parts(line) };
    begun.parts.add(line);
    if (line.more) continue;
    const whole = { line: begun.line, content: begun.parts.whole };
    begun = null;
    yield whole;
  }
}

class Parts {
  private readonly texts: string[] = [];
  private readonly bytes: Buffer | null;
  private filled = 0;

  constructor({ size }: Piece) {
    this.bytes = size === undefined ? null : Buffer.allocUnsafe(size);
  }

  add({ text, bytes }: Piece): void {
    if (this.bytes && bytes !== undefined) this.filled += this.bytes.write(bytes, this.filled, "base64");
    else this.texts.push(text ?? "");
  }

  get whole(): Payload {
    return this.bytes ?? this.texts.join("");
  }
}

/** Reads the file to its end and checks everything that needs no store. */
export async function checkFile(file: string): Promise<{ streams: number; writes: number }> {
  const sum = createHash("sha256");
  let end: Extract<Line, { end: unknown }>["end"] | null = null;
  let isFirst = true;
  const check = new PieceCheck(file);
  for await (const raw of rawLinesOf(file)) {
    if (end) throw unusable(file, "there are lines after its end");
    const line = parse(file, raw);
    if (isFirst && !("holdfast" in Object(line))) throw unusable(file, "it is not an export of Holdfast");
    if (isFirst && "holdfast" in line && line.version !== VERSION) {
      throw unusable(file, `it has version ${line.version}; this release reads version ${VERSION}`);
    }
    isFirst = false;
    const problem = lineProblem(line);
    if (problem !== null) throw unusable(file, problem);
    check.add(line);
    const stream = "stream" in line ? line.stream : "gone" in line ? line.gone : null;
    if (stream !== null && stream !== ERASED && !kindOf(stream)) {
      throw unusable(file, `it contains ${stream}, a kind that this release does not know`);
    }
    if ("end" in line) end = line.end;
    else sum.update(raw).update("\n");
  }
  if (!end) throw unusable(file, "it is truncated");
  if (end.sha256 !== sum.digest("hex")) throw unusable(file, "it was changed: its checksum does not match");
  return end;
}

/** Checks that pieces are complete and in order, and that an artifact matches its hash. */
class PieceCheck {
  private readonly file: string;
  private open: { hash: string | null; sum: ReturnType<typeof createHash>; left: number } | null = null;

  constructor(file: string) {
    this.file = file;
  }

  add(line: Line): void {
    const isBegun = this.open !== null;
    if (isBegun !== "goesOn" in line) throw unusable(this.file, "a piece of it is missing");
    if (!("text" in line || "bytes" in line)) return;
    this.open ??= {
      hash: "artifact" in line ? line.artifact : null,
      sum: createHash("sha256"),
      left: line.size ?? 0,
    };
    if (line.bytes !== undefined) {
      const bytes = Buffer.from(line.bytes, "base64");
      this.open.sum.update(bytes);
      this.open.left -= bytes.length;
    }
    if (line.more) return;
    const { hash, sum, left } = this.open;
    this.open = null;
    if (left !== 0) throw unusable(this.file, "a piece of it is missing");
    if (hash !== null && sum.digest("hex") !== hash) {
      throw unusable(this.file, `artifact ${hash} in it does not match its hash`);
    }
  }
}

async function* linesOf(file: string): AsyncGenerator<Line> {
  for await (const raw of rawLinesOf(file)) yield parse(file, raw);
}

const NEWLINE = 0x0a;
/** No export has a longer line. */
const MAX_LINE_BYTES = 256 * 1024 * 1024;

/** Splits at the newline byte only: JSON may contain others that `readline` splits at, such as U+2028. */
async function* rawLinesOf(file: string): AsyncGenerator<Buffer> {
  const handle = await open(file, "r").catch((error: unknown) => {
    throw unreadable(file, error);
  });
  try {
    let parts: Buffer[] = [];
    let length = 0;
    for await (const chunk of handle.createReadStream({ autoClose: false, highWaterMark: PIECE })) {
      const bytes = chunk as Buffer;
      let from = 0;
      for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, from)) {
        yield Buffer.concat([...parts, bytes.subarray(from, at)]);
        parts = [];
        length = 0;
        from = at + 1;
      }
      if (from === bytes.length) continue;
      parts.push(bytes.subarray(from));
      length += bytes.length - from;
      if (length > MAX_LINE_BYTES) throw unusable(file, "it is not an export of Holdfast");
    }
    if (parts.length > 0) yield Buffer.concat(parts);
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    throw unreadable(file, error);
  } finally {
    await handle.close();
  }
}

function parse(file: string, raw: Buffer): Line {
  try {
    return JSON.parse(raw.toString("utf8")) as Line;
  } catch {
    const isPage = file.endsWith(".md");
    const hint = isPage ? `Nothing was written. For a STATE.md: holdfast goal import ${file}` : undefined;
    throw unusable(file, "a line of it is not JSON", hint);
  }
}

function unreadable(file: string, error: unknown): HoldfastError {
  const why = `it cannot be read (${(error as NodeJS.ErrnoException).code})`;
  return unusable(file, why, "Nothing was written. Check the path and the permissions of the file.");
}

function unusable(
  file: string,
  why: string,
  hint = "Nothing was written. Export it again from the original store.",
): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file} cannot be imported: ${why}`, { hint, data: { file } });
}

/** Checks the events of a write against the schemas of its kind, without the state that they change. */
export function checkEvents(journal: Journal, stream: string, write: StoredWrite): void {
  const place = { namespace: journal.namespace, stream, seq: write.first };
  verifySum(write, place);
  const kind = requireKind(stream);
  const events: unknown = journal.payloads.decodeEvents(write.payload, write.codec, place);
  for (const event of Array.isArray(events) ? (events as readonly unknown[]) : [null]) {
    const { type, v, data } = Object(event) as Partial<Record<"type" | "v" | "data", unknown>>;
    const spec = typeof type === "string" && Object.hasOwn(kind.events, type) ? kind.events[type] : null;
    // An older version is brought up to date when it is folded.
    const isOlder = spec && Number.isInteger(v) && (v as number) < spec.version;
    if (isOlder || (spec && v === spec.version && spec.schema.safeParse(data).success)) continue;
    throw new HoldfastError("EVENT_CORRUPT", `${stream} at ${write.first}: an event has no known shape`, {
      hint: "Nothing was written. Export it again from the original store.",
      data: { ...place },
    });
  }
}

/** Folds a stream's writes one by one, to derive the facets, items and keys of each. */
export class Fold {
  private readonly kind: StreamKind<unknown>;
  private readonly state: unknown;

  private constructor(kind: StreamKind<unknown>, state: unknown) {
    this.kind = kind;
    this.state = state;
  }

  static async at(
    journal: Journal,
    kind: StreamKind<unknown>,
    parent: string | null,
    base: number,
  ): Promise<Fold> {
    if (parent === null) return new Fold(kind, kind.initial());
    return new Fold(kind, (await journal.load(kind, streamId(parent), base)).state);
  }

  /** Verifies the checksum: another store will act on this record. */
  add(journal: Journal, stream: string, write: StoredWrite): FacetChange {
    const place = { namespace: journal.namespace, stream, seq: write.first };
    verifySum(write, place);
    const events = journal.payloads.decodeEvents(write.payload, write.codec, place);
    if (events.length !== write.last - write.first + 1) {
      throw new HoldfastError("EVENT_CORRUPT", `${stream} at ${write.first}: the record lacks events`, {
        hint: "Run `holdfast check`, then restore the store from a backup.",
        data: { ...place },
      });
    }
    const change = this.kind.facets?.(this.state, events, write.first, write.codec !== null) ?? {};
    for (const [index, event] of events.entries())
      applyEvent(this.kind, this.state, event, write.first + index);
    return change;
  }
}
