/**
 * All changes of one process, one after another, many to a sync.
 *
 *     submitted ──▶ waiting ──next turn of the event loop──▶ flush: lock, every act in turn, commit ──▶ answered
 *
 * A flush takes what is waiting, up to a limit, so that concurrent callers share one sync. Acts stay independent: each
 * asks every question before it changes anything, so a refusal has nothing to undo and its neighbours go on, and each
 * sees the effects of those before it. An answer is given only after the commit has returned.
 *
 *   the folder is locked        nothing has begun: the same flush again a little later, until `busyMs` have passed
 *   an act is refused or unfit  it is answered alone; nothing of it is in memory or in a line
 *   an error before the write   the handle is poisoned: all fail and have certainly not happened
 *   an error from there on      the same, but they may or may not be durable: `unknown`
 *   nothing to write            no sync for refusals and heartbeats
 */

import { HoldfastError } from "../../model/errors.ts";
import type { Turn } from "./append.ts";
import { busy, unfit } from "./failures.ts";
import { pauseMs } from "./lock.ts";
import type { Medium } from "./medium.ts";

const FLUSH_ACTS = 512;
const FLUSH_BYTES = 8 * 1024 * 1024;
/** How long others may go first at most, once they have said that they wait. */
const COURTESY_MS = 15;

interface Act<Result = unknown> {
  readonly run: (turn: Turn) => Result;
  readonly bytes: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

export interface SubmitOptions {
  /** Goes before what waits. For acts whose order among others does not matter, such as heartbeats. */
  readonly urgent?: boolean;
  /** About how much it writes, so that one flush does not block the event loop for long. */
  readonly bytes?: number;
}

export class WriteQueue {
  readonly #medium: Medium;
  readonly #urgent: Act[] = [];
  #waiting: Act[] = [];
  #isScheduled = false;
  #hadLock = false;
  #lockedSince: number | null = null;
  #idle: (() => void)[] = [];

  constructor(medium: Medium) {
    this.#medium = medium;
  }

  submit<Result>(run: (turn: Turn) => Result, options: SubmitOptions = {}): Promise<Result> {
    return new Promise((resolve, reject) => {
      const act = { run, bytes: options.bytes ?? 0, resolve, reject } as Act;
      if (options.urgent) this.#urgent.push(act);
      else this.#waiting.push(act);
      this.#schedule();
    });
  }

  /** Resolves when everything submitted so far has been answered. */
  drained(): Promise<void> {
    if (!this.#isScheduled) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#letOthersGoFirst(performance.now());
  }

  /** Whoever has just had the lock would nearly always find it free again before those who wait for it. */
  #letOthersGoFirst(since: number): void {
    const isPatient = this.#hadLock && performance.now() - since < COURTESY_MS;
    if (isPatient && this.#medium.isAwaited) setTimeout(() => this.#letOthersGoFirst(since), 1);
    else setImmediate(() => this.#flush());
  }

  /** What to do next, once a flush has ended one way or the other. */
  #goOn(): void {
    this.#isScheduled = false;
    if (this.#urgent.length > 0 || this.#waiting.length > 0) {
      this.#schedule();
      return;
    }
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  #flush(): void {
    const turn = this.#begin();
    if (!turn) return;
    const hasWaited = this.#lockedSince !== null;
    this.#lockedSince = null;
    this.#hadLock = true;
    const acts = this.#take();
    let hasBegun = false;
    try {
      if (hasWaited) this.#medium.clearWaiting();
      const answers = this.#run(turn, acts);
      this.#medium.end(turn, () => {
        hasBegun = true;
      });
      for (const answer of answers) answer();
    } catch (error) {
      this.#medium.release();
      this.#fail(acts, this.#medium.poison(error, hasBegun));
    }
    this.#goOn();
  }

  /** The lock, and memory as the journal says; or null, when that has to wait or cannot be had. */
  #begin(): Turn | null {
    try {
      if (!this.#medium.isSound) {
        this.#revive();
        return null;
      }
      const turn = this.#medium.begin();
      if (!turn) {
        this.#medium.setWaiting();
        this.#waitForLock();
      }
      return turn;
    } catch (error) {
      this.#failAll(this.#medium.poison(error, false));
      return null;
    }
  }

  #waitForLock(): void {
    const now = performance.now();
    this.#hadLock = false;
    this.#lockedSince ??= now;
    const waitedMs = now - this.#lockedSince;
    const { folder, busyMs } = this.#medium.place;
    if (waitedMs >= busyMs) this.#failAll(busy(folder, waitedMs));
    else setTimeout(() => this.#flush(), pauseMs());
  }

  #revive(): void {
    this.#medium.ready().then(
      () => this.#flush(),
      (error: unknown) => this.#failAll(error),
    );
  }

  #failAll(error: unknown): void {
    this.#lockedSince = null;
    const acts = [...this.#urgent.splice(0), ...this.#waiting];
    this.#waiting = [];
    this.#fail(acts, error);
    this.#goOn();
  }

  #fail(acts: readonly Act[], error: unknown): void {
    for (const act of acts) act.reject(error);
  }

  /** Heartbeats first, then in the order of arrival. */
  #take(): Act[] {
    const acts = this.#urgent.splice(0);
    let bytes = 0;
    let count = 0;
    for (const act of this.#waiting) {
      bytes += act.bytes;
      if (count > 0 && (count >= FLUSH_ACTS || bytes > FLUSH_BYTES)) break;
      count += 1;
    }
    acts.push(...this.#waiting.slice(0, count));
    this.#waiting = this.#waiting.slice(count);
    return acts;
  }

  /** Runs all, and returns how each is answered once the turn is durable. */
  #run(turn: Turn, acts: readonly Act[]): (() => void)[] {
    return acts.map((act) => {
      try {
        const result = act.run(turn);
        return () => act.resolve(result);
      } catch (error) {
        if (!isOwnFault(error)) throw error;
        return () => act.reject(unfit(this.#medium.place.folder, error));
      }
    });
  }
}

/** What a single request got wrong. An error of the system is nobody's own. */
function isOwnFault(error: unknown): boolean {
  return error instanceof HoldfastError || error instanceof TypeError || error instanceof RangeError;
}
