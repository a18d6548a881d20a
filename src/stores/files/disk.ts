/**
 * Operations on files, and errors of the file system as errors that name the folder and say what to do. All
 * of it is synchronous: between taking the lock and answering, no other code of this process may run.
 */

import { closeSync, fsyncSync, mkdirSync, openSync, readSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { HoldfastError } from "../../model/errors.ts";
import {
  busyError,
  type Failure,
  failureError,
  replacedError,
  statOf,
  systemCode,
  unstorableError,
  withUnknown,
} from "../kit/index.ts";

/**
 * `mkdir -p`, one by one: Node's own recursion reports a disk that cannot be written as a missing path. The
 * caller makes the names durable.
 */
export function makeFolder(folder: string): void {
  if (statOf(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
}

const CHUNK_BYTES = 1024 * 1024;

export function writeAll(descriptor: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done);
  }
}

/** The bytes of a range; fewer where the file ends. */
export function readUpTo(descriptor: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const got = readSync(descriptor, bytes, done, length - done, position + done);
    if (got === 0) break;
    done += got;
  }
  return bytes.subarray(0, done);
}

export const TEMPORARY = ".new";

/**
 * Leaves a whole new file or the old one, never a torn one, and no temporary file if it does not fit. The
 * caller syncs the folder, which makes the name durable: it may have several files for one folder.
 */
export function replaceFile(path: string, bytes: Uint8Array, temporary = `${path}${TEMPORARY}`): void {
  const descriptor = openSync(temporary, "w", 0o600);
  try {
    try {
      writeAll(descriptor, bytes, 0);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** False also if the file cannot be read: writing it anew reports the reason. */
export function holdsBytes(path: string, bytes: Uint8Array): boolean {
  if (statOf(path)?.size !== bytes.length) return false;
  try {
    const descriptor = openSync(path, "r");
    try {
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
        const wanted = bytes.subarray(at, at + CHUNK_BYTES);
        if (!readUpTo(descriptor, at, wanted.length).equals(wanted)) return false;
      }
      return true;
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return false;
  }
}

const ZEROS = Buffer.alloc(CHUNK_BYTES);

/** Erases the bytes of a file, as far as the file system overwrites in place. */
export function overwriteWithZeros(descriptor: number, size: number): void {
  for (let at = 0; at < size; at += ZEROS.length) {
    writeAll(descriptor, ZEROS.subarray(0, Math.min(ZEROS.length, size - at)), at);
  }
  fsyncSync(descriptor);
}

export function overwriteFileWithZeros(path: string): void {
  const descriptor = openSync(path, "r+");
  try {
    overwriteWithZeros(descriptor, statOf(path)?.size ?? 0);
  } finally {
    closeSync(descriptor);
  }
}

const FULL: Failure = {
  code: "STORE_FULL",
  what: "the disk is full",
  hint: "Free some space on this disk. The store recovers with the next write that succeeds.",
};

const READ_ONLY: Failure = {
  code: "STORE_READONLY",
  what: "the folder cannot be written",
  hint:
    "Check the permissions of the folder and its files and how the disk is mounted. " +
    "It can still be read (in code: `readOnly: true`).",
};

const OTHER: Failure = {
  code: "STORE_IO",
  what: "reading or writing failed",
  hint:
    "Check the disk and the system's log. " +
    "Nothing is acknowledged until a fresh handle has proven itself.",
};

const BY_CODE: Readonly<Record<string, Failure>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EROFS: READ_ONLY,
  EACCES: READ_ONLY,
  EPERM: READ_ONLY,
  ENOTDIR: { ...OTHER, hint: "Check that every part of the path is a folder." },
};

/** The lock is an SQLite file, so some errors carry SQLite's codes. */
const BY_SQLITE_CODE: Readonly<Record<number, Failure>> = { 8: READ_ONLY, 13: FULL };

function failureOf(cause: unknown): Failure {
  const { errcode } = (cause ?? {}) as { errcode?: unknown };
  if (typeof errcode === "number") return BY_SQLITE_CODE[errcode & 0xff] ?? OTHER;
  return BY_CODE[systemCode(cause) ?? ""] ?? OTHER;
}

/** `unknown`: some of the write may be durable. */
export function storeError(path: string, cause: unknown, unknown = false): HoldfastError {
  if (cause instanceof HoldfastError) return withUnknown(cause, unknown);
  const data = { system: systemCode(cause) ?? null };
  return failureError({ path }, failureOf(cause), cause, { unknown, data });
}

export function isFull(error: unknown): boolean {
  return failureOf(error) === FULL;
}

/** `line` counts from 1, as editors do. */
export function corrupt(path: string, line: number, what: string): HoldfastError {
  return new HoldfastError("STORE_CORRUPT", `${path}, line ${line}: ${what}`, {
    hint:
      "Stop all writers and keep a copy of the folder; " +
      "then restore a backup, or repair that line by hand.",
    data: { path, line },
  });
}

/** `left`: names in the folder that only exist after the journal does. */
export function journalGone(path: string, left: readonly string[]): HoldfastError {
  const rest = `only ${left.join(", ")} of it ${left.length > 1 ? "are" : "is"} left`;
  return new HoldfastError("STORE_CORRUPT", `${path} is gone, and with it the store's contents: ${rest}`, {
    hint:
      "Put the journal back, or a backup of the whole folder; nothing was changed. " +
      "To begin anew, choose an empty folder.",
    data: { path, left },
  });
}

export function replaced(path: string, how: string): HoldfastError {
  return replacedError({ path }, "folder", how);
}

export function busy(path: string, waitedMs: number): HoldfastError {
  const hint = "Look for a process on this folder that is stopped or very busy. Then try again.";
  return busyError({ path }, { locked: "the folder", waitedMs, hint });
}

export function cannotWrite(path: string): HoldfastError {
  const { hint } = READ_ONLY;
  return new HoldfastError("STORE_READONLY", `${path} cannot be written`, { hint, data: { path } });
}

/** The request holds a value that cannot be stored; the requests beside it are not affected. */
export function unstorable(path: string, cause: unknown): HoldfastError {
  const hint = "Check that every value is plain JSON and that no value is larger than about 200 MB.";
  return unstorableError({ path }, cause, hint);
}
