/**
 * All writes of one process, one after another, many to a commit.
 *
 *     submitted ──▶ waiting ──others write too: next turn of the event loop──┐
 *                      │──────alone for a while: at once─────────────────────┼──▶ flush ──▶ answered
 *                      └──────another process writes: after a short pause────┘      │
 *                                                       BEGIN IMMEDIATE, every act in turn, COMMIT
 *
 * A flush takes the waiting acts, up to a limit, so that concurrent callers share one fsync. A caller that
 * has been alone for a while gains nothing by waiting: its acts are flushed at once. Every few milliseconds
 * a turn of the event loop comes in between all the same, so that timers and sockets are served. The first
 * flush of a turn checks that the file is still in place.
 *
 * Acts stay independent. Each checks everything before it writes anything, so a refusal has nothing to undo
 * and the acts beside it go on. Each sees the effects of those before it. Answers are given only after
 * COMMIT has returned.
 *
 *     the file is locked         nothing has begun: the same flush again later, until `busyMs` have passed
 *     an act throws on its own   roll back, reject it alone, flush the others again: none has an answer yet
 *     I/O error before COMMIT    roll back, poison the connection: all fail and have certainly not happened
 *     COMMIT itself fails        the same, but they may or may not be durable: `unknown`
 *     nothing was written        roll back: no fsync for refusals
 *
 * A crash before COMMIT's fsync leaves nothing of the flush; after it, all. No caller was answered in
 * between.
 */

import { setImmediate, setTimeout } from "node:timers";
import type { MaybePromise } from "../../model/maybe-promise.ts";
import type { Seal } from "../../store.ts";
import { type Clock, type Flusher, FlushQueue, lockPauseMs, type SubmitOptions } from "../kit/index.ts";
import { type Connection, isBusy } from "./driver.ts";
import { busy, isOwnFault, replaced, unstorable } from "./failures.ts";
import type { FileConnection } from "./file-connection.ts";
import { readMark, readSeal, readStoreId } from "./opening.ts";
import { type ActResult, RowCache, type Transaction } from "./rows.ts";

/** How long to pause between flushes after a sign that another process writes. */
const CONTENDED_MS = 250;
/** How long acts are grouped after the last one of another submitter. */
const GROUPING_MS = 50;
/** The longest that flushes may follow each other without a turn of the event loop. */
const TURN_MS = 5;

export interface WriteOptions<Result> extends SubmitOptions {
  /** Names the submitter. Acts of a single submitter are not grouped with those of others. */
  readonly from?: string;
  readonly answered?: (result: Result) => void;
}

class Act<Result = unknown> {
  readonly run: (transaction: Transaction) => ActResult<Result>;
  readonly bytes: number;
  readonly answered: ((result: Result) => void) | undefined;
  #answer: { readonly result: Result } | { readonly error: unknown } | undefined;
  #resolve: ((result: Result) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(run: (transaction: Transaction) => ActResult<Result>, options: WriteOptions<Result>) {
    this.run = run;
    this.bytes = options.bytes ?? 0;
    this.answered = options.answered;
  }

  resolve(result: Result): void {
    if (this.#resolve) this.#resolve(result);
    else this.#answer = { result };
  }

  reject(error: unknown): void {
    if (this.#reject) this.#reject(error);
    else this.#answer = { error };
  }

  /** Called once. The plain result if the act was flushed at once, else a promise. */
  answer(): MaybePromise<Result> {
    const answer = this.#answer;
    if (answer) return "result" in answer ? answer.result : Promise.reject(answer.error);
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }
}

export class WriteQueue implements Flusher<Act, Transaction> {
  readonly #file: FileConnection;
  readonly #clock: Clock;
  readonly #cache = new RowCache();
  readonly #acts: FlushQueue<Act, Transaction>;
  #contendedUntil = 0;
  #lastFrom: string | undefined;
  #groupingUntil = 0;
  #turnBeganAt = 0;
  /** A flush has checked the file's place, and the event loop has not turned since. */
  #isSameTurn = false;
  #seal: Seal | null = null;
  #mark = 0;
  readonly #marked: (mark: number) => void;
  #lockError: unknown;

  /** `marked` is called after a commit that raised the mark. */
  constructor(file: FileConnection, clock: Clock, marked: (mark: number) => void) {
    this.#file = file;
    this.#clock = clock;
    this.#marked = marked;
    this.#acts = new FlushQueue(file, this);
  }

  /** The mark as of the last commit. */
  get mark(): number {
    return this.#mark;
  }

  submit<Result>(
    run: (transaction: Transaction) => ActResult<Result>,
    options: WriteOptions<Result> = {},
  ): MaybePromise<Result> {
    const act = new Act(run, options);
    this.#noticeSubmitter(options.from);
    this.#acts.add(act as Act, options.urgent);
    return act.answer();
  }

  drained(): Promise<void> {
    return this.#acts.drained();
  }

  #noticeSubmitter(from: string | undefined): void {
    if (from === this.#lastFrom) return;
    this.#lastFrom = from;
    this.#groupingUntil = performance.now() + GROUPING_MS;
  }

  schedule(isRest: boolean): void {
    if (isRest) this.#noticeSubmitter(undefined);
    const now = performance.now();
    // SQLite's lock has no queue: other writers need a moment in which they find it free.
    if (now < this.#contendedUntil) setTimeout(() => this.#acts.flush(), lockPauseMs());
    else if (now <= this.#groupingUntil) setImmediate(this.#flushInNewTurn);
    else if (!this.#isSameTurn) this.#flushInNewTurn();
    else if (now < this.#turnBeganAt + TURN_MS) this.#acts.flush(true);
    else setImmediate(this.#flushInNewTurn);
  }

  readonly #flushInNewTurn = (): void => {
    this.#turnBeganAt = performance.now();
    if (!this.#isSameTurn) {
      this.#isSameTurn = true;
      setImmediate(this.#turned);
    }
    this.#acts.flush();
  };

  /** Everything that the event loop brings after this belongs to another turn. */
  readonly #turned = (): void => {
    this.#isSameTurn = false;
  };

  begin(isSameTurn: boolean): Transaction | "locked" | "unsound" {
    try {
      if (!(isSameTurn ? this.#file.isStillSound : this.#file.isSound)) return "unsound";
      const { connection } = this.#file;
      connection.run("BEGIN IMMEDIATE");
      this.#noticeOthers(connection);
      return { connection, clock: this.#clock, cache: this.#cache, seal: this.#seal, mark: this.#mark };
    } catch (error) {
      if (!isBusy(error)) throw error;
      this.#contendedUntil = performance.now() + CONTENDED_MS;
      this.#lockError = error;
      return "locked";
    }
  }

  busy(waitedMs: number): Error {
    return busy(this.#file.options.path, waitedMs, this.#lockError);
  }

  /** Rereads the store's id and its seal, unless no other connection has written since. */
  #noticeOthers(connection: Connection): void {
    const state = this.#cache.refresh(connection);
    if (state === "same") return;
    if (state === "changed") this.#contendedUntil = performance.now() + CONTENDED_MS;
    this.#seal = readSeal(connection);
    this.#mark = readMark(connection);
    if (readStoreId(connection) === this.#file.storeId) return;
    throw this.#file.refuse(replaced(this.#file.options.path, "it holds another store"));
  }

  run(transaction: Transaction, acts: readonly Act[]): void {
    try {
      const culprit = this.#runAll(transaction, acts);
      if (culprit) this.#acts.putBack(acts.filter((act) => act !== culprit));
    } catch (error) {
      this.#fail(acts, error, false);
    }
  }

  #fail(acts: readonly Act[], cause: unknown, unknown: boolean): void {
    this.#cache.clear();
    const error = this.#file.poison(cause, unknown);
    for (const act of acts) act.reject(error);
  }

  /** Runs and commits all, and answers them. Or rolls back, rejects the act that threw, and returns it. */
  #runAll(transaction: Transaction, acts: readonly Act[]): Act | null {
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
        act.reject(unstorable(this.#file.options.path, error));
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

  #commit({ connection, seal, mark }: Transaction, acts: readonly Act[]): boolean {
    try {
      connection.run("COMMIT");
      this.#seal = seal;
      if (mark !== this.#mark) this.#marked(mark);
      this.#mark = mark;
      return true;
    } catch (error) {
      this.#fail(acts, error, true);
      return false;
    }
  }
}
