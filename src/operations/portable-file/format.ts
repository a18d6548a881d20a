/**
 * A store in one file that any other store can take in: lines of JSON, the last of them a checksum of all before it.
 *
 *     header · (artifact …) (stream · write … · ends) … · gone … · end
 *
 * Writes are kept as they are stored, with their ids, so taking in the same file twice changes nothing and an import
 * that was cut off is finished by running it again. What lists and views show is made anew from the events. Leases and
 * snapshots stay behind: they belong to the store. Two things do not follow from the events and are kept beside them,
 * because the keys that vendors are handed, and "once, ever", hang on them: in which life of its name each session is,
 * also of those that are gone, and the keys that earlier lives have claimed.
 *
 * What may be large, a payload or an artifact, comes in pieces: a line each, so that no line is.
 */

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { type Journal, verifySum } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { goalKind } from "../../model/goal/index.ts";
import { streamId, streamKind } from "../../model/names.ts";
import { sessionKind } from "../../model/session/index.ts";
import { applyEvent, type FacetChange, type StreamKind } from "../../model/stream/index.ts";
import type { Payload, StoredWrite } from "../../store.ts";

/** The state of a stream as its writes come by: what each carries beside its events follows from it. */
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

  /** What is carried elsewhere is acted on there, so the record has to match its checksum. */
  add(journal: Journal, stream: string, write: StoredWrite): FacetChange {
    const place = { namespace: journal.namespace, stream, seq: write.first };
    verifySum(write, place);
    const events = journal.payloads.decodeEvents(write.payload, write.codec, place);
    if (events.length !== write.last - write.first + 1) {
      throw new HoldfastError("EVENT_CORRUPT", `${stream} at ${write.first}: the record lacks events`, {
        hint: "Run `check` on the store, and restore it from a backup.",
        data: { ...place },
      });
    }
    const change = this.kind.facets?.(this.state, events, write.first) ?? {};
    events.forEach((event, index) => {
      applyEvent(this.kind, this.state, event, write.first + index);
    });
    return change;
  }
}

export const VERSION = 2;

const KINDS: Readonly<Record<string, StreamKind<unknown>>> = {
  goal: goalKind as unknown as StreamKind<unknown>,
  session: sessionKind as unknown as StreamKind<unknown>,
};

/** Null for kinds that this release does not know. */
export function kindOf(stream: string): StreamKind<unknown> | null {
  return KINDS[streamKind(stream)] ?? null;
}

export function mustKnow(stream: string): StreamKind<unknown> {
  const kind = kindOf(stream);
  if (!kind) throw new Error(`${stream} is of a kind that no portable file holds`);
  return kind;
}

/** Text as it is, bytes in base64; `more` when the next line goes on with it. `size`: of all its bytes. */
interface Body {
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
  /** Claimed in this life and still held. */
  readonly held: readonly KeyAt[];
  /** Claimed in this life and released for good. */
  readonly freed: readonly KeyAt[];
  /** Claimed in an earlier life: they stay claimed. */
  readonly before: readonly KeyAt[];
}

/** A session that was removed: its next life is `generation`. */
export interface GoneLine {
  readonly gone: string;
  readonly generation: number;
  readonly before: readonly KeyAt[];
}

export type Line =
  | { readonly holdfast: "export"; readonly version: number; readonly at: string }
  | StreamLine
  | EndsLine
  | GoneLine
  | (Body & { readonly write: Omit<StoredWrite, "payload"> })
  | (Body & { readonly artifact: string })
  | (Body & { readonly goesOn: true })
  | { readonly end: { readonly streams: number; readonly writes: number; readonly sha256: string } };

export interface PortableReport {
  readonly file: string;
  readonly streams: number;
  readonly writes: number;
  readonly artifacts: number;
  /** Streams of kinds that this release does not know, left out. */
  readonly left: readonly string[];
}

export interface ExportReport extends PortableReport {
  /** Streams that could not be read whole, left out. */
  readonly damaged: readonly { readonly stream: string; readonly why: string }[];
  /** How many streams supervisors keep of their workers; left out, because they belong to the store. */
  readonly supervisorNotes: number;
}

const PIECE = 512 * 1024;

/** The lines of one payload or artifact, the first of them with `head`. */
export function* pieces(
  head: { write: Omit<StoredWrite, "payload"> } | { artifact: string },
  content: Payload,
): Generator<Line> {
  const isText = typeof content === "string";
  for (let at = 0; at === 0 || at < content.length; at += PIECE) {
    const size = at === 0 && !isText ? { size: content.length } : {};
    const said = isText
      ? { text: content.slice(at, at + PIECE) }
      : {
          bytes: Buffer.from(content.buffer, content.byteOffset + at, lengthAt(content, at)).toString(
            "base64",
          ),
        };
    const more = at + PIECE < content.length ? ({ more: true } as const) : {};
    yield { ...(at === 0 ? head : ({ goesOn: true } as const)), ...size, ...said, ...more };
  }
}

function lengthAt(content: Uint8Array, at: number): number {
  return Math.min(PIECE, content.length - at);
}

/** A line, with its content put together from all its pieces if it has one. */
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

  constructor({ size }: Body) {
    this.bytes = size === undefined ? null : Buffer.allocUnsafe(size);
  }

  add({ text, bytes }: Body): void {
    if (this.bytes && bytes !== undefined) this.filled += this.bytes.write(bytes, this.filled, "base64");
    else this.texts.push(text ?? "");
  }

  get whole(): Payload {
    return this.bytes ?? this.texts.join("");
  }
}

/** Reads it to its end and checks all that can be told without a store. */
export async function checkFile(file: string): Promise<{ streams: number; writes: number }> {
  const sum = createHash("sha256");
  let end: Extract<Line, { end: unknown }>["end"] | null = null;
  let isFirst = true;
  const contents = new Contents(file);
  for await (const raw of rawLinesOf(file)) {
    if (end) throw unusable(file, "something follows its end");
    const line = parse(file, raw);
    if (isFirst && !("holdfast" in line)) throw unusable(file, "it is not an export of Holdfast");
    if ("holdfast" in line && line.version !== VERSION) {
      throw unusable(file, `it has version ${line.version}; this release reads version ${VERSION}`);
    }
    isFirst = false;
    contents.see(line);
    const stream = "stream" in line ? line.stream : "gone" in line ? line.gone : null;
    if (stream !== null && !kindOf(stream)) {
      throw unusable(file, `it holds ${stream}, of a kind that this release does not know`);
    }
    if ("end" in line) end = line.end;
    else sum.update(raw).update("\n");
  }
  if (!end) throw unusable(file, "it ends too early");
  if (end.sha256 !== sum.digest("hex")) throw unusable(file, "it was changed: its checksum is another");
  return end;
}

/** Follows what comes in pieces: each goes on where it must, and an artifact has the hash that it is named by. */
class Contents {
  private readonly file: string;
  private open: {
    hash: string | null;
    sum: ReturnType<typeof createHash>;
    size: number;
    left: number;
  } | null = null;

  constructor(file: string) {
    this.file = file;
  }

  see(line: Line): void {
    const isBegun = this.open !== null;
    if (isBegun !== "goesOn" in line) throw unusable(this.file, "a piece of it is missing");
    if (!("text" in line || "bytes" in line)) return;
    this.open ??= {
      hash: "artifact" in line ? line.artifact : null,
      sum: createHash("sha256"),
      size: line.size ?? 0,
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

export async function* linesOf(file: string): AsyncGenerator<Line> {
  for await (const raw of rawLinesOf(file)) yield parse(file, raw);
}

const NEWLINE = 0x0a;
/** No export has a line as long as this. */
const LONGEST = 256 * 1024 * 1024;

/** Split at the newline byte only: what `readline` also takes for the end of a line (U+2028, for one) may stand in JSON. */
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
      if (length > LONGEST) throw unusable(file, "it is not an export of Holdfast");
    }
    if (parts.length > 0) yield Buffer.concat(parts);
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    throw unreadable(file, error);
  } finally {
    await handle.close();
  }
}

function unreadable(file: string, error: unknown): HoldfastError {
  const why = `it cannot be read (${(error as NodeJS.ErrnoException).code})`;
  return unusable(file, why, "Nothing was written. Check the path, and the permissions of the file.");
}

function parse(file: string, raw: Buffer): Line {
  try {
    return JSON.parse(raw.toString("utf8")) as Line;
  } catch {
    throw unusable(file, "a line of it is not JSON");
  }
}

function unusable(
  file: string,
  why: string,
  hint = "Nothing was written. Export it again where it came from.",
): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file} cannot be imported: ${why}`, {
    hint,
    data: { file },
  });
}
