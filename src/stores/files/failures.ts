/** From what the file system says to an error that names the file and tells what to do. */

import { type ErrorCode, HoldfastError } from "../../model/errors.ts";
import { systemCode } from "./disk.ts";

interface Kind {
  readonly code: ErrorCode;
  readonly what: string;
  readonly hint: string;
}

const FULL: Kind = {
  code: "STORE_FULL",
  what: "the disk is full",
  hint: "Free some space on this disk. The store goes on by itself once a write succeeds again.",
};

const READ_ONLY: Kind = {
  code: "STORE_READONLY",
  what: "the folder cannot be written",
  hint: "Check the permissions of the folder and its files and how the disk is mounted. It can still be looked at (in code: `readOnly: true`).",
};

const OTHER: Kind = {
  code: "STORE_IO",
  what: "reading or writing failed",
  hint: "Check the disk and the system's log. Nothing is acknowledged until a fresh handle has proven itself.",
};

const BY_CODE: Readonly<Record<string, Kind>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EROFS: READ_ONLY,
  EACCES: READ_ONLY,
  EPERM: READ_ONLY,
  ENOTDIR: { ...OTHER, hint: "Check that every part of the path is a folder." },
};

/** The lock is SQLite's, which has its own words for the same. */
const BY_SQLITE_CODE: Readonly<Record<number, Kind>> = { 8: READ_ONLY, 13: FULL };

function kindOf(cause: unknown): Kind {
  const { errcode } = (cause ?? {}) as { errcode?: unknown };
  if (typeof errcode === "number") return BY_SQLITE_CODE[errcode & 0xff] ?? OTHER;
  return BY_CODE[systemCode(cause) ?? ""] ?? OTHER;
}

/** An error of ours for whatever came out of the system. `unknown`: some of it may be durable. */
export function storeError(path: string, cause: unknown, unknown = false): HoldfastError {
  if (cause instanceof HoldfastError && cause.unknown === unknown) return cause;
  if (cause instanceof HoldfastError) {
    const { code, message, hint, data } = cause;
    return new HoldfastError(code, message, { hint, cause, unknown, data });
  }
  const kind = kindOf(cause);
  const said = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(kind.code, `${path}: ${kind.what} (${said})`, {
    hint: kind.hint,
    cause,
    unknown,
    data: { path, system: systemCode(cause) ?? null },
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
  return new HoldfastError("STORE_REPLACED", `${path}: this is no longer the store that was opened: ${how}`, {
    hint: "Stop all writers, find out which folder is the right one, put it in place and start again.",
    data: { path },
  });
}

export function busy(path: string, waitedMs: number): HoldfastError {
  return new HoldfastError(
    "STORE_BUSY",
    `${path}: others have kept the folder locked for ${Math.round(waitedMs)} ms`,
    {
      hint: "Look for a process on this folder that is stopped or very busy. Then try again.",
      data: { path, waitedMs },
    },
  );
}

export function closed(path: string): HoldfastError {
  return new HoldfastError("STORE_CLOSED", `${path}: the store was closed`, {
    hint: "Open it again, or close it later than its last use.",
    data: { path },
  });
}

export function readOnly(path: string): HoldfastError {
  return new HoldfastError("STORE_READONLY", `${path}: the store is open for reading only`, {
    hint: "Nothing was written. Open it to write, on a disk and with permissions that allow it.",
    data: { path },
  });
}

export function cannotWrite(path: string): HoldfastError {
  return new HoldfastError("STORE_READONLY", `${path} cannot be written`, {
    hint: READ_ONLY.hint,
    data: { path },
  });
}

export function notFound(path: string): HoldfastError {
  return new HoldfastError("STORE_NOT_FOUND", `${path}: there is no store`, {
    hint: "Check the path, or open it without `mustExist` and `readOnly` to create it.",
    data: { path },
  });
}

export function foreign(path: string, why: string): HoldfastError {
  return new HoldfastError("STORE_FOREIGN", `${path} is not a Holdfast store: ${why}`, {
    hint: "Choose another path. Nothing was changed.",
    data: { path },
  });
}

export function tooNew(path: string, format: number, known: number): HoldfastError {
  return new HoldfastError(
    "STORE_TOO_NEW",
    `${path} has format ${format}; this version of Holdfast knows formats up to ${known}`,
    { hint: "Update Holdfast. Nothing was changed.", data: { path, format, known } },
  );
}

/** What a single request got wrong; its neighbours are not to blame. */
export function unfit(path: string, cause: unknown): HoldfastError {
  if (cause instanceof HoldfastError) return cause;
  const said = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError("BATCH_INVALID", `${path}: the store cannot keep this (${said})`, {
    hint: "Check that every value is plain JSON and that no value is larger than about 200 MB.",
    cause,
  });
}
