/**
 * The folder through one handle, which is replaced after an I/O error (`HandleState` in the kit has the
 * states). A fresh handle has proven itself once the tail was judged and a line was synced.
 *
 * From a path to a handle:
 *
 *     nothing there ──make the folder──┐
 *     empty, or left by a crash at ────┤
 *     the start                        ├─▶ lock file ─▶ lock ─▶ journal, if none ─▶ read ─▶ settle ─▶ use
 *     ours ──look at the first line────┘
 *     foreign, newer, damaged, or without its journal ──▶ refused, nothing written
 *
 * A crash leaves an empty folder, or only a lock and a half-written journal: the next opener finishes them.
 * Or it leaves a half-written file beside its place, which the next opener deletes. The journal gets its
 * name, durably, only when its first line is synced, and everything else comes later. Two processes may do
 * all this at once: from the lock on, one after the other.
 *
 * A backup that was put back over a later folder leaves snapshots of events that the journal does not have.
 * They are deleted under the lock, before this handle appends any.
 */

import { randomUUID } from "node:crypto";
import { readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import {
  type CreateOptions,
  closedError,
  foreignError,
  HandleState,
  isWritable,
  notFoundError,
  type RewindRecord,
  refuseNetworkDisk,
  statOf,
  syncFolder,
  syncNames,
} from "../kit/index.ts";
import { commit, Flush, settle } from "./append.ts";
import { sweepSnapshots } from "./blobs.ts";
import { compact, compactAndErase, compactIfRoom } from "./compaction.ts";
import {
  cannotWrite,
  journalGone,
  makeFolder,
  replaced,
  replaceFile,
  storeError,
  TEMPORARY,
} from "./disk.ts";
import { firstLine, JournalFile } from "./journal-file.ts";
import { FolderLock, retryUntilLocked } from "./lock.ts";
import { type FolderOptions, OpenFolder, type Paths, pathsIn } from "./open-folder.ts";
import type { State, StreamChanged } from "./state.ts";

/** How often a reader that meets a compacted journal starts again. */
const TRIES = 5;

export class FolderConnection {
  readonly options: FolderOptions;
  readonly record: RewindRecord;
  readonly #changed: StreamChanged;
  readonly #handle = new HandleState();
  #folder: OpenFolder;
  readonly #store: string;
  /** Tells this handle from others that wait for the lock. */
  readonly #name = randomUUID();
  #closedFolder: OpenFolder | null = null;
  /** After a compaction that did not fit the disk, none is tried before this many bytes are dead. */
  #compactAgainAt = 0;

  constructor(folder: OpenFolder, record: RewindRecord, changed: StreamChanged) {
    this.options = folder.options;
    this.record = record;
    this.#folder = folder;
    this.#store = folder.journal.store;
    this.#changed = changed;
  }

  /** Whether the folder can be used at once, or `ready` must be awaited first. Throws once refused. */
  get isSound(): boolean {
    return this.#handle.isSound;
  }

  get isAwaited(): boolean {
    if (!this.#handle.isUsable) return false;
    try {
      return this.#folder.live?.isAwaited(this.#name) === true;
    } catch {
      // A courtesy only. The next holder of the lock reads the same file and reports the error.
      return false;
    }
  }

  setWaiting(): void {
    this.#folder.live?.setWaiting(this.#name);
  }

  clearWaiting(): void {
    this.#folder.live?.clearWaiting(this.#name);
  }

  begin(): Flush | null {
    const { lock } = this.#folder;
    if (!lock?.take()) return null;
    try {
      settle(this.#folder);
      return new Flush(this.#folder);
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** Makes the flush durable and releases the lock. `begun`: from here on it may have happened. */
  end(flush: Flush, begun: () => void): void {
    try {
      commit(flush, begun);
      if (flush.mustErase) compactAndErase(this.#folder);
      else if (flush.mustCompact) compact(this.#folder);
      else if (this.#folder.isWasteful) this.#compact();
      if (flush.lines.length > 0) this.#note(flush);
    } finally {
      this.release();
    }
  }

  #note({ appended }: Flush): void {
    const { mark } = this.#folder;
    for (const { batch, heads } of appended) this.record.noteAppend(mark, batch, heads);
    if (appended.length === 0) this.record.noteMark(mark);
  }

  release(): void {
    this.#folder.lock?.release();
  }

  #compact(): void {
    const { deadBytes } = this.#folder.state;
    if (deadBytes < this.#compactAgainAt) return;
    if (!compactIfRoom(this.#folder)) this.#compactAgainAt = deadBytes * 2;
  }

  /** After an error this handle acknowledges nothing more. Returns the error to hand out. */
  poison(cause: unknown, unknown: boolean): Error {
    return this.#handle.poison(storeError(this.options.path, cause, unknown));
  }

  async ready(): Promise<void> {
    if (this.isSound) return;
    await this.#handle.reopen(
      async () => {
        await this.#closeFolder();
        this.#folder = await openHandle(this.options, this.#changed, this.#store);
        if (!this.options.readOnly) await this.#prove();
      },
      (cause) => storeError(this.options.path, cause),
    );
  }

  async #prove(): Promise<void> {
    let flush: Flush | null = null;
    await retryUntilLocked(this.options.path, this.options.busyMs, () => {
      flush = this.begin();
      return flush !== null;
    });
    const begun = flush as unknown as Flush;
    begun.addLine({ do: "proof" });
    this.end(begun, () => undefined);
  }

  /** Reads memory, up to date with everything that others have made durable. */
  async read<Result>(act: (state: State, folder: OpenFolder) => Result): Promise<Result> {
    for (let tries = 1; ; tries++) {
      if (!this.isSound) await this.ready();
      const folder = this.#folder;
      const { journal } = folder;
      try {
        folder.catchUp();
        const result = act(folder.state, folder);
        // A journal that was erased meanwhile may have been read as zeros.
        if (folder.journal.isInPlace() || tries >= TRIES) return result;
      } catch (error) {
        if (tries < TRIES && isHoldfastError(error, "STORE_CORRUPT") && !journal.isInPlace()) continue;
        if (error instanceof HoldfastError && !poisons(error)) throw error;
        throw this.poison(error, false);
      }
    }
  }

  async close(): Promise<void> {
    await this.#handle.close(closedError({ path: this.options.path }));
    if (!this.#handle.isPoisoned && !this.options.readOnly) syncMark(this.#folder);
    this.record.close();
    await this.#closeFolder();
  }

  /** Closes the present handle once, however often it is called. */
  async #closeFolder(): Promise<void> {
    const folder = this.#folder;
    if (this.#closedFolder === folder) return;
    this.#closedFolder = folder;
    folder.close();
    await folder.lock?.close();
  }
}

/** A mark that survives a power cut tells a torn tail from damage. The store can do without. */
function syncMark({ live }: OpenFolder): void {
  try {
    live?.sync();
  } catch {
    // Everything acknowledged is synced in the journal; the next opener reads on behind an older mark.
  }
}

function poisons({ code }: HoldfastError): boolean {
  return code === "STORE_REPLACED" || code === "STORE_CORRUPT" || code === "STORE_IO";
}

/** Opens for the first time, and creates the folder and the journal if there are none. */
export async function openFirst(
  options: FolderOptions,
  { mustExist, allowNetworkDisk }: CreateOptions,
  changed: StreamChanged,
): Promise<OpenFolder> {
  const { path, readOnly } = options;
  const paths = pathsIn(path);
  try {
    if (!allowNetworkDisk) refuseNetworkDisk(paths.journal);
    const stats = statOf(path);
    if (stats && !stats.isDirectory()) throw foreignError({ path }, "it is not a folder");
    const hasJournal = statOf(paths.journal) !== undefined;
    if (!hasJournal && (mustExist || readOnly)) throw notFoundError({ path });
    if (!stats) makeFolder(path);
    else if (!readOnly && !areAllWritable(paths)) throw cannotWrite(path);
    refuseForeign(paths, hasJournal);
    if (!hasJournal) syncNames(path);
    return await openHandle(options, changed, null);
  } catch (error) {
    throw storeError(path, error);
  }
}

function areAllWritable(paths: Paths): boolean {
  const files = [paths.journal, paths.live, paths.lock, paths.open].filter((path) => statOf(path));
  return [paths.folder, ...files].every(isWritable);
}

/**
 * Looks without writing. Refuses a folder that has foreign files and no journal, and one that has lost its
 * journal. Another process may be creating the store, so the journal is looked for once more after all names.
 */
function refuseForeign(paths: Paths, hasJournal: boolean): void {
  const names = hasJournal ? [] : readdirSync(paths.folder);
  if (hasJournal || statOf(paths.journal)) {
    JournalFile.open(paths.journal, true).close();
    return;
  }
  const afterJournal = [paths.live, paths.artifacts, paths.snapshots].map((path) => basename(path));
  const [lock, use, journal] = [paths.lock, paths.open, paths.journal].map((path) => basename(path));
  const beforeJournal = [lock, `${lock}-journal`, use, `${use}-journal`, `${journal}${TEMPORARY}`];
  const other = names.find((name) => !beforeJournal.includes(name) && !afterJournal.includes(name));
  if (other !== undefined) {
    throw foreignError({ path: paths.folder }, `it holds ${JSON.stringify(other)} and no journal`);
  }
  const left = names.filter((name) => afterJournal.includes(name));
  if (left.length > 0) throw journalGone(paths.journal, left);
}

function openForReading(options: FolderOptions, changed: StreamChanged, store: string | null): OpenFolder {
  const opened = new OpenFolder(options, null, changed);
  try {
    checkStore(opened, store);
    opened.catchUp();
    return opened;
  } catch (error) {
    opened.close();
    throw error;
  }
}

/** Opens a fresh handle. `store`: the id that the store must have, unless this is the first time. */
async function openHandle(
  options: FolderOptions,
  changed: StreamChanged,
  store: string | null,
): Promise<OpenFolder> {
  if (options.readOnly) return openForReading(options, changed, store);
  const paths = pathsIn(options.path);
  if (store !== null && !statOf(paths.lock)) throw replaced(paths.lock, "it is gone");
  const lock = await FolderLock.open(paths.lock, paths.open, options.busyMs).catch((error: unknown) => {
    throw lockError(paths.lock, error);
  });
  let opened: OpenFolder | null = null;
  try {
    if (statOf(paths.journal)) {
      // Most of it can be read while others write; only the rest needs the lock.
      opened = new OpenFolder(options, lock, changed);
      checkStore(opened, store);
      opened.catchUp();
    } else if (store !== null) throw replaced(paths.journal, "it is gone");
    await retryUntilLocked(options.path, options.busyMs, () => lock.take());
    if (!statOf(paths.journal)) {
      replaceFile(paths.journal, firstLine(randomUUID(), 1));
      syncFolder(paths.folder);
    }
    opened ??= new OpenFolder(options, lock, changed);
    settle(opened);
    // Under the lock no other process is writing a temporary file.
    for (const name of readdirSync(paths.folder)) {
      if (name.endsWith(TEMPORARY)) rmSync(join(paths.folder, name), { force: true });
    }
    sweepSnapshots(opened);
    lock.release();
    return opened;
  } catch (error) {
    opened?.close();
    await lock.close();
    throw error;
  }
}

function checkStore({ journal }: OpenFolder, store: string | null): void {
  if (store === null || journal.store === store) return;
  throw replaced(journal.path, "it is the journal of another store");
}

const NOT_A_DATABASE = /not a database|malformed/;

/** A damaged lock file can be deleted, since it holds no data; but not while a process may still hold it. */
function lockError(path: string, error: unknown): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error) || !NOT_A_DATABASE.test(error.message)) {
    return error;
  }
  return new HoldfastError("STORE_CORRUPT", `${path}: the file of the lock is damaged (${error.message})`, {
    hint: "Stop all processes that use this folder, then delete that file: it has no data and is made again.",
    cause: error,
    data: { path },
  });
}
