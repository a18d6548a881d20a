/**
 * From a path to a handle that may be trusted.
 *
 *   nothing there ──make the folder──┐
 *   empty, or a start that a crash ──┤
 *   left unfinished                  ├──▶ lock file ──▶ lock ──▶ first journal, if there is none ──▶ read ──▶ settle ──▶ use
 *   ours ──look at the first line────┘
 *   foreign, newer, damaged, the journal gone from what it has left ──▶ refused, nothing written
 *
 * What a crash leaves: an empty folder, or one with only a lock and a half-written journal, which the next opener
 * finishes; a half-written file beside its place, which the next opener throws away. The journal gets its name, durably,
 * only when its first line is synced, and everything else comes later. Two processes may do all this at once: from the
 * lock on, one after the other.
 *
 * What a backup leaves that was put back over a later folder: snapshots of events that the journal does not have. They go
 * under the lock, before this handle appends any.
 */

import { readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { v7 as uuid } from "uuid";
import { HoldfastError } from "../../model/errors.ts";
import {
  foreignError,
  isWritable,
  notFoundError,
  refuseNetworkDisk,
  statOf,
  syncFolder,
} from "../kit/index.ts";
import { settle } from "./append.ts";
import { makeFolder, replaceFile, TEMPORARY } from "./disk.ts";
import { cannotWrite, journalGone, replaced, storeError } from "./failures.ts";
import { firstLine, JournalFile } from "./journal-file.ts";
import { FolderLock, patiently } from "./lock.ts";
import { OpenedFolder, type Paths, type Place, pathsIn } from "./opened-folder.ts";
import { sweepSnapshots } from "./snapshots.ts";
import type { Touched } from "./state.ts";

export interface Creation {
  readonly mustExist: boolean;
  readonly allowNetworkDisk: boolean;
}

/** Opens for the first time, and creates what is not there. */
export async function openFirst(place: Place, creation: Creation, touched: Touched): Promise<OpenedFolder> {
  const { folder, readOnly } = place;
  const paths = pathsIn(folder);
  try {
    if (!creation.allowNetworkDisk) refuseNetworkDisk(paths.journal);
    const stats = statOf(folder);
    if (stats && !stats.isDirectory()) throw foreignError({ path: folder }, "it is not a folder");
    const isMade = statOf(paths.journal) !== undefined;
    if (!isMade && (creation.mustExist || readOnly)) throw notFoundError({ path: folder });
    if (!stats) makeFolder(folder);
    else if (!readOnly && !isAllWritable(paths)) throw cannotWrite(folder);
    refuseForeign(paths, isMade);
    return await openFolder(place, touched, null);
  } catch (error) {
    throw storeError(folder, error);
  }
}

function isAllWritable(paths: Paths): boolean {
  const files = [paths.journal, paths.live, paths.lock].filter((path) => statOf(path));
  return [paths.folder, ...files].every(isWritable);
}

/**
 * Looks without writing. A folder with anything of somebody else's in it, and no journal, is not for us; one with what
 * comes after the journal has lost it. The journal is looked for once more behind all names: somebody else may just make
 * the store.
 */
function refuseForeign(paths: Paths, isMade: boolean): void {
  const names = isMade ? [] : readdirSync(paths.folder);
  if (isMade || statOf(paths.journal)) {
    JournalFile.open(paths.journal, true).close();
    return;
  }
  const later = [paths.live, paths.artifacts, paths.snapshots].map((path) => basename(path));
  const begun = [
    basename(paths.lock),
    `${basename(paths.lock)}-journal`,
    `${basename(paths.journal)}${TEMPORARY}`,
  ];
  const other = names.find((name) => !begun.includes(name) && !later.includes(name));
  if (other !== undefined)
    throw foreignError({ path: paths.folder }, `it holds ${JSON.stringify(other)} and no journal`);
  const left = names.filter((name) => later.includes(name));
  if (left.length > 0) throw journalGone(paths.journal, left);
}

/** A fresh handle. `store`: which store it has to be, when this is not the first time. */
export async function openFolder(
  place: Place,
  touched: Touched,
  store: string | null,
): Promise<OpenedFolder> {
  return place.readOnly ? openForReading(place, touched, store) : openForWriting(place, touched, store);
}

function openForReading(place: Place, touched: Touched, store: string | null): OpenedFolder {
  const opened = new OpenedFolder(place, null, touched);
  try {
    checkStore(opened, store);
    opened.catchUp();
    return opened;
  } catch (error) {
    opened.close();
    throw error;
  }
}

async function openForWriting(place: Place, touched: Touched, store: string | null): Promise<OpenedFolder> {
  const paths = pathsIn(place.folder);
  if (store !== null && !statOf(paths.lock)) throw replaced(paths.lock, "it is gone");
  const lock = await FolderLock.open(paths.lock, place.busyMs).catch((error: unknown) => {
    throw lockError(paths.lock, error);
  });
  let opened: OpenedFolder | null = null;
  try {
    if (statOf(paths.journal)) {
      // Most of it can be read while others write; only the rest needs the lock.
      opened = new OpenedFolder(place, lock, touched);
      checkStore(opened, store);
      opened.catchUp();
    } else if (store !== null) throw replaced(paths.journal, "it is gone");
    await patiently(place.folder, place.busyMs, () => lock.take());
    if (!statOf(paths.journal)) createJournal(paths);
    opened ??= new OpenedFolder(place, lock, touched);
    settle(opened);
    sweep(paths);
    sweepSnapshots(opened);
    lock.release();
    return opened;
  } catch (error) {
    opened?.close();
    await lock.close();
    throw error;
  }
}

function checkStore({ journal }: OpenedFolder, store: string | null): void {
  if (store === null || journal.store === store) return;
  throw replaced(journal.path, "it is the journal of another store");
}

function createJournal(paths: Paths): void {
  replaceFile(paths.journal, firstLine(uuid(), 1));
  syncFolder(paths.folder);
}

/** Under the lock nobody else is just writing one of these. */
function sweep(paths: Paths): void {
  for (const name of readdirSync(paths.folder)) {
    if (name.endsWith(TEMPORARY)) rmSync(join(paths.folder, name), { force: true });
  }
}

const NOT_A_DATABASE = /not a database|malformed/;

/** The lock's file holds nothing, so a damaged one can go; but not while anybody may still hold the old one. */
function lockError(path: string, error: unknown): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error) || !NOT_A_DATABASE.test(error.message)) {
    return error;
  }
  return new HoldfastError("STORE_CORRUPT", `${path}: the file of the lock is damaged (${error.message})`, {
    hint: "Stop all processes that use this folder, then delete that file: it holds nothing and is made again.",
    cause: error,
    data: { path },
  });
}
