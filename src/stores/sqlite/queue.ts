/**
 * All changes of one process, one after another, many to a commit.
 *
 *     submitted ──▶ waiting ──company: next turn of the event loop─────┐
 *                      │────alone for a while: at once─────────────────┼──▶ flush ──▶ answered
 *                      └────another process writes: after a short pause┘      │
 *                                                       BEGIN IMMEDIATE, every act in turn, COMMIT
 *
 * A flush takes what is waiting, up to a limit, so that concurrent callers share one fsync. One caller who has been
 * alone for a while has nobody to wait for: its acts are flushed at once. A turn of the event loop comes in between all
 * the same every few milliseconds, so that timers and sockets are not kept waiting. The file's place is looked at by the
 * first flush of a turn.
 *
 * Acts stay independent: each checks everything before it writes anything, so a refusal has nothing to undo and its
 * neighbours go on, and each sees the effects of those before it. An answer is given only after COMMIT has returned.
 *
 *   the file is locked          nothing has begun: the same flush again a little later, until `busyMs` have passed
 *   an act throws on its own    roll back, answer it alone, and flush the others again: none has been answered yet
 *   I/O error before COMMIT     roll back, poison the connection: all fail and have certainly not happened
 *   COMMIT itself fails         the same, but they may or may not be durable: `unknown`
 *   nothing was written         roll back: no fsync for refusals
 *
 * A crash anywhere before COMMIT's fsync leaves nothing of the flush, after it all; nobody was told in between.
 */

import type { MaybePromise } from "../../model/maybe-promise.ts";
import type { Seal } from "../../store.ts";
import { type Connection, isBusy } from "./driver.ts";
import { busy, isOwnFault, pauseMs, replaced, unfit } from "./failures.ts";
import type { Medium } from "./medium.ts";
import { readStoreId } from "./opening.ts";
import { RowCache } from "./row-cache.ts";
import { readSeal } from "./seal.ts";
import type { Done, Transaction } from "./transaction.ts";

const FLUSH_ACTS = 512;
/** How long to be considerate after a sign that another process writes. */
const CONTENDED_MS = 250;
/** How long an act waits for company after the last one that came from somebody else. */
const COMPANY_MS = 50;
/** The longest that flushes may follow each other without a turn of the event loop. */
const TURN_MS = 5;
const FLUSH_BYTES = 8 * 1024 * 1024;

class Act<Result = unknown> {
  readonly run: (transaction: Transaction) => Done<Result>;
  readonly bytes: number;
  readonly answered: ((result: Result) => void) | undefined;
  #answer: { readonly result: Result } | { readonly error: unknown } | undefined;
  #resolve: ((result: Result) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(run: (transaction: Transaction) => Done<Result>, { bytes, answered }: Submitted<Result>) {
    this.run = run;
    this.bytes = bytes ?? 0;
    this.answered = answered;
  }

  resolve(result: Result): void {
    if (this.#resolve) this.#resolve(result);
    else this.#answer = { result };
  }

  reject(error: unknown): void {
    if (this.#reject) this.#reject(error);
    else this.#answer = { error };
  }

  /** Asked once. A promise only for what was not flushed at once, or has failed. */
  soon(): MaybePromise<Result> {
    const answer = this.#answer;
    if (answer) return "result" in answer ? answer.result : Promise.reject(answer.error);
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }
}

interface SubmitOptions {
  /** Goes before what waits. For acts whose order among others does not matter, such as heartbeats. */
  readonly urgent?: boolean;
  /** About how much it writes, so that one flush does not block the event loop for long. */
  readonly bytes?: number;
  /** Who submits it: acts of one and the same need not wait for each other's company. */
  readonly from?: string;
}

export interface Submitted<Result> extends SubmitOptions {
  /** Told of the result, once that is durable. */
  readonly answered?: (result: Result) => void;
}

export class WriteQueue {
  readonly #medium: Medium;
  readonly #cache = new RowCache();
  readonly #urgent: Act[] = [];
  #waiting: Act[] = [];
  #isScheduled = false;
  #contendedUntil = 0;
  #from: string | undefined;
  #companyUntil = 0;
  #turnedAt = 0;
  /** Whether a flush has looked at the file's place, and the event loop has not come round since. */
  #isSameTurn = false;
  #seal: Seal | null = null;
  #lockedSince: number | null = null;
  #idle: (() => void)[] = [];

  constructor(medium: Medium) {
    this.#medium = medium;
  }

  submit<Result>(
    run: (transaction: Transaction) => Done<Result>,
    options: Submitted<Result> = {},
  ): MaybePromise<Result> {
    const act = new Act(run, options);
    if (options.urgent) this.#urgent.push(act as Act);
    else this.#waiting.push(act as Act);
    this.#schedule(options.from);
    return act.soon();
  }

  /** Resolves when everything submitted so far has been answered. */
  drained(): Promise<void> {
    if (!this.#isScheduled) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
    });
  }

  #schedule(from?: string): void {
    const now = performance.now();
    if (from !== this.#from) {
      this.#from = from;
      this.#companyUntil = now + COMPANY_MS;
    }
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // SQLite's lock knows no queue: where others write too, they get a moment in which they can find it free.
    if (now < this.#contendedUntil) setTimeout(() => this.#flush(), pauseMs());
    else if (now <= this.#companyUntil) setImmediate(this.#flushInTurn);
    else if (!this.#isSameTurn) this.#flushInTurn();
    else if (now < this.#turnedAt + TURN_MS) this.#flush("same turn");
    else setImmediate(this.#flushInTurn);
  }

  readonly #flushInTurn = (): void => {
    this.#turnedAt = performance.now();
    if (!this.#isSameTurn) {
      this.#isSameTurn = true;
      setImmediate(this.#turned);
    }
    this.#flush();
  };

  /** The event loop does not wait for anything before this, so what it brings in later is of another turn. */
  readonly #turned = (): void => {
    this.#isSameTurn = false;
  };

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

  #flush(when: "new turn" | "same turn" = "new turn"): void {
    const transaction = this.#begin(when);
    if (!transaction) return;
    this.#lockedSince = null;
    const acts = this.#take();
    try {
      const culprit = this.#run(transaction, acts);
      if (culprit) this.#waiting = [...acts.filter((act) => act !== culprit), ...this.#waiting];
    } catch (error) {
      this.#cache.clear();
      this.#fail(acts, this.#medium.poison(error, false));
    }
    this.#goOn();
  }

  /** A write transaction; or null, when that has to wait or cannot be had. */
  #begin(when: "new turn" | "same turn"): Transaction | null {
    try {
      const isSound = when === "new turn" ? this.#medium.isSound : this.#medium.isSoundStill;
      if (!isSound) {
        this.#revive();
        return null;
      }
      const { connection } = this.#medium;
      connection.run("BEGIN IMMEDIATE");
      this.#lookAround(connection);
      return { connection, cache: this.#cache, seal: this.#seal };
    } catch (error) {
      if (isBusy(error)) this.#waitForLock(error);
      else this.#failAll(this.#medium.poison(error, false));
      return null;
    }
  }

  /** Where nobody else has written, neither the store's id nor its seal has changed. */
  #lookAround(connection: Connection): void {
    const state = this.#cache.refresh(connection);
    if (state === "same") return;
    if (state === "changed") this.#contendedUntil = performance.now() + CONTENDED_MS;
    this.#seal = readSeal(connection);
    if (readStoreId(connection) === this.#medium.storeId) return;
    throw this.#medium.refuse(replaced(this.#medium.place.path, "it holds another store"));
  }

  #waitForLock(error: unknown): void {
    const now = performance.now();
    this.#contendedUntil = now + CONTENDED_MS;
    this.#lockedSince ??= now;
    const waitedMs = now - this.#lockedSince;
    const { path, busyMs } = this.#medium.place;
    if (waitedMs >= busyMs) this.#failAll(busy(path, waitedMs, error));
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
    const acts = [...this.#urgent.splice(0), ...this.#takeAll()];
    this.#fail(acts, error);
    this.#goOn();
  }

  #fail(acts: readonly Act[], error: unknown): void {
    for (const act of acts) act.reject(error);
  }

  /** Heartbeats first, then in the order of arrival. */
  #take(): Act[] {
    const acts = this.#urgent.length > 0 ? this.#urgent.splice(0) : [];
    if (acts.length === 0 && this.#waiting.length === 1) return this.#takeAll();
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

  #takeAll(): Act[] {
    const acts = this.#waiting;
    this.#waiting = [];
    return acts;
  }

  /** Runs and commits all, and answers them; or rolls back and returns the one that has to leave. */
  #run(transaction: Transaction, acts: readonly Act[]): Act | null {
    const { connection } = transaction;
    const results: unknown[] = [];
    let wrote = false;
    for (const act of acts) {
      try {
        const done = act.run(transaction);
        results.push(done.result);
        wrote ||= done.wrote;
      } catch (error) {
        if (!isOwnFault(error)) throw error;
        connection.rollback();
        this.#cache.clear();
        act.reject(unfit(this.#medium.place.path, error));
        return act;
      }
    }
    if (wrote && !this.#commit(transaction, acts)) return null;
    if (!wrote) connection.rollback();
    for (let index = 0; index < acts.length; index++) {
      const act = acts[index] as Act;
      act.answered?.(results[index]);
      act.resolve(results[index]);
    }
    return null;
  }

  #commit({ connection, seal }: Transaction, acts: readonly Act[]): boolean {
    try {
      connection.run("COMMIT");
      this.#seal = seal;
      return true;
    } catch (error) {
      this.#cache.clear();
      this.#fail(acts, this.#medium.poison(error, true));
      return false;
    }
  }
}
