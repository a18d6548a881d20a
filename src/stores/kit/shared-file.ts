/** Parts of a store whose file or folder several processes write: locks, and recovery after I/O errors. */

import { relative, resolve } from "node:path";
import { setTimeout } from "node:timers";
import type { HoldfastError } from "../../model/errors.ts";
import type { Clock } from "./clock.ts";

/** Options of a store in a file or folder. */
export interface DiskStoreOptions {
  readonly path: string;
  readonly readOnly?: boolean;
  /** Fail if there is no store, instead of creating one. */
  readonly mustExist?: boolean;
  /** How long to wait for a lock of another process before giving up. 30 s by default. */
  readonly busyMs?: number;
  readonly allowNetworkDisk?: boolean;
  /** Opens a store although it is older than it was, so that `acceptRewind` can be called. */
  readonly despiteRewind?: boolean;
  /** The clock that leases run by. The machine's uptime by default. */
  readonly clock?: Clock;
}

export type FileOptions = Required<Pick<DiskStoreOptions, "path" | "readOnly" | "busyMs">>;
export type CreateOptions = Required<Pick<DiskStoreOptions, "mustExist" | "allowNetworkDisk">>;

export function diskStoreOptions(options: DiskStoreOptions) {
  const { readOnly = false, busyMs = 30_000, mustExist = false, allowNetworkDisk = false } = options;
  const file: FileOptions = { path: resolve(options.path), readOnly, busyMs };
  return { file, creation: { mustExist, allowNetworkDisk } };
}

/** Relative to the working directory, if the path is below it. */
export function nearestPath(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith("..") ? path : near;
}

/** How long SQLite may wait for a lock by itself. It blocks the event loop meanwhile. */
export const BUSY_TIMEOUT_MS = 4;

/** Between two attempts to take a lock. Random, so that two processes do not retry in step for ever. */
export function lockPauseMs(): number {
  return 1 + Math.random() * 3;
}

/** Calls `attempt` until it returns true, with the event loop free in between. Gives up after `busyMs`. */
export async function retryUntil(
  attempt: () => boolean | Promise<boolean>,
  busyMs: number,
  gaveUp: (waitedMs: number) => Error,
): Promise<void> {
  let since: number | undefined;
  while (!(await attempt())) {
    since ??= performance.now();
    const waitedMs = performance.now() - since;
    if (waitedMs >= busyMs) throw gaveUp(waitedMs);
    await new Promise((resolve) => setTimeout(resolve, lockPauseMs()));
  }
}

/**
 * Whether a handle may be used.
 *
 *     sound ──I/O error──▶ poisoned ──next use: reopened and proven──▶ sound
 *       │                     └──cannot be proven──▶ poisoned, and the caller gets the error
 *       └──another file in its place, or another store in the file──▶ refused, for good (I12)
 *
 * Nothing is acknowledged while poisoned (I13).
 */
export class HandleState {
  #isPoisoned = false;
  #refusal: Error | null = null;
  #reopening: Promise<void> | null = null;

  /** False while the handle must be reopened before its next use. Throws once refused. */
  get isSound(): boolean {
    if (this.#refusal) throw this.#refusal;
    return !this.#isPoisoned;
  }

  get isPoisoned(): boolean {
    return this.#isPoisoned;
  }

  get isUsable(): boolean {
    return !this.#isPoisoned && !this.#refusal;
  }

  /** Every later use fails with this error, or with the first that was given. */
  refuse(error: Error): Error {
    this.#refusal ??= error;
    return this.#refusal;
  }

  poison(error: HoldfastError): Error {
    this.#isPoisoned = true;
    if (error.code === "STORE_REPLACED") this.refuse(error);
    return error;
  }

  /** Shared by all who wait. `open` resolves when the new handle has proven that it can write durably. */
  reopen(open: () => Promise<void>, toError: (cause: unknown) => HoldfastError): Promise<void> {
    this.#reopening ??= this.#reopenOnce(open, toError).finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  async #reopenOnce(open: () => Promise<void>, toError: (cause: unknown) => HoldfastError): Promise<void> {
    try {
      await open();
      this.#isPoisoned = false;
    } catch (cause) {
      const error = toError(cause);
      throw error.code === "STORE_REPLACED" ? this.refuse(error) : error;
    }
  }

  /** Refuses every later use, and waits for a reopening that is under way. */
  async close(error: Error): Promise<void> {
    this.refuse(error);
    await this.#reopening?.catch(() => undefined);
  }
}
