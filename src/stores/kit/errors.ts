/** Errors that every store throws, in the same words. */

import { type ErrorCode, HoldfastError } from "../../model/errors.ts";
import { sealedStore } from "../../model/stream/index.ts";
import type { Seal } from "../../store.ts";

/** The store as its errors name it, and their `data`: `{ path: "/srv/store.db" }`. */
export type Where = { readonly path: string } | { readonly address: string };

export const nameOf = (where: Where): string => ("path" in where ? where.path : where.address);

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** A kind of failure below the store, such as a full disk. */
export interface Failure {
  readonly code: ErrorCode;
  readonly what: string;
  readonly hint: string;
}

/** `message`: the message of the cause, if it is not `cause.message`. */
export function failureError(
  where: Where,
  { code, what, hint }: Failure,
  cause: unknown,
  detail: { unknown: boolean; data?: Readonly<Record<string, unknown>>; message?: string },
): HoldfastError {
  const { unknown, message = messageOf(cause) } = detail;
  const data = { ...where, ...detail.data };
  return new HoldfastError(code, `${nameOf(where)}: ${what} (${message})`, { hint, cause, unknown, data });
}

/** The same error, saying whether the act may have become durable. */
export function withUnknown(error: HoldfastError, unknown: boolean): HoldfastError {
  if (error.unknown === unknown) return error;
  const { code, message, hint, data } = error;
  return new HoldfastError(code, message, { hint, cause: error, unknown, data });
}

/** `locked`: the thing that is locked, as in "the file". */
export function busyError(
  where: Where,
  { locked, waitedMs, hint, cause }: { locked: string; waitedMs: number; hint: string; cause?: unknown },
): HoldfastError {
  const message = `${nameOf(where)}: other processes have locked ${locked} for ${Math.round(waitedMs)} ms`;
  return new HoldfastError("STORE_BUSY", message, { hint, cause, data: { ...where, waitedMs } });
}

/** `thing`: the file, folder or database that was exchanged. `how`: what shows it. */
export function replacedError(where: Where, thing: string, how: string, cause?: unknown): HoldfastError {
  const message = `${nameOf(where)}: this is no longer the store that was opened: ${how}`;
  return new HoldfastError("STORE_REPLACED", message, {
    hint: `Stop all writers, find out which ${thing} is the right one, put it in place and start again.`,
    cause,
    data: where,
  });
}

export function closedError(where: Where): HoldfastError {
  return new HoldfastError("STORE_CLOSED", `${nameOf(where)}: the store was closed`, {
    hint: "Open it again, or close it later than its last use.",
    data: where,
  });
}

export function readOnlyError(
  where: Where,
  hint = "Nothing was written. Open it to write, on a disk and with permissions that allow it.",
): HoldfastError {
  const message = `${nameOf(where)}: the store is open for reading only`;
  return new HoldfastError("STORE_READONLY", message, { hint, data: where });
}

export function notFoundError(where: Where): HoldfastError {
  return new HoldfastError("STORE_NOT_FOUND", `${nameOf(where)}: there is no store`, {
    hint: "Check the path, or open it without `mustExist` and `readOnly` to create it.",
    data: where,
  });
}

export function foreignError(where: Where, why: string): HoldfastError {
  return new HoldfastError("STORE_FOREIGN", `${nameOf(where)} is not a Holdfast store: ${why}`, {
    hint: "Choose another path. Nothing was changed.",
    data: where,
  });
}

export function tooNewError(where: Where, format: number, known: number): HoldfastError {
  const limit = `this version of Holdfast knows formats up to ${known}`;
  const details = { hint: "Update Holdfast. Nothing was changed.", data: { ...where, format, known } };
  return new HoldfastError("STORE_TOO_NEW", `${nameOf(where)} has format ${format}; ${limit}`, details);
}

/** The store cannot hold a value of this request; the requests beside it are not affected. */
export function unstorableError(
  where: Where,
  cause: unknown,
  hint: string,
  message = messageOf(cause),
): HoldfastError {
  if (cause instanceof HoldfastError) return cause;
  const text = `${nameOf(where)}: the store cannot keep this (${message})`;
  return new HoldfastError("BATCH_INVALID", text, { hint, cause });
}

/** Throws while the seal of a move forbids writes. `kind`: how the store's address begins, as in `sqlite`. */
export function refuseSealed(path: string, kind: string, seal: Seal | null | undefined): void {
  if (!seal || seal.phase === "arrived") return;
  const { phase, other } = seal;
  throw sealedStore(`${path}: this store`, `${kind} ${path}`, { phase, other }, { data: { path } });
}
