/**
 * Exports a store into one file, also while others write to it: each stream as it is when its turn comes.
 *
 * Keys are listed before the streams, so that each belongs to a write in the file or to an earlier
 * generation. Removed streams come after them, so that a stream that is removed during the export is in the
 * file once.
 *
 * A stream that cannot be decoded (a damaged record, a missing codec) is left out, and so are its forks; the
 * report names them. Keys of such a session are exported as those of a removed one: what was to happen once
 * does not happen again.
 */

import { createHash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { everyRow, everyStream, isUndecodable, type Journal } from "../../journal/index.ts";
import { type ErrorCode, HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { ERASED, streamKind } from "../../model/names.ts";
import type { MovedRow, StreamRow } from "../../store.ts";
import { DEFAULT_NAMESPACE } from "../store-place.ts";
import type { EndsLine, ExportReport, GoneLine, KeyAt, Line } from "./format.ts";
import { Fold, kindOf, pieces, requireKind, VERSION } from "./format.ts";

const PAGE = 200;
/** The kind of supervisors' records of workers. A supervisor creates them again. */
const WORKER = "worker";
const DAMAGE: readonly ErrorCode[] = ["ARTIFACT_CORRUPT", "ARTIFACT_MISSING"];

/** Exports the namespaces of these journals, in their order. */
export async function exportTo(
  journals: readonly Journal[],
  file: string,
  at: string,
): Promise<ExportReport> {
  const target = await ExportFile.begin(file);
  try {
    await target.add({ holdfast: "export", version: VERSION, at });
    const reports: Section[] = [];
    for (const journal of journals) reports.push(await new Export(journal, target).run());
    const sum = (of: "streams" | "writes" | "artifacts" | "supervisorNotes"): number =>
      reports.reduce((total, report) => total + report[of], 0);
    const streams = sum("streams");
    const writes = sum("writes");
    await target.end({ streams, writes });
    return {
      file,
      namespaces: journals.map(({ namespace }) => namespace),
      streams,
      writes,
      artifacts: sum("artifacts"),
      left: reports.flatMap(({ left }) => left),
      damaged: reports.flatMap(({ damaged }) => damaged),
      supervisorNotes: sum("supervisorNotes"),
    };
  } catch (error) {
    await target.discard();
    throw error;
  }
}

type Section = Omit<ExportReport, "file" | "namespaces">;

/** The export of one namespace. */
class Export {
  private readonly journal: Journal;
  private readonly target: ExportFile;
  private readonly seen = new Set<string>();
  private readonly artifacts = new Set<string>();
  private readonly left: string[] = [];
  private readonly damaged = new Map<string, string>();
  private readonly asGone: GoneLine[] = [];
  private supervisorNotes = 0;
  private fresh: string[] = [];
  /** Which exported stream holds each key. */
  private readonly holders = new Map<string, string>();
  private streams = 0;
  private writes = 0;

  constructor(journal: Journal, target: ExportFile) {
    this.journal = journal;
    this.target = target;
  }

  async run(): Promise<Section> {
    const { namespace } = this.journal;
    await this.target.add({ namespace });
    const keys = await keysByStream(this.journal);
    for await (const row of everyStream(this.journal, { hidden: true })) await this.add(row, keys);
    await this.addGone(await keysByStream(this.journal));
    const { streams, writes, artifacts, supervisorNotes } = this;
    const isDefault = namespace === DEFAULT_NAMESPACE;
    const named = (stream: string): string => (isDefault ? stream : `${namespace}: ${stream}`);
    const left = this.left.map(named);
    const damaged = [...this.damaged].map(([stream, why]) => ({ stream: named(stream), why }));
    return { streams, writes, artifacts: artifacts.size, left, damaged, supervisorNotes };
  }

  private async add(row: StreamRow, keys: KeysByStream): Promise<void> {
    if (this.seen.has(row.stream)) return;
    if (!kindOf(row.stream)) {
      this.seen.add(row.stream);
      if (streamKind(row.stream) === WORKER) this.supervisorNotes += 1;
      else this.left.push(row.stream);
      return;
    }
    const parent = row.parent?.stream;
    if (parent !== undefined) await this.add(await this.journal.row(parent), keys);
    if (parent !== undefined && this.damaged.has(parent)) {
      this.leaveOut(row, `it is a fork of ${parent}, which is left out`, keys);
    } else await this.addUnlessDamaged(row, keys);
  }

  private async addUnlessDamaged(row: StreamRow, keys: KeysByStream): Promise<void> {
    const { streams, writes, target } = this;
    const mark = target.mark();
    this.fresh = [];
    try {
      await this.addStream(row.stream, keys.get(row.stream) ?? []);
    } catch (error) {
      const isDamaged = isHoldfastError(error) && DAMAGE.includes(error.code);
      if (!(isDamaged || isUndecodable(error))) throw error;
      await target.backTo(mark);
      for (const hash of this.fresh) this.artifacts.delete(hash);
      this.streams = streams;
      this.writes = writes;
      this.leaveOut(row, error.message, keys);
    }
  }

  private leaveOut({ stream, head }: StreamRow, why: string, keys: KeysByStream): void {
    this.seen.add(stream);
    this.damaged.set(stream, why);
    const before = keys.get(stream) ?? [];
    if (before.length === 0 || streamKind(stream) !== "session") return;
    this.asGone.push({ gone: stream, generation: head.generation + 1, before });
  }

  private async addStream(stream: string, known: readonly KeyAt[]): Promise<void> {
    const { journal, target } = this;
    const read = (after: number) =>
      journal.store.read({ namespace: journal.namespace, stream, after, limit: PAGE });
    let page = await read(0);
    const { state, head, base, parent: past } = page.stream;
    // Removed since it was listed: `addGone` exports it.
    if (state === "gone") return;
    this.seen.add(stream);
    this.streams += 1;
    const parent = past?.stream ?? null;
    const { generation } = head;
    await target.add({ stream, parent, base, generation, hidden: state === "hidden" });
    const tracker = new KeyTracker(await Fold.at(journal, requireKind(stream), parent, base));
    for (let last = base; ; page = await read(last)) {
      if (page.stream.state === "gone" || page.stream.head.generation !== generation) throw changed(stream);
      for (const { payload, ...write } of page.writes) {
        const change = tracker.add(journal, stream, { ...write, payload });
        for (const hash of change.artifacts ?? []) await this.addArtifact(hash);
        for (const line of pieces({ write }, payload)) await target.add(line);
        this.writes += 1;
        last = write.last;
      }
      if (page.more) continue;
      const ends = tracker.end(known);
      for (const [key] of ends.held) this.hold(key, stream);
      await target.add({ ends: last, ...ends });
      return;
    }
  }

  private async addArtifact(hash: string): Promise<void> {
    if (this.artifacts.has(hash)) return;
    this.artifacts.add(hash);
    this.fresh.push(hash);
    const bytes = await this.journal.getArtifact(hash);
    for (const line of pieces({ artifact: hash }, bytes)) await this.target.add(line);
  }

  /** A key that moved from one stream to another between the two reads would be claimed by both. */
  private hold(key: string, stream: string): void {
    const other = this.holders.get(key);
    if (other !== undefined && other !== stream) throw changed(other);
    this.holders.set(key, stream);
  }

  /** Only sessions and erased streams: nothing outside a store depends on the generation of a goal. */
  private async addGone(keys: KeysByStream): Promise<void> {
    for (const line of this.asGone) await this.target.add(line);
    for await (const row of rowsOf(this.journal, "stream")) {
      const { stream, state, head } = row;
      const isKept = streamKind(stream) === "session" || stream === ERASED;
      if (state !== "gone" || !isKept || this.seen.has(stream)) continue;
      await this.target.add({ gone: stream, generation: head.generation, before: keys.get(stream) ?? [] });
    }
  }
}

class KeyTracker {
  private readonly fold: Fold;
  private readonly held = new Map<string, number>();
  private readonly freed: KeyAt[] = [];
  private openCalls = 0;

  constructor(fold: Fold) {
    this.fold = fold;
  }

  add(...[journal, stream, write]: Parameters<Fold["add"]>): ReturnType<Fold["add"]> {
    const change = this.fold.add(journal, stream, write);
    for (const key of change.releases ?? []) {
      const seq = this.held.get(key);
      if (seq !== undefined) this.freed.push([key, seq]);
      this.held.delete(key);
    }
    for (const { key, event } of change.claims ?? []) this.held.set(key, write.first + event);
    this.openCalls = change.facets?.openCalls ?? this.openCalls;
    return change;
  }

  /** `known` are all keys that the store has for this name. */
  end(known: readonly KeyAt[]): Omit<EndsLine, "ends"> {
    const own = new Set([...this.held.keys(), ...this.freed.map(([key]) => key)]);
    const freed = this.freed.filter(([key]) => !this.held.has(key));
    const before = known.filter(([key]) => !own.has(key));
    return { openCalls: this.openCalls, held: [...this.held], freed, before };
  }
}

type KeysByStream = ReadonlyMap<string, readonly KeyAt[]>;

async function keysByStream(journal: Journal): Promise<KeysByStream> {
  const keys = new Map<string, KeyAt[]>();
  for await (const { key, stream, seq } of rowsOf(journal, "key")) {
    const known = keys.get(stream);
    if (known) known.push([key, seq]);
    else keys.set(stream, [[key, seq]]);
  }
  return keys;
}

async function* rowsOf<Of extends MovedRow["of"]>(
  { store, namespace }: Journal,
  of: Of,
): AsyncGenerator<Extract<MovedRow, { of: Of }>> {
  const { moving } = store;
  if (!moving) {
    throw new HoldfastError("INPUT_INVALID", `${store.address}: this kind of store cannot be exported`, {
      hint: "Use a store that implements `moving`, as all stores of Holdfast do.",
      data: { address: store.address },
    });
  }
  const read = ({ cursor = null }: { readonly cursor?: string | null }) => moving.dump(cursor, [of]);
  for await (const row of everyRow(read)) {
    if (row.of === of && row.namespace === namespace) yield row as Extract<MovedRow, { of: Of }>;
  }
}

function changed(stream: string): HoldfastError {
  return new HoldfastError("STREAM_BUSY", `${stream}: changed during the export`, {
    hint: "No file was written. Export again.",
    data: { stream },
  });
}

/** Append mode: after a truncation, the next write goes to the new end. */
const OPEN_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND;

const BUFFER_BYTES = 1024 * 1024;

/**
 * The file of an export. It has a temporary name until all of it is on the disk; after a failure nothing of
 * it is left. `backTo` removes a stream that turns out to be damaged.
 */
class ExportFile {
  private readonly file: string;
  private readonly handle: FileHandle;
  private sum = createHash("sha256");
  private bytes = 0;
  private buffered: Buffer[] = [];
  private bufferedBytes = 0;

  private constructor(file: string, handle: FileHandle) {
    this.file = file;
    this.handle = handle;
  }

  static async begin(file: string): Promise<ExportFile> {
    if (existsSync(file)) {
      throw new HoldfastError("STREAM_EXISTS", `${file}: file exists`, {
        hint: "Name a new file, or move that one away.",
        data: { file },
      });
    }
    const handle = await onDisk(file, () => open(partOf(file), OPEN_FLAGS, 0o600));
    return new ExportFile(file, handle);
  }

  async add(line: Line): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
    this.sum.update(bytes);
    await this.put(bytes);
  }

  mark() {
    return { bytes: this.bytes, sum: this.sum.copy() };
  }

  async backTo({ bytes, sum }: ReturnType<ExportFile["mark"]>): Promise<void> {
    await this.flush();
    await onDisk(this.file, () => this.handle.truncate(bytes));
    this.bytes = bytes;
    this.sum = sum;
  }

  async end(counts: { streams: number; writes: number }): Promise<void> {
    const end = { ...counts, sha256: this.sum.digest("hex") };
    await this.put(Buffer.from(`${JSON.stringify({ end })}\n`));
    await this.flush();
    await onDisk(this.file, async () => {
      await this.handle.sync();
      await this.handle.close();
      await rename(partOf(this.file), this.file);
      await syncFolder(dirname(this.file));
    });
  }

  async discard(): Promise<void> {
    // The caller reports the reason; a disk that refused a write may also refuse to close.
    await this.handle.close().catch(() => undefined);
    await rm(partOf(this.file), { force: true });
  }

  private async put(bytes: Buffer): Promise<void> {
    this.buffered.push(bytes);
    this.bufferedBytes += bytes.length;
    this.bytes += bytes.length;
    if (this.bufferedBytes >= BUFFER_BYTES) await this.flush();
  }

  private async flush(): Promise<void> {
    const bytes = Buffer.concat(this.buffered);
    this.buffered = [];
    this.bufferedBytes = 0;
    // Writes until everything is written: a full disk may accept a part and refuse only the rest.
    await onDisk(this.file, () => this.handle.appendFile(bytes));
  }
}

function partOf(file: string): string {
  return `${file}.part`;
}

async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  await handle.sync().finally(() => handle.close());
}

function onDisk<Result>(file: string, act: () => Promise<Result>): Promise<Result> {
  return act().catch((error: unknown) => {
    throw unwritable(file, error);
  });
}

const FULL = ["ENOSPC", "EDQUOT", "EFBIG"];

function unwritable(file: string, cause: unknown): HoldfastError {
  const { code = "" } = cause as NodeJS.ErrnoException;
  const folder = dirname(file);
  if (code === "ENOENT") {
    const what = `${file} cannot be written: folder ${folder} does not exist`;
    const hint = "Create the folder first, or name a file in another one.";
    return new HoldfastError("INPUT_INVALID", what, { hint, cause, data: { file } });
  }
  const hint = FULL.includes(code)
    ? "The disk is full. No partial file was left. Free space, or name a file on another disk."
    : "Check the path, its permissions and the space on the disk.";
  return new HoldfastError("STORE_IO", `${file} cannot be written (${code})`, {
    hint,
    cause,
    data: { file },
  });
}
