/** Turns errors of SQLite into errors that name the file and say what to do. */

import { HoldfastError } from "../../model/errors.ts";
import {
  busyError,
  type Failure,
  failureError,
  replacedError,
  retryUntil,
  unstorableError,
  withUnknown,
} from "../kit/index.ts";
import { CODE, isBusy, resultCode } from "./driver.ts";

const BY_PRIMARY: Readonly<Record<number, Failure>> = {
  [CODE.FULL]: {
    code: "STORE_FULL",
    what: "the disk is full",
    hint: "Free some space on this disk. The store recovers with the next write that succeeds.",
  },
  [CODE.READONLY]: {
    code: "STORE_READONLY",
    what: "the file cannot be written",
    hint:
      "Check the permissions of the file and its folder and how the disk is mounted. " +
      "It can still be read (in code: `readOnly: true`).",
  },
  [CODE.CORRUPT]: {
    code: "STORE_CORRUPT",
    what: "the file is damaged",
    hint:
      "Stop all writers, keep a copy of the file with its -wal, " +
      "then restore a backup or try `sqlite3 FILE .recover`.",
  },
  [CODE.NOTADB]: {
    code: "STORE_CORRUPT",
    what: "the file is not an SQLite database, or its beginning is damaged",
    hint: "Check the path. If it is the right file, restore it from a backup; Holdfast has not changed it.",
  },
  [CODE.CANTOPEN]: {
    code: "STORE_IO",
    what: "the file or one beside it cannot be opened",
    hint: "Check that its folder exists and that this user may read and write there.",
  },
};

const OTHER: Failure = {
  code: "STORE_IO",
  what: "reading or writing failed",
  hint:
    "Check the disk and the system's log. " +
    "Nothing is acknowledged until a fresh connection has proven itself.",
};

const UNREADABLE: Failure = {
  code: "STORE_CORRUPT",
  what: "it holds a value that JavaScript cannot read",
  hint:
    "Another program wrote it. Correct it with an SQLite shell, or restore a backup; " +
    "nothing else is affected.",
};

/** `unknown`: the error came from COMMIT, so the write may be durable. */
export function storeError(path: string, cause: unknown, unknown = false): HoldfastError {
  if (cause instanceof HoldfastError) return withUnknown(cause, unknown);
  const code = resultCode(cause);
  if (code?.extended === CODE.READONLY_DBMOVED) return replaced(path, "it was moved or deleted", cause);
  const failure = isUnreadable(cause) ? UNREADABLE : ((code && BY_PRIMARY[code.primary]) ?? OTHER);
  return failureError({ path }, failure, cause, { unknown, data: { sqlite: code?.extended ?? null } });
}

/** The driver could not convert a value that SQLite has read. The connection itself is sound. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof RangeError && (error as NodeJS.ErrnoException).code === "ERR_OUT_OF_RANGE";
}

export function busy(path: string, waitedMs: number, cause: unknown): HoldfastError {
  const hint = "Look for a process that holds a transaction open, such as an SQLite shell. Then try again.";
  return busyError({ path }, { locked: "the file", waitedMs, hint, cause });
}

/** For an act that needs the file for itself. */
export function inUse(path: string, cause: unknown): HoldfastError {
  const why = "another process, or another handle of this one, has the file open";
  return new HoldfastError("STORE_BUSY", `${path} is in use: ${why}`, {
    hint: "Stop every program that has it open, then try again. Nothing was changed.",
    cause,
    data: { path },
  });
}

export function replaced(path: string, how: string, cause?: unknown): HoldfastError {
  return replacedError({ path }, "file", how, cause);
}

/** A single act caused the error, such as a value that does not fit. The acts beside it are not affected. */
export function isOwnFault(error: unknown): boolean {
  if (error instanceof HoldfastError) return true;
  const code = resultCode(error);
  if (!code) return error instanceof TypeError || error instanceof RangeError;
  const own: readonly number[] = [CODE.TOOBIG, CODE.CONSTRAINT, CODE.MISMATCH, CODE.RANGE];
  return own.includes(code.primary);
}

export function unstorable(path: string, cause: unknown): HoldfastError {
  const hint = "Check that numbers are whole and not negative, and that no value is larger than 1 GB.";
  return unstorableError({ path }, cause, hint);
}

/** Repeats `act` while it meets a lock. SQLite's own wait is short, because it blocks the event loop. */
export async function retryWhileLocked<Result>(
  path: string,
  busyMs: number,
  act: () => Result | Promise<Result>,
): Promise<Result> {
  let result: Result | undefined;
  let cause: unknown;
  const attempt = async (): Promise<boolean> => {
    try {
      result = await act();
      return true;
    } catch (error) {
      if (!isBusy(error)) throw error;
      cause = error;
      return false;
    }
  };
  await retryUntil(attempt, busyMs, (waitedMs) => busy(path, waitedMs, cause));
  return result as Result;
}
