/**
 * Acts that wait for the one writer of a file or folder. A flush takes as many as fit its limits, so that
 * concurrent callers share one sync. While the lock is busy, the same flush is tried again.
 */

import { setTimeout } from "node:timers";
import { lockPauseMs } from "./shared-file.ts";

const FLUSH_ACTS = 512;
/** About how much one flush writes at most, so that it does not block the event loop for long. */
const FLUSH_BYTES = 8 * 1024 * 1024;

export interface SubmitOptions {
  /** Goes before acts that wait. For acts whose order among others does not matter, such as heartbeats. */
  readonly urgent?: boolean;
  /** About how much it writes. */
  readonly bytes?: number;
}

interface QueuedAct {
  readonly bytes: number;
  reject(error: unknown): void;
}

interface Handle {
  readonly options: { readonly busyMs: number };
  ready(): Promise<void>;
  poison(cause: unknown, unknown: boolean): Error;
}

/** How one store flushes, and when. */
export interface Flusher<Act, Transaction> {
  /** Calls `flush` once, now or later. `isRest`: acts were left over from the flush before. */
  schedule(isRest: boolean): void;
  /** Takes the lock. `unsound`: the handle must be reopened first. A throw fails all acts that wait. */
  begin(isSameTurn: boolean): Transaction | "locked" | "unsound";
  /** Runs the acts, and answers each of them whatever happens. */
  run(transaction: Transaction, acts: readonly Act[], hasWaited: boolean): void;
  busy(waitedMs: number): Error;
}

export class FlushQueue<Act extends QueuedAct, Transaction extends object> {
  readonly #handle: Handle;
  readonly #flusher: Flusher<Act, Transaction>;
  readonly #urgent: Act[] = [];
  #waiting: Act[] = [];
  #idle: (() => void)[] = [];
  #isScheduled = false;
  #lockedSince: number | null = null;

  constructor(handle: Handle, flusher: Flusher<Act, Transaction>) {
    this.#handle = handle;
    this.#flusher = flusher;
  }

  add(act: Act, isUrgent = false): void {
    if (isUrgent) this.#urgent.push(act);
    else this.#waiting.push(act);
    this.#schedule(false);
  }

  putBack(acts: readonly Act[]): void {
    this.#waiting = [...acts, ...this.#waiting];
  }

  /** Resolves when everything submitted so far has been answered. */
  async drained(): Promise<void> {
    if (this.#isScheduled) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** `isSameTurn`: the handle was checked in this turn of the event loop. */
  flush(isSameTurn = false): void {
    let begun: Transaction | "locked" | "unsound";
    try {
      begun = this.#flusher.begin(isSameTurn);
    } catch (error) {
      this.#failAll(this.#handle.poison(error, false));
      return;
    }
    if (begun === "locked") this.#waitForLock();
    else if (begun === "unsound") this.#revive();
    else {
      const hasWaited = this.#lockedSince !== null;
      this.#lockedSince = null;
      this.#flusher.run(begun, this.#takeFlush(), hasWaited);
      this.#flushEnded();
    }
  }

  #schedule(isRest: boolean): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#flusher.schedule(isRest);
  }

  #flushEnded(): void {
    this.#isScheduled = false;
    if (this.#urgent.length > 0 || this.#waiting.length > 0) this.#schedule(true);
    else if (this.#idle.length > 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #waitForLock(): void {
    const now = performance.now();
    this.#lockedSince ??= now;
    const waitedMs = now - this.#lockedSince;
    if (waitedMs >= this.#handle.options.busyMs) this.#failAll(this.#flusher.busy(waitedMs));
    else setTimeout(() => this.flush(), lockPauseMs());
  }

  #revive(): void {
    this.#handle.ready().then(
      () => this.flush(),
      (error: unknown) => this.#failAll(error),
    );
  }

  #failAll(error: unknown): void {
    this.#lockedSince = null;
    const acts = [...this.#urgent.splice(0), ...this.#waiting.splice(0)];
    for (const act of acts) act.reject(error);
    this.#flushEnded();
  }

  /** All urgent acts, and of the others as many as fit. */
  #takeFlush(): Act[] {
    const acts = this.#urgent.length > 0 ? this.#urgent.splice(0) : [];
    let bytes = 0;
    let count = 0;
    for (const act of this.#waiting) {
      bytes += act.bytes;
      if (count > 0 && (count >= FLUSH_ACTS || bytes > FLUSH_BYTES)) break;
      count += 1;
    }
    if (acts.length === 0 && count === this.#waiting.length) {
      const all = this.#waiting;
      this.#waiting = [];
      return all;
    }
    acts.push(...this.#waiting.splice(0, count));
    return acts;
  }
}
