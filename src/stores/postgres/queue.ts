/** Decides which appends share a statement, and what happens when it fails (protocol: `append.ts`). */

import { setImmediate } from "node:timers";
import { HoldfastError } from "../../model/errors.ts";
import type { AppendOutcome, Batch } from "../../store.ts";
import { headsAfter } from "../kit/index.ts";
import { batchArguments, type EncodedBatch, encode, parseOutcomes } from "./append.ts";
import * as fast from "./append-fast-path.ts";
import { backoff, type Database, prepared, type WriteContext } from "./database.ts";
import { asFailure, isCollision, isLockTimeout, isStandby, isTransient, isUnstorable } from "./failures.ts";
import type { PreparedStatement } from "./value-query.ts";

/** With one, a group that waits for a lock would block all others, and the server would use one processor. */
const MAX_GROUPS = 4;
const GROUP_BATCHES = 256;
/** Waiting batches are shared among the free group slots, but a statement costs as much as two batches. */
const MIN_GROUP_BATCHES = 8;
const GROUP_BYTES = 8 * 1024 * 1024;
/** Lock timeout of a group of several. After it the batches wait one by one. */
const GROUP_LOCK_MS = 1_000;
/** Lock timeout on the fast path. After it the slow path waits. */
const FAST_LOCK_MS = 100;

interface PendingBatch extends EncodedBatch {
  resolve(outcome: AppendOutcome): void;
  reject(error: unknown): void;
}

/** Batches without an answer. `isUnknown`: an earlier statement may have stored them. */
interface Unanswered {
  readonly group: readonly PendingBatch[];
  readonly isUnknown: boolean;
}

export class AppendQueue {
  readonly #database: Database;
  readonly #context: WriteContext;
  readonly #slowSql: string;
  readonly #fastStatement: PreparedStatement;
  readonly #oneStatement: PreparedStatement;
  readonly #streamsInFlight = new Set<string>();
  #waiting: PendingBatch[] = [];
  #groupsInFlight = 0;
  #isScheduled = false;
  #onIdle: (() => void)[] = [];

  constructor(database: Database, context: WriteContext) {
    this.#database = database;
    this.#context = context;
    const call = (name: string, parameters: number, result: string) => {
      const list = Array.from({ length: parameters }, (_, index) => `$${index + 1}`);
      return prepared(name, `SELECT ${database.schema}.${name}(${list.join(", ")}) AS ${result}`);
    };
    this.#slowSql = call("append_batches", 7, "outcomes").text;
    this.#fastStatement = call("append_plain", 10, "stored");
    this.#oneStatement = call("append_single", fast.ONE_PARAMETER_COUNT, "stored");
  }

  /** `onOutcome` is called before the caller gets the outcome, and rejects the append by throwing. */
  submit(batch: Batch, onOutcome: (outcome: AppendOutcome) => void): Promise<AppendOutcome> {
    const encoded = encode(batch);
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        ...encoded,
        reject,
        resolve(outcome) {
          try {
            onOutcome(outcome);
            resolve(outcome);
          } catch (error) {
            reject(error);
          }
        },
      });
      // Enough for a group: the server can work while this turn makes the rest of its appends.
      if (this.#waiting.length === MIN_GROUP_BATCHES) this.#launch();
      else this.#schedule();
    });
  }

  /** Resolves when every batch submitted so far is answered. */
  drained(): Promise<void> {
    if (this.#groupsInFlight === 0 && this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle.push(resolve);
    });
  }

  /**
   * Launches after this turn of the event loop. While groups are in flight it also waits for answers that
   * have arrived, so that writers that were just answered share the next group.
   */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    process.nextTick(() => {
      if (this.#groupsInFlight === 0) this.#launchScheduled();
      else setImmediate(this.#launchScheduled);
    });
  }

  readonly #launchScheduled = (): void => {
    this.#isScheduled = false;
    this.#launch();
  };

  #launch(): void {
    while (this.#groupsInFlight < MAX_GROUPS && this.#waiting.length > 0) {
      const group = this.#takeGroup();
      if (group.length === 0) return;
      this.#groupsInFlight += 1;
      for (const { streams } of group) for (const each of streams) this.#streamsInFlight.add(each);
      void this.#send(group).finally(() => this.#finish(group));
    }
  }

  #finish(group: readonly PendingBatch[]): void {
    for (const { streams } of group) for (const each of streams) this.#streamsInFlight.delete(each);
    this.#groupsInFlight -= 1;
    // After the callers that were just answered, so that their next appends share a group.
    if (this.#waiting.length > 0) queueMicrotask(() => this.#schedule());
    else if (this.#groupsInFlight === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /**
   * Takes batches in the order of arrival, each stream once, all for the fast path or all for the slow one.
   * A batch that has to wait makes later batches of its streams wait too.
   */
  #takeGroup(): PendingBatch[] {
    if (this.#waiting.length === 1 && this.#streamsInFlight.size === 0) return this.#waiting.splice(0);
    const blocked = new Set(this.#streamsInFlight);
    const share = Math.ceil(this.#waiting.length / (MAX_GROUPS - this.#groupsInFlight));
    const most = Math.min(GROUP_BATCHES, Math.max(MIN_GROUP_BATCHES, share));
    const group: PendingBatch[] = [];
    const rest: PendingBatch[] = [];
    let bytes = 0;
    for (const each of this.#waiting) {
      const isFull = group.length > 0 && (group.length >= most || bytes + each.bytes > GROUP_BYTES);
      const isOtherPath = group[0] !== undefined && group[0].isFast !== each.isFast;
      const mustWait = isFull || isOtherPath || each.streams.some((stream) => blocked.has(stream));
      (mustWait ? rest : group).push(each);
      if (!mustWait) bytes += each.bytes;
      for (const stream of each.streams) blocked.add(stream);
    }
    this.#waiting = rest;
    return group;
  }

  async #send(group: readonly PendingBatch[]): Promise<void> {
    try {
      const left = group[0]?.isFast ? await this.#sendFast(group) : { group, isUnknown: false };
      if (left.group.length === 0) return;
      const split = await this.#sendSlow(left);
      if (!split) return;
      await Promise.all(split.group.map((each) => this.#sendSlow({ ...split, group: [each] })));
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  /** Returns the batches that have no answer yet. */
  async #sendFast(group: readonly PendingBatch[]): Promise<Unanswered> {
    const ordered = fast.inLockOrder(group);
    let isStored: (index: number) => boolean;
    try {
      isStored = await this.#callFast(ordered);
    } catch (error) {
      return { group, isUnknown: asFailure(error).transaction === "unknown" };
    }
    const left: PendingBatch[] = [];
    ordered.forEach((each, index) => {
      if (isStored(index)) each.resolve({ outcome: "ok", heads: headsAfter(each.batch), resent: false });
      else left.push(each);
    });
    return { group: left, isUnknown: false };
  }

  async #callFast(group: readonly PendingBatch[]): Promise<(index: number) => boolean> {
    const { busyMs } = this.#database.limits;
    const [first] = group;
    if (first && fast.fitsOne(group, busyMs)) {
      const stored = await this.#database.ask(this.#oneStatement, fast.oneArguments(this.#context, first));
      return () => stored === "t";
    }
    const { store, allowLoss } = this.#context;
    const values = [store, allowLoss, Math.min(FAST_LOCK_MS, busyMs), ...fast.fastArguments(group)];
    const stored = await this.#database.ask(this.#fastStatement, values);
    if (stored === null) return () => true;
    // An array of the stored indexes, such as `{0,2}`.
    const indexes = new Set(stored.slice(1, -1).split(","));
    return (index) => indexes.has(`${index}`);
  }

  /** Retries until all are answered and returns null, or the batches if they must be sent one by one. */
  async #sendSlow({ group, isUnknown: wasUnknown }: Unanswered): Promise<Unanswered | null> {
    const begun = performance.now();
    const { busyMs } = this.#database.limits;
    const lockMs = group.length > 1 ? Math.min(GROUP_LOCK_MS, busyMs) : busyMs;
    const { store, allowLoss } = this.#context;
    const values = [store, allowLoss, lockMs, ...batchArguments(group)];
    let isUnknown = wasUnknown;
    for (let tries = 1; ; tries++) {
      try {
        const [row] = await this.#database.attempt<{ outcomes: string }>(this.#slowSql, values);
        this.#answer(group, parseOutcomes(row?.outcomes ?? "[]", group), isUnknown);
        return null;
      } catch (error) {
        const failure = asFailure(error);
        if (group.length > 1 && (isUnstorable(failure) || isLockTimeout(failure)))
          return { group, isUnknown };
        const isFirstLoss: boolean = failure.transaction === "unknown" && !isUnknown;
        isUnknown ||= isFirstLoss;
        const waitedMs = performance.now() - begun;
        const isRetryable = isTransient(failure) || isCollision(failure) || isStandby(failure);
        if (!isRetryable || (waitedMs > busyMs && !isFirstLoss)) {
          const storeError = this.#database.toStoreError(failure, waitedMs, isUnknown);
          for (const { reject } of group) reject(storeError);
          return null;
        }
        await backoff(tries);
      }
    }
  }

  #answer(group: readonly PendingBatch[], outcomes: readonly AppendOutcome[], isUnknown: boolean): void {
    group.forEach((each, index) => {
      const outcome = outcomes[index];
      if (outcome && (outcome.outcome === "ok" || !isUnknown)) each.resolve(outcome);
      else each.reject(unknownOutcome(this.#database.address));
    });
  }
}

function unknownOutcome(address: string): HoldfastError {
  return new HoldfastError("STORE_IO", `${address}: the connection was lost during an append`, {
    hint: "Send the same batch again: its id makes that safe, and the answer will be certain.",
    unknown: true,
    data: { address },
  });
}
