/**
 * Notices a store that went back in time between two processes: an old copy of its file or folder was put
 * back. Tools that have run since would run again, so such a store is not opened for writing
 * (`STORE_REWOUND`) until a person accepts the loss.
 *
 * Nothing inside a restored copy can tell. So every process keeps a record outside of it:
 *
 *     home     ~/.local/state/holdfast/stores/<hash of host, path and store id>.jsonl: the last writes, one
 *              line per commit, with the calls in them. A commit that opens an item (the intent of a call)
 *              is noted before it is answered, others at the end of the turn of the event loop. It has
 *              64 KB, and as much again in `.old`
 *     beside   `store.db-record`, for SQLite: the same, at most once a second, and a few lines only. It
 *              serves containers, whose home does not last
 *
 * A line names a position that the store had reached:
 *
 *     epoch    how often a rewind was accepted. A record of an earlier epoch is ignored
 *     mark     a number of the store that grows with every removal, seal and proof (SQLite), or with every
 *              line (files). A store with a larger mark is newer than the line
 *     writes   the streams of the commit and where each ends, for stores with the same mark
 *
 * The store is older than the record if one of the last lines names an epoch, a mark or an end of a stream
 * that it has not reached. Each of them only grows.
 *
 * A line is written only after its commit is durable. So a crash or a power cut leaves a record that lags
 * behind the store, and never one that leads it. Lines are not synced. A line that cannot be parsed, a
 * missing file, a home on a network disk or of another user: all count as no record.
 *
 * The first line of a record has the store's id and its path. A new store in the place of an old one begins a
 * record of its own, and so does a folder that was copied or moved together with its record.
 *
 * A copy that is opened at another path, by another user or on another machine is not noticed. Neither is a
 * home that was restored together with the store, nor lines that a power cut took.
 */

import { createHash } from "node:crypto";
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { homedir, hostname } from "node:os";
import { isAbsolute, join } from "node:path";
import { setImmediate } from "node:timers";
import type { Batch, Head, Rewind, Write } from "../../store.ts";
import { isSameFile, networkDisk, statOf } from "./disk.ts";

type NotedWrite = readonly [namespace: string, stream: string, generation: number, seq: number];
type NotedItem = readonly [namespace: string, stream: string, kind: string, id: string, ...NotedFields];
type NotedFields = [name: string | null, status: string | null, isDone: 0 | 1];

/** One line of the record. */
interface Line {
  readonly at: number;
  readonly epoch: number;
  readonly mark: number;
  readonly writes: readonly NotedWrite[];
  readonly items: readonly NotedItem[];
}

/** How far a store is now. */
export interface StorePosition {
  readonly epoch: number;
  readonly mark: number;
  headOf(namespace: string, stream: string): Head;
}

/** How many of the last lines are compared. More than one, since several processes write them. */
const COMPARED = 8;
const HOME_BYTES = 65_536;
const BESIDE_BYTES = 8_192;
const BESIDE_MS = 1_000;
const IN_PLACE_MS = 1_000;

export class RewindRecord {
  readonly #home: RecordFile | null;
  readonly #beside: RecordFile | null;
  readonly #epoch: () => number;
  #pending: { mark: number; batch: Batch; heads: readonly Head[]; hasItems: boolean } | null = null;
  #lines = "";
  #isScheduled = false;

  /** `beside`: the path of the second record, if there is one. */
  constructor(path: string, store: string, epoch: () => number, beside: string | null) {
    const home = homeFolder();
    const name = createHash("sha256")
      .update([hostname(), realPath(path), store].join("\0"))
      .digest("hex");
    const head = `${JSON.stringify({ store, path: realPath(path) })}\n`;
    const file = home === null ? null : join(home, `${name.slice(0, 32)}.jsonl`);
    this.#home =
      file === null ? null : new RecordFile(file, head, { limit: HOME_BYTES, everyMs: 0, old: true });
    this.#beside =
      beside === null
        ? null
        : new RecordFile(beside, head, { limit: BESIDE_BYTES, everyMs: BESIDE_MS, old: false });
    this.#epoch = epoch;
  }

  /** Notes an append that is durable, and not answered yet. */
  noteAppend(mark: number, batch: Batch, heads: readonly Head[]): void {
    const hasItems = batch.writes.some(({ items }) => items !== undefined && items.length > 0);
    const pending = this.#pending;
    // The last append without items is enough: a store that has it has those before it.
    if (pending && (pending.hasItems || pending.mark !== mark)) this.#takePending();
    this.#pending = { mark, batch, heads, hasItems };
    if (hasItems && batch.writes.some(opensItem)) this.flush();
    else this.#schedule();
  }

  /** Notes a change other than an append. */
  noteMark(mark: number): void {
    this.#takePending();
    this.#addLine(mark, "", "");
    this.flush();
  }

  flush(): void {
    this.#takePending();
    const lines = this.#lines;
    this.#lines = "";
    if (lines === "") return;
    const now = Date.now();
    this.#home?.append(lines, now);
    this.#beside?.append(lines, now);
  }

  /** Rewrites the record without a stream whose bytes must not stay anywhere. */
  forget(namespace: string, stream: string): void {
    this.flush();
    const isOther = (row: readonly [string, string, ...unknown[]]): boolean =>
      row[0] !== namespace || row[1] !== stream;
    for (const file of [this.#home, this.#beside]) {
      file?.rewrite((line) => ({
        ...line,
        writes: line.writes.filter(isOther),
        items: line.items.filter(isOther),
      }));
    }
  }

  close(): void {
    this.flush();
    this.#beside?.appendHeld();
    this.#home?.close();
    this.#beside?.close();
  }

  /** Reads the record. Call it before the position of the store is read, or that could seem older. */
  read(): RecordedWrites {
    return new RecordedWrites([this.#home?.read() ?? [], this.#beside?.read() ?? []]);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.flush();
    });
  }

  /** Writes the line piece by piece: that takes half the time of one large object. */
  #takePending(): void {
    if (!this.#pending) return;
    const { mark, batch, heads } = this.#pending;
    this.#pending = null;
    const namespace = JSON.stringify(batch.namespace);
    let writes = "";
    let items = "";
    for (let index = 0; index < batch.writes.length; index++) {
      const write = batch.writes[index] as Write;
      const { generation, seq } = heads[index] as Head;
      const place = `[${namespace},${JSON.stringify(write.stream)}`;
      writes += `${writes && ","}${place},${generation},${seq}]`;
      for (const { kind, id, name, status, doneAt } of write.items ?? []) {
        const fields = `${json(kind)},${json(id)},${json(name)},${json(status)},${doneAt ? 1 : 0}`;
        items += `${items && ","}${place},${fields}]`;
      }
    }
    this.#addLine(mark, writes, items);
  }

  #addLine(mark: number, writes: string, items: string): void {
    const head = `{"at":${Date.now()},"epoch":${this.#epoch()},"mark":${mark}`;
    this.#lines += `${head},"writes":[${writes}],"items":[${items}]}\n`;
  }
}

function json(text: string | undefined): string {
  return text === undefined ? "null" : JSON.stringify(text);
}

function opensItem({ items = [] }: Write): boolean {
  return items.some(({ doneAt }) => doneAt === null);
}

function lastLine(lines: string): string {
  return lines.slice(lines.lastIndexOf("\n", lines.length - 2) + 1);
}

/** The lines that were read from a record. */
export class RecordedWrites {
  readonly #places: readonly (readonly string[])[];

  /** `places`: the lines of each place, oldest first. */
  constructor(places: readonly (readonly string[])[]) {
    this.#places = places;
  }

  /** Null unless the record shows that the store is older than it was. */
  compare(store: StorePosition): Rewind | null {
    const last = this.#places.flatMap((lines) => lines.slice(-COMPARED).flatMap(parse));
    if (!last.some((line) => isAhead(line, store))) return null;
    const all = this.#places.flatMap((lines) => lines.flatMap(parse)).sort((a, b) => a.at - b.at);
    const missing = all.filter((line) => isAhead(line, store));
    const streams = new Map<string, Rewind["streams"][number]>();
    const items = new Map<string, Rewind["items"][number]>();
    for (const { at, writes, items: noted } of missing) {
      for (const [namespace, stream, generation, seq] of writes) {
        const head = store.headOf(namespace, stream);
        const known = { generation, seq };
        if (isOlder(head, known))
          streams.set(JSON.stringify([namespace, stream]), { namespace, stream, head, known, at });
      }
      for (const [namespace, stream, kind, id, name, status] of noted) {
        const key = JSON.stringify([namespace, stream, kind, id]);
        const before = items.get(key);
        const first = { namespace, stream, kind, id, name, at };
        items.set(key, { ...(before ?? first), status });
      }
    }
    const isComplete = all.some((line) => !isAhead(line, store));
    const lastWriteAt = Math.max(...missing.map(({ at }) => at));
    return { lastWriteAt, isComplete, streams: [...streams.values()], items: [...items.values()] };
  }
}

function isAhead(line: Line, store: StorePosition): boolean {
  if (line.epoch !== store.epoch) return line.epoch > store.epoch;
  if (line.mark !== store.mark) return line.mark > store.mark;
  return line.writes.some(([namespace, stream, generation, seq]) =>
    isOlder(store.headOf(namespace, stream), { generation, seq }),
  );
}

function isOlder(a: Head, b: Head): boolean {
  return a.generation < b.generation || (a.generation === b.generation && a.seq < b.seq);
}

/** The folder for records of this user; null if there is no place that lasts and is this user's own. */
function homeFolder(): string | null {
  try {
    const set = process.env["XDG_STATE_HOME"];
    const isSet = set !== undefined && isAbsolute(set);
    const home = isSet ? set : homedir();
    if (!isSet && process.getuid && statSync(home).uid !== process.getuid()) return null;
    const folder = join(isSet ? home : join(home, ".local", "state"), "holdfast", "stores");
    return networkDisk(folder) === undefined ? folder : null;
  } catch {
    // No home, or none that can be looked at: there is no record.
    return null;
  }
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

interface Limits {
  readonly limit: number;
  readonly everyMs: number;
  /** Whether a full file is kept beside the new one. */
  readonly old: boolean;
}

/** A file of lines that several processes append to. A failure ends its use: it is only a precaution. */
class RecordFile {
  readonly #path: string;
  readonly #head: string;
  readonly #limits: Limits;
  #descriptor: number | null = null;
  #size = 0;
  #checkedAt = 0;
  #writtenAt = 0;
  #held = "";
  #isUseless = false;

  constructor(path: string, head: string, limits: Limits) {
    this.#path = path;
    this.#head = head;
    this.#limits = limits;
  }

  append(lines: string, now: number): void {
    this.#held = lines;
    if (this.#limits.everyMs === 0 || Math.abs(now - this.#writtenAt) >= this.#limits.everyMs)
      this.appendHeld(now);
  }

  appendHeld(now = Date.now()): void {
    if (this.#held === "" || this.#isUseless) return;
    try {
      const descriptor = this.#ready(now);
      this.#size += writeSync(descriptor, this.#limits.old ? this.#held : lastLine(this.#held));
      this.#writtenAt = now;
      this.#held = "";
    } catch {
      // A full disk, or a folder that cannot be written. The store itself must not fail for that.
      this.#isUseless = true;
      this.close();
    }
  }

  read(): string[] {
    const old = this.#limits.old ? linesOf(`${this.#path}.old`, this.#head) : [];
    return [...old, ...linesOf(this.#path, this.#head)];
  }

  rewrite(change: (line: Line) => Line): void {
    for (const path of this.#limits.old ? [`${this.#path}.old`, this.#path] : [this.#path]) {
      if (!statOf(path)) continue;
      const lines = linesOf(path, this.#head)
        .flatMap(parse)
        .map((line) => `${JSON.stringify(change(line))}\n`);
      const temporary = `${path}.${process.pid}.new`;
      const descriptor = openSync(temporary, "w", 0o600);
      writeSync(descriptor, [this.#head, ...lines].join(""));
      closeSync(descriptor);
      renameSync(temporary, path);
    }
    this.close();
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  #ready(now: number): number {
    if (this.#descriptor !== null && Math.abs(now - this.#checkedAt) >= IN_PLACE_MS) {
      this.#checkedAt = now;
      const { dev: device, ino: inode, size } = fstatSync(this.#descriptor);
      this.#size = size;
      if (!isSameFile({ device, inode }, statOf(this.#path))) this.close();
    }
    if (this.#descriptor !== null && this.#size > this.#limits.limit) this.#beginAnew();
    if (this.#descriptor === null) this.#open();
    return this.#descriptor as unknown as number;
  }

  #beginAnew(): void {
    if (!this.#limits.old) {
      ftruncateSync(this.#descriptor as number);
      this.#size = 0;
      return;
    }
    this.close();
    renameSync(this.#path, `${this.#path}.old`);
  }

  #open(): void {
    if (this.#limits.old && !statOf(this.#path)) {
      const folder = join(this.#path, "..");
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      removeAbandoned(folder);
    }
    this.#descriptor = openSync(this.#path, "a", 0o600);
    this.#size = fstatSync(this.#descriptor).size;
    if (this.#size > 0 && linesOf(this.#path, this.#head).length === 0) {
      ftruncateSync(this.#descriptor);
      this.#size = 0;
    }
    this.#checkedAt = Date.now();
    if (this.#size === 0) this.#size += writeSync(this.#descriptor, this.#head);
  }
}

/** Nothing if the first line is not `head`: the record is of another store, or of a copy at another path. */
function linesOf(path: string, head: string): string[] {
  try {
    const text = readFileSync(path, "utf8");
    return text.startsWith(head) ? text.slice(head.length).split("\n").slice(0, -1) : [];
  } catch {
    // There is none, or it is not for this user.
    return [];
  }
}

/** Nothing for a line without the right shape: it was torn, or another program wrote it. */
function parse(line: string): Line[] {
  try {
    const parsed: unknown = JSON.parse(line);
    return isLine(parsed) ? [parsed] : [];
  } catch {
    // The line was torn.
    return [];
  }
}

function isLine(value: unknown): value is Line {
  const { at, epoch, mark, writes, items } = (value ?? {}) as Partial<Record<keyof Line, unknown>>;
  const isCount = (each: unknown): boolean => Number.isSafeInteger(each) && (each as number) >= 0;
  const hasShape = (rows: unknown, isRow: (row: unknown[]) => boolean): boolean =>
    Array.isArray(rows) && rows.every((row) => Array.isArray(row) && isRow(row));
  return (
    [at, epoch, mark].every(isCount) &&
    hasShape(writes, (row) => isTexts(row.slice(0, 2)) && row.slice(2).every(isCount) && row.length === 4) &&
    hasShape(items, (row) => isTexts(row.slice(0, 4)) && row.length === 7)
  );
}

const isTexts = (values: readonly unknown[]): boolean => values.every((each) => typeof each === "string");

const ABANDONED_MS = 90 * 86_400_000;

/** Deletes records that were not written for a while, and whose store is gone. */
function removeAbandoned(folder: string): void {
  const names = readdirSync(folder);
  // Looking at all of them each time would take long where programs make many stores.
  if (names.length % 64 !== 63) return;
  for (const name of names) {
    const path = join(folder, name);
    const age = Date.now() - (statOf(path)?.mtimeMs ?? Date.now());
    if (age < ABANDONED_MS || !/\.jsonl(\.old)?$/.test(name)) continue;
    const [head = ""] = readFileSync(path, "utf8").split("\n", 1);
    const store = /"path":("(?:[^"\\]|\\.)*")/.exec(head)?.[1];
    if (store === undefined || !statOf(JSON.parse(store) as string)) rmSync(path, { force: true });
  }
}
