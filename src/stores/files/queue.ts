/**
 * All writes of one process, one after another, many to a sync.
 *
 *     submitted ──▶ waiting ──next turn of the event loop──▶ flush: lock, every act, commit ──▶ answered
 *
 * A flush takes the waiting acts, up to a limit, so that concurrent callers share one sync. Acts stay
 * independent. Each checks everything before it changes anything, so a refusal has nothing to undo and the
 * acts beside it go on. Each sees the effects of those before it. Answers are given only after the commit has
 * returned.
 *
 *     the folder is locked          nothing has begun: the same flush again later, until `busyMs` have passed
 *     an act is refused or invalid  it gets its own answer; nothing of it is in memory or in a line
 *     an error before the write     the handle is poisoned: all fail and have certainly not happened
 *     an error from there on        the same, but they may or may not be durable: `unknown`
 *     nothing to write              no sync for refusals and heartbeats
 */

import { HoldfastError } from "../../model/errors.ts";
import { lockPauseMs, PendingActs } from "../kit/index.ts";
import type { Flush } from "./append.ts";
import { busy, unstorable } from "./disk.ts";
import type { FolderConnection } from "./folder-connection.ts";

/** How long other processes may go first at most, once they have said that they wait. */
const COURTESY_MS = 15;

interface Act<Result = unknown> {
  readonly run: (flush: Flush) => Result;
  readonly bytes: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

export interface SubmitOptions {
  /** Goes before acts that wait. For acts whose order among others does not matter, such as heartbeats. */
  readonly urgent?: boolean;
  /** About how much it writes, so that one flush does not block the event loop for long. */
  readonly bytes?: number;
}

export class WriteQueue {
  readonly #folder: FolderConnection;
  readonly #pending = new PendingActs<Act>();
  #isScheduled = false;
  #hadLock = false;
  #lockedSince: number | null = null;

  constructor(folder: FolderConnection) {
    this.#folder = folder;
  }

  submit<Result>(run: (flush: Flush) => Result, options: SubmitOptions = {}): Promise<Result> {
    return new Promise((resolve, reject) => {
      const act = { run, bytes: options.bytes ?? 0, resolve, reject } as Act;
      this.#pending.add(act, options.urgent);
      this.#schedule();
    });
  }

  /** Resolves when everything submitted so far has been answered. */
  drained(): Promise<void> {
    return this.#isScheduled ? this.#pending.idle() : Promise.resolve();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#letOthersGoFirst(performance.now());
  }

  /**
   * A process that has just had the lock would nearly always find it free again before those that wait for
   * it.
   */
  #letOthersGoFirst(since: number): void {
    const isPatient = this.#hadLock && performance.now() - since < COURTESY_MS;
    if (isPatient && this.#folder.isAwaited) setTimeout(() => this.#letOthersGoFirst(since), 1);
    else setImmediate(() => this.#flush());
  }

  #flushEnded(): void {
    this.#isScheduled = false;
    if (this.#pending.isEmpty) this.#pending.becameIdle();
    else this.#schedule();
  }

  #flush(): void {
    const flush = this.#begin();
    if (!flush) return;
    const hasWaited = this.#lockedSince !== null;
    this.#lockedSince = null;
    this.#hadLock = true;
    const acts = this.#pending.takeFlush();
    let hasBegun = false;
    try {
      if (hasWaited) this.#folder.clearWaiting();
      const answers = this.#run(flush, acts);
      this.#folder.end(flush, () => {
        hasBegun = true;
      });
      for (const answer of answers) answer();
    } catch (error) {
      this.#folder.release();
      this.#fail(acts, this.#folder.poison(error, hasBegun));
    }
    this.#flushEnded();
  }

  /** Takes the lock, with memory up to date. Null if it has to wait, or failed. */
  #begin(): Flush | null {
    try {
      if (!this.#folder.isSound) {
        this.#revive();
        return null;
      }
      const flush = this.#folder.begin();
      if (!flush) {
        this.#folder.setWaiting();
        this.#waitForLock();
      }
      return flush;
    } catch (error) {
      this.#failAll(this.#folder.poison(error, false));
      return null;
    }
  }

  #waitForLock(): void {
    const now = performance.now();
    this.#hadLock = false;
    this.#lockedSince ??= now;
    const waitedMs = now - this.#lockedSince;
    const { path, busyMs } = this.#folder.options;
    if (waitedMs >= busyMs) this.#failAll(busy(path, waitedMs));
    else setTimeout(() => this.#flush(), lockPauseMs());
  }

  #revive(): void {
    this.#folder.ready().then(
      () => this.#flush(),
      (error: unknown) => this.#failAll(error),
    );
  }

  #failAll(error: unknown): void {
    this.#lockedSince = null;
    this.#fail(this.#pending.takeAll(), error);
    this.#flushEnded();
  }

  #fail(acts: readonly Act[], error: unknown): void {
    for (const act of acts) act.reject(error);
  }

  /** Runs all, and returns how each is answered once the flush is durable. */
  #run(flush: Flush, acts: readonly Act[]): (() => void)[] {
    return acts.map((act) => {
      try {
        const result = act.run(flush);
        return () => act.resolve(result);
      } catch (error) {
        if (!isOwnFault(error)) throw error;
        return () => act.reject(unstorable(this.#folder.options.path, error));
      }
    });
  }
}

/** A single act caused the error. An error of the system is no act's own. */
function isOwnFault(error: unknown): boolean {
  return error instanceof HoldfastError || error instanceof TypeError || error instanceof RangeError;
}
