/**
 * An open folder: its lock, its journal, the live file, and the state that the journal amounts to. It is a
 * handle that can be thrown away: after an I/O error the next one reads everything anew.
 *
 *     journal.jsonl    truth: one line per batch, for all streams
 *     live.jsonl       how far the journal is durable, and when leases expire; never synced
 *     lock.db          the lock for writers
 *     open.db          a shared lock of each handle that may write, for as long as it is open
 *     artifacts/       bytes by their hash, in a folder for each namespace
 *     snapshots/       cached folds, in a folder for each stream
 *     unnamed.new      an artifact or snapshot on its way to its name; a crash leaves it here
 */

import { closeSync, constants, fstatSync, fsyncSync, openSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Clock, FileIdentity, FileOptions } from "../kit/index.ts";
import { identityOf, isSameFile, statOf, systemCode, UNKNOWN_BOOT } from "../kit/index.ts";
import { readUpTo, replaced, TEMPORARY, writeAll } from "./disk.ts";
import { JournalFile } from "./journal-file.ts";
import type { FolderLock } from "./lock.ts";
import { State, type StreamChanged } from "./state.ts";

export interface FolderOptions extends FileOptions {
  /** The journal is compacted when this many of its bytes, and half of it, are dead. */
  readonly wasteBytes: number;
  readonly clock: Clock;
}

export type Paths = Readonly<ReturnType<typeof pathsIn>>;

export function pathsIn(folder: string) {
  return {
    folder,
    journal: join(folder, "journal.jsonl"),
    live: join(folder, "live.jsonl"),
    lock: join(folder, "lock.db"),
    open: join(folder, "open.db"),
    artifacts: join(folder, "artifacts"),
    snapshots: join(folder, "snapshots"),
    unnamed: join(folder, `unnamed${TEMPORARY}`),
  };
}

export class OpenFolder {
  readonly options: FolderOptions;
  readonly paths: Paths;
  /** Null for a reader, which needs none. */
  readonly lock: FolderLock | null;
  /** Folders that this handle has synced. */
  readonly synced = new Set<string>();
  readonly #changed: StreamChanged;
  #live: LiveFile | null;
  #journal: JournalFile;
  #state: State;

  constructor(options: FolderOptions, lock: FolderLock | null, changed: StreamChanged) {
    this.options = options;
    this.paths = pathsIn(options.path);
    this.lock = lock;
    this.#changed = changed;
    this.#journal = JournalFile.open(this.paths.journal, options.readOnly);
    this.#state = this.#newState();
    this.#live = this.#openLive();
  }

  get journal(): JournalFile {
    return this.#journal;
  }

  get state(): State {
    return this.#state;
  }

  get live(): LiveFile | null {
    return this.#live;
  }

  #mark(): Mark | null {
    const mark = this.#live?.mark();
    return mark?.store === this.#journal.store && mark.journal === this.#journal.number ? mark : null;
  }

  /** Whether a mark is certain to have been written since the machine was booted. */
  #isOfThisBoot(mark: Mark | null): boolean {
    const { boot } = this.options.clock;
    return mark?.boot === boot && boot !== UNKNOWN_BOOT;
  }

  setMark(): void {
    const { store, number, end } = this.#journal;
    this.#live?.setMark({ store, journal: number, end, boot: this.options.clock.boot });
  }

  /** Grows with every line: compaction begins a journal with the next number. */
  get mark(): number {
    return this.#journal.number * 2 ** 32 + this.#journal.lines;
  }

  get isWasteful(): boolean {
    const { deadBytes } = this.#state;
    return deadBytes > this.options.wasteBytes && deadBytes > this.#journal.end / 2;
  }

  /** Reads the lines that others have made durable since. Needs no lock: it stops at the mark it returns. */
  catchUp(): Mark | null {
    if (!this.#journal.isInPlace()) this.#follow();
    if (this.#live?.isInPlace() !== true) {
      this.#live?.close();
      this.#live = this.#openLive();
    }
    const mark = this.#mark();
    if (mark && mark.end > this.#journal.end) {
      for (const line of this.#journal.read(mark.end)) this.#state.apply(line, this.#journal);
    }
    // A mark of another boot may be an old one. After a power cut all that is left is on the disk; a reader
    // skips a torn tail.
    if (this.options.readOnly && !this.#isOfThisBoot(mark)) this.readTail();
    return mark;
  }

  /** Reads every good line behind the mark. Only under the lock may a writer build on them. */
  readTail(): void {
    for (const line of this.#journal.readTail()) this.#state.apply(line, this.#journal);
  }

  /** A compacted journal is now in the old one's place. */
  adopt(journal: JournalFile, state: State): void {
    this.#journal.close();
    this.#journal = journal;
    this.#state = state;
  }

  load(journal: JournalFile, upTo: number): State {
    const state = this.#newState();
    for (const line of journal.read(upTo)) state.apply(line, journal);
    return state;
  }

  close(): void {
    this.#live?.close();
    this.#live = null;
    this.#journal.close();
  }

  /** Another journal is in the place of ours. It must be the next one of the same store. */
  #follow(): void {
    const next = this.#openNext();
    try {
      if (next.store !== this.#journal.store) throw replaced(next.path, "it is the journal of another store");
      if (next.number <= this.#journal.number) throw replaced(next.path, "it is an older or another copy");
      const mark = this.#live?.mark();
      const isMarked = mark?.store === next.store && mark.journal === next.number;
      // No writer appends to a journal without a mark, and a compacted one is synced before it gets its name.
      const state = this.load(next, isMarked ? mark.end : next.size);
      if (!this.#state.isContinuedBy(state)) throw replaced(next.path, "it lacks what was read before");
      this.adopt(next, state);
    } catch (error) {
      if (next !== this.#journal) next.close();
      throw error;
    }
  }

  #openNext(): JournalFile {
    try {
      return JournalFile.open(this.paths.journal, this.options.readOnly);
    } catch (error) {
      if (systemCode(error) !== "ENOENT") throw error;
      throw replaced(this.paths.journal, "it is gone");
    }
  }

  #openLive(): LiveFile | null {
    const { live } = this.paths;
    return this.options.readOnly ? LiveFile.openForReading(live) : LiveFile.open(live);
  }

  #newState(): State {
    return new State(this.options.clock, this.#changed);
  }
}

interface Mark {
  readonly store: string;
  readonly journal: number;
  readonly end: number;
  readonly boot: string;
}

/** When a lease expires, as its holder wrote it by its own clock. */
interface LiveExpiry {
  readonly token: number;
  readonly deadline: number;
  readonly ttlMs: number;
  readonly boot: string;
}

const MARK_BYTES = 256;
const WAITER_BYTES = 128;
const ROWS_AT = MARK_BYTES + WAITER_BYTES;
const ROW_BYTES = 192;
/** How long the entry of a waiting process counts. By the wall clock: a wrong one costs some courtesy. */
const WAITING_MS = 50;
/** A reader may meet a mark that is half written. */
const TRIES = 5;

/**
 * The live file: the processes of this machine tell each other, without syncing, how far the journal is
 * durable, who waits for the lock, and when each lease expires.
 *
 *     {"crc":"…","store":"…","journal":3,"end":81734,"boot":"…"}           the mark, 256 bytes
 *     {"crc":"…","waiter":"…","at":1731700000000}                          who waits, 128 bytes
 *     {"crc":"…","slot":0,"token":4,"deadline":5531200,"ttlMs":30000, …}   a row for each lease, 192 bytes
 *
 * The mark is written after each sync of the journal and before any caller is answered. So everything before
 * it was synced, whenever it is read; and within one boot everything acknowledged is before it. Readers stop
 * there: lines that they have seen cannot be lost. After a power cut the mark may be an old one, so a writer
 * also judges the bytes behind it.
 *
 * Heartbeats must be visible but not durable, since no holder survives a boot: a renewal is one small write
 * here. Tokens are in the journal only. A row counts while it carries its lease's token; without a valid row
 * the time of the grant counts.
 *
 * The lock has no queue, so a process that does not get it says so here, and one that has just had it lets
 * others go first. It is only a hint.
 *
 * Losing this file ends leases early, which fencing makes harmless, and loses nothing else.
 */
class LiveFile {
  readonly #path: string;
  readonly #descriptor: number;
  readonly #identity: FileIdentity;

  private constructor(path: string, descriptor: number) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#identity = identityOf(fstatSync(descriptor));
  }

  static open(path: string): LiveFile {
    return new LiveFile(path, openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600));
  }

  /** Null if there is none, which a reader can do without. */
  static openForReading(path: string): LiveFile | null {
    return statOf(path) ? new LiveFile(path, openSync(path, "r")) : null;
  }

  isInPlace(): boolean {
    return isSameFile(this.#identity, statOf(this.#path));
  }

  mark(): Mark | null {
    for (let tries = 0; tries < TRIES; tries++) {
      const mark = decode<Mark>(readUpTo(this.#descriptor, 0, MARK_BYTES));
      if (mark) return mark;
    }
    return null;
  }

  setMark(mark: Mark): void {
    writeAll(this.#descriptor, encode(mark, MARK_BYTES), 0);
  }

  #waiting(): { readonly waiter: string; readonly at: number } | null {
    return decode(readUpTo(this.#descriptor, MARK_BYTES, WAITER_BYTES));
  }

  /** Whether any process but this one waits for the lock. */
  isAwaited(but: string): boolean {
    const waiting = this.#waiting();
    return waiting !== null && waiting.waiter !== but && Date.now() - waiting.at < WAITING_MS;
  }

  setWaiting(waiter: string, at = Date.now()): void {
    writeAll(this.#descriptor, encode({ waiter, at }, WAITER_BYTES), MARK_BYTES);
  }

  clearWaiting(waiter: string): void {
    if (this.#waiting()?.waiter === waiter) this.setWaiting(waiter, 0);
  }

  expiry(slot: number): LiveExpiry | null {
    const bytes = readUpTo(this.#descriptor, ROWS_AT + slot * ROW_BYTES, ROW_BYTES);
    const row = decode<LiveExpiry & { slot: number }>(bytes);
    return row?.slot === slot ? row : null;
  }

  setExpiry(slot: number, { token, deadline, ttlMs, boot }: LiveExpiry): void {
    const row = encode({ slot, token, deadline, ttlMs, boot }, ROW_BYTES);
    writeAll(this.#descriptor, row, ROWS_AT + slot * ROW_BYTES);
  }

  /** Called by a clean end, so that the file does not depend on when the system writes it. */
  sync(): void {
    fsyncSync(this.#descriptor);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

const BODY_AT = '{"crc":"00000000",'.length;

function encode(value: object, width: number): Buffer {
  const body = JSON.stringify(value).slice(1);
  const crc = crc32(body).toString(16).padStart(8, "0");
  const line = `{"crc":"${crc}",${body}`;
  if (Buffer.byteLength(line) >= width) throw new RangeError(`${line} does not fit into ${width} bytes`);
  return Buffer.from(`${line.padEnd(width - 1)}\n`);
}

function decode<Value>(bytes: Buffer): Value | null {
  const line = bytes.toString("latin1").trimEnd();
  const crc = /^\{"crc":"([0-9a-f]{8})",/.exec(line)?.[1];
  if (crc === undefined || crc32(line.slice(BODY_AT)) !== Number.parseInt(crc, 16)) return null;
  return JSON.parse(line) as Value;
}
