/**
 * A store in one file that any other store can take in: lines of JSON, the last of them a checksum of all before it.
 *
 *     header · (artifact …) (stream · write …) … · end
 *
 * Writes are kept as they are stored, with their ids, so taking in the same file twice changes nothing and an import
 * that was cut off is finished by running it again. What lists and views show is made anew from the events. Leases and
 * snapshots stay behind: they belong to the store. A file is read to its end and checked before anything is written.
 */

import { createHash, type Hash } from "node:crypto";
import { existsSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { everyStream, type Journal } from "../journal/index.ts";
import {
  applyEvent,
  type FacetChange,
  goalKind,
  HoldfastError,
  type StreamKind,
  sessionKind,
  streamId,
  streamKind,
} from "../model/index.ts";
import type { StoredWrite, StreamRow, Write } from "../store.ts";

const VERSION = 1;
const PAGE = 200;
const KINDS: Readonly<Record<string, StreamKind<unknown>>> = {
  goal: goalKind as unknown as StreamKind<unknown>,
  session: sessionKind as unknown as StreamKind<unknown>,
};

type Line =
  | { readonly holdfast: "export"; readonly version: number; readonly at: string }
  | {
      readonly stream: string;
      readonly parent: string | null;
      readonly base: number;
      readonly hidden: boolean;
    }
  | { readonly write: Omit<StoredWrite, "payload">; readonly text?: string; readonly bytes?: string }
  | { readonly artifact: string; readonly bytes: string }
  | { readonly end: { readonly streams: number; readonly writes: number; readonly sha256: string } };

export interface PortableReport {
  readonly file: string;
  readonly streams: number;
  readonly writes: number;
  readonly artifacts: number;
  /** Streams of kinds that this release does not know, left out. */
  readonly left: readonly string[];
}

export async function exportTo(journal: Journal, file: string, at: string): Promise<PortableReport> {
  if (existsSync(file)) {
    throw new HoldfastError("STREAM_EXISTS", `${file} is there already`, {
      hint: "Name a file that does not exist yet, or move that one away.",
      data: { file },
    });
  }
  const part = `${file}.part`;
  const target = await open(part, "w", 0o600).catch((error: unknown) => {
    throw unwritable(file, error);
  });
  try {
    const report = await writeLines(journal, new Lines((text) => target.write(text)), at);
    await target.sync();
    await target.close();
    await rename(part, file);
    return { ...report, file };
  } catch (error) {
    await target.close();
    await rm(part, { force: true });
    throw error;
  }
}

function unwritable(file: string, cause: unknown): HoldfastError {
  const { code } = cause as NodeJS.ErrnoException;
  const folder = dirname(file);
  if (code === "ENOENT") {
    const what = `${file} cannot be written: there is no folder ${folder}`;
    const hint = "Make the folder first, or name a file in one that is there.";
    return new HoldfastError("INPUT_INVALID", what, { hint, cause, data: { file } });
  }
  return new HoldfastError("STORE_IO", `${file} cannot be written (${code})`, {
    hint: "Check that every part of the path but the last is a folder that you may write to, and the space on the disk.",
    cause,
    data: { file },
  });
}

/** Counts and sums what it writes. */
class Lines {
  streams = 0;
  writes = 0;
  private readonly sum: Hash = createHash("sha256");
  private readonly put: (text: string) => Promise<unknown>;

  constructor(put: (text: string) => Promise<unknown>) {
    this.put = put;
  }

  async add(line: Line): Promise<void> {
    const text = `${JSON.stringify(line)}\n`;
    this.sum.update(text);
    await this.put(text);
  }

  async end(): Promise<void> {
    const { streams, writes } = this;
    const end = { streams, writes, sha256: this.sum.digest("hex") };
    await this.put(`${JSON.stringify({ end })}\n`);
  }
}

async function writeLines(journal: Journal, lines: Lines, at: string): Promise<Omit<PortableReport, "file">> {
  await lines.add({ holdfast: "export", version: VERSION, at });
  const written = new Set<string>();
  const artifacts = new Set<string>();
  const left: string[] = [];
  const add = async (row: StreamRow): Promise<void> => {
    if (written.has(row.stream)) return;
    written.add(row.stream);
    const kind = KINDS[streamKind(row.stream)];
    if (!kind) {
      left.push(row.stream);
      return;
    }
    if (row.parent) await add(await journal.row(row.parent.stream));
    await addStream(journal, lines, row, kind, artifacts);
  };
  for await (const row of everyStream(journal, { hidden: true })) await add(row);
  await lines.end();
  return { streams: lines.streams, writes: lines.writes, artifacts: artifacts.size, left };
}

async function addStream(
  journal: Journal,
  lines: Lines,
  row: StreamRow,
  kind: StreamKind<unknown>,
  artifacts: Set<string>,
): Promise<void> {
  const { stream, base, parent } = row;
  const fold = await Fold.at(journal, kind, parent?.stream ?? null, base);
  lines.streams += 1;
  await lines.add({ stream, parent: parent?.stream ?? null, base, hidden: row.state === "hidden" });
  for (let after = base; ; ) {
    const { namespace } = journal;
    const page = await journal.store.read({ namespace, stream, after, limit: PAGE });
    for (const { payload, ...write } of page.writes) {
      for (const hash of fold.add(journal, stream, { ...write, payload }).artifacts ?? []) {
        if (artifacts.has(hash)) continue;
        artifacts.add(hash);
        const bytes = await journal.getArtifact(hash);
        await lines.add({ artifact: hash, bytes: Buffer.from(bytes).toString("base64") });
      }
      const said =
        typeof payload === "string" ? { text: payload } : { bytes: Buffer.from(payload).toString("base64") };
      lines.writes += 1;
      await lines.add({ write, ...said });
      after = write.last;
    }
    if (!page.more) return;
  }
}

/** The state of a stream as its writes come by: what each carries beside its events follows from it. */
class Fold {
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

  add(journal: Journal, stream: string, write: StoredWrite): FacetChange {
    const place = { namespace: journal.namespace, stream, seq: write.first };
    const events = journal.payloads.decodeEvents(write.payload, write.codec, place);
    const change = this.kind.facets?.(this.state, events, write.first) ?? {};
    events.forEach((event, index) => {
      applyEvent(this.kind, this.state, event, write.first + index);
    });
    return change;
  }
}

export interface ImportReport extends PortableReport {
  /** How many of its writes were not there before. */
  readonly added: number;
}

/** What takes it in is opened, and made if need be, only once the file has proven good. */
export async function importFrom(into: () => Promise<Journal>, file: string): Promise<ImportReport> {
  const { streams, writes } = await checkFile(file);
  const journal = await into();
  let artifacts = 0;
  let added = 0;
  const hidden: string[] = [];
  let current: { row: Extract<Line, { stream: string }>; fold: Fold; isFirst: boolean } | null = null;
  for await (const line of linesOf(file)) {
    if ("artifact" in line) {
      artifacts += 1;
      await journal.putArtifact(Buffer.from(line.bytes, "base64"));
    } else if ("stream" in line) {
      const kind = kindIn(file, line.stream);
      current = { row: line, fold: await Fold.at(journal, kind, line.parent, line.base), isFirst: true };
      if (line.hidden) hidden.push(line.stream);
    } else if ("write" in line && current) {
      const payload = line.text ?? Buffer.from(line.bytes ?? "", "base64");
      const stored = { ...line.write, payload };
      const change = current.fold.add(journal, current.row.stream, stored);
      const isNew = await take(journal, file, current.row, stored, change, current.isFirst);
      if (isNew) added += 1;
      current.isFirst = false;
    }
  }
  for (const stream of hidden.reverse()) await journal.remove(stream);
  return { file, streams, writes, added, artifacts, left: [] };
}

/** False where that very write was there already. */
async function take(
  journal: Journal,
  file: string,
  row: Extract<Line, { stream: string }>,
  stored: StoredWrite,
  change: FacetChange,
  isFirst: boolean,
): Promise<boolean> {
  const { stream, parent, base } = row;
  const { head } = await journal.row(stream);
  const from = isFirst && parent !== null ? (await journal.row(parent)).head : null;
  const write: Write = {
    ...change,
    stream,
    expect: { generation: head.generation, seq: stored.first - 1 },
    count: stored.last - stored.first + 1,
    payload: stored.payload,
    codec: stored.codec,
    sum: stored.sum,
    at: stored.at,
    ...(from && parent !== null && { fork: { stream: parent, generation: from.generation, seq: base } }),
  };
  const { namespace } = journal;
  const outcome = await journal.store.append({ id: stored.batch, namespace, writes: [write] });
  if (outcome.outcome === "ok") return !outcome.resent;
  throw new HoldfastError("STREAM_EXISTS", `${stream} of ${file} cannot be taken in: ${outcome.outcome}`, {
    hint: "This store has something else under that name. Import into a store of its own: --store ./other.db",
    data: { stream, outcome: outcome.outcome },
  });
}

async function checkFile(file: string): Promise<{ streams: number; writes: number }> {
  const sum = createHash("sha256");
  let end: Extract<Line, { end: unknown }>["end"] | null = null;
  let isFirst = true;
  for await (const text of textsOf(file)) {
    if (end) throw unusable(file, "something follows its end");
    const line = parse(file, text);
    if (isFirst && !("holdfast" in line)) throw unusable(file, "it is not an export of Holdfast");
    if ("holdfast" in line && line.version !== VERSION) {
      throw unusable(file, `it has version ${line.version}; this release reads version ${VERSION}`);
    }
    isFirst = false;
    if ("stream" in line) kindIn(file, line.stream);
    if ("end" in line) end = line.end;
    else sum.update(`${text}\n`);
  }
  if (!end) throw unusable(file, "it ends too early");
  if (end.sha256 !== sum.digest("hex")) throw unusable(file, "it was changed: its checksum is another");
  return end;
}

function kindIn(file: string, stream: string): StreamKind<unknown> {
  const kind = KINDS[streamKind(stream)];
  if (!kind) throw unusable(file, `it holds ${stream}, of a kind that this release does not know`);
  return kind;
}

async function* linesOf(file: string): AsyncGenerator<Line> {
  for await (const text of textsOf(file)) yield parse(file, text);
}

async function* textsOf(file: string): AsyncGenerator<string> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    handle = await open(file, "r");
  } catch (error) {
    throw unusable(file, `it cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  try {
    for await (const line of handle.readLines()) yield line;
  } finally {
    await handle.close();
  }
}

function parse(file: string, text: string): Line {
  try {
    return JSON.parse(text) as Line;
  } catch {
    throw unusable(file, "a line of it is not JSON");
  }
}

function unusable(file: string, why: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file} cannot be imported: ${why}`, {
    hint: "Nothing was written. Export it again where it came from.",
    data: { file },
  });
}
