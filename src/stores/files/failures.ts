/** From what the file system says to an error that names the file and tells what to do. */

import { HoldfastError } from "../../model/errors.ts";
import {
  busyError,
  type Failure,
  failureError,
  replacedError,
  systemCode,
  unstorableError,
  withUnknown,
} from "../kit/index.ts";

const FULL: Failure = {
  code: "STORE_FULL",
  what: "the disk is full",
  hint: "Free some space on this disk. The store goes on by itself once a write succeeds again.",
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
  hint: "Check the disk and the system's log. Nothing is acknowledged until a fresh handle has proven itself.",
};

const BY_CODE: Readonly<Record<string, Failure>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EROFS: READ_ONLY,
  EACCES: READ_ONLY,
  EPERM: READ_ONLY,
  ENOTDIR: { ...OTHER, hint: "Check that every part of the path is a folder." },
};

/** The lock is SQLite's, which has its own words for the same. */
const BY_SQLITE_CODE: Readonly<Record<number, Failure>> = { 8: READ_ONLY, 13: FULL };

function kindOf(cause: unknown): Failure {
  const { errcode } = (cause ?? {}) as { errcode?: unknown };
  if (typeof errcode === "number") return BY_SQLITE_CODE[errcode & 0xff] ?? OTHER;
  return BY_CODE[systemCode(cause) ?? ""] ?? OTHER;
}

/** An error of ours for whatever came out of the system. `unknown`: some of it may be durable. */
export function storeError(path: string, cause: unknown, unknown = false): HoldfastError {
  if (cause instanceof HoldfastError) return withUnknown(cause, unknown);
  return failureError({ path }, kindOf(cause), cause, {
    unknown,
    data: { system: systemCode(cause) ?? null },
  });
}

export function isFull(error: unknown): boolean {
  return kindOf(error) === FULL;
}

/** `line` counts from 1, as editors do. */
export function corrupt(path: string, line: number, what: string): HoldfastError {
  return new HoldfastError("STORE_CORRUPT", `${path}, line ${line}: ${what}`, {
    hint: "Stop all writers and keep a copy of the folder; then restore a backup, or repair that line by hand.",
    data: { path, line },
  });
}

/** `spoolFiles`: names beside it that nobody makes before there is a journal. */
export function journalGone(path: string, left: readonly string[]): HoldfastError {
  return new HoldfastError(
    "STORE_CORRUPT",
    `${path} is gone, and with it what the store held: only ${left.join(", ")} of it ${left.length > 1 ? "are" : "is"} left`,
    {
      hint: "Put the journal back, or a backup of the whole folder; nothing was changed. To begin anew, choose an empty folder.",
      data: { path, left },
    },
  );
}

export function replaced(path: string, how: string): HoldfastError {
  return replacedError({ path }, "folder", how);
}

export function busy(path: string, waitedMs: number): HoldfastError {
  const hint = "Look for a process on this folder that is stopped or very busy. Then try again.";
  return busyError({ path }, { locked: "the folder", waitedMs, hint });
}

export function cannotWrite(path: string): HoldfastError {
  return new HoldfastError("STORE_READONLY", `${path} cannot be written`, {
    hint: READ_ONLY.hint,
    data: { path },
  });
}

/** The request holds a value that cannot be stored; the requests beside it are not affected. */
export function unfit(path: string, cause: unknown): HoldfastError {
  const hint = "Check that every value is plain JSON and that no value is larger than about 200 MB.";
  return unstorableError({ path }, cause, hint);
}
