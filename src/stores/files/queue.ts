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

import { setImmediate, setTimeout } from "node:timers";
import { HoldfastError } from "../../model/errors.ts";
import { type Flusher, FlushQueue, type SubmitOptions } from "../kit/index.ts";
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

export class WriteQueue implements Flusher<Act, Flush> {
  readonly #folder: FolderConnection;
  readonly #acts: FlushQueue<Act, Flush>;
  #hadLock = false;

  constructor(folder: FolderConnection) {
    this.#folder = folder;
    this.#acts = new FlushQueue(folder, this);
  }

  submit<Result>(run: (flush: Flush) => Result, { bytes = 0, urgent }: SubmitOptions = {}): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#acts.add({ run, bytes, resolve, reject } as Act, urgent);
    });
  }

  drained(): Promise<void> {
    return this.#acts.drained();
  }

  schedule(): void {
    this.#letOthersGoFirst(performance.now());
  }

  /** Otherwise a process that just had the lock would nearly always get it again before those that wait. */
  #letOthersGoFirst(since: number): void {
    const isPatient = this.#hadLock && performance.now() - since < COURTESY_MS;
    if (isPatient && this.#folder.isAwaited) setTimeout(() => this.#letOthersGoFirst(since), 1);
    else setImmediate(() => this.#acts.flush());
  }

  begin(): Flush | "locked" | "unsound" {
    if (!this.#folder.isSound) return "unsound";
    const flush = this.#folder.begin();
    if (flush) return flush;
    this.#folder.setWaiting();
    this.#hadLock = false;
    return "locked";
  }

  busy(waitedMs: number): Error {
    return busy(this.#folder.options.path, waitedMs);
  }

  run(flush: Flush, acts: readonly Act[], hasWaited: boolean): void {
    this.#hadLock = true;
    let hasBegun = false;
    try {
      if (hasWaited) this.#folder.clearWaiting();
      const answers = this.#runAll(flush, acts);
      this.#folder.end(flush, () => {
        hasBegun = true;
      });
      for (const answer of answers) answer();
    } catch (error) {
      this.#folder.release();
      const poisoned = this.#folder.poison(error, hasBegun);
      for (const act of acts) act.reject(poisoned);
    }
  }

  /** Runs all, and returns how each is answered once the flush is durable. */
  #runAll(flush: Flush, acts: readonly Act[]): (() => void)[] {
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
