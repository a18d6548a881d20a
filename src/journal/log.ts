/**
 * A log: one open stream, its state in memory, and the only way to change it.
 *
 * `commit(decide)` calls `decide` with the current state, appends the events that it returns, and folds them
 * into the state once the store has acknowledged them. Sessions commit through `OwnedLog`, which adds their
 * lease as a guard. Goals and integrations call `commit` directly.
 *
 *     decide ──▶ append ──ok──▶ fold the events, return the result
 *       ▲          ├──conflict: another writer was faster──▶ reread ──┐
 *       └──────────┼──────────────────────────────────────────────────┘
 *                  ├──conflict, but the reread finds nothing new──▶ throw STORE_CORRUPT
 *                  ├──fenced, taken, missing: nothing was written──▶ return that outcome
 *                  └──error: it may have landed──▶ resend the same batch, at last throw
 *
 * Invariants:
 *
 *   - The state is never ahead of the store: events are folded after the acknowledgement, never before.
 *   - No update is lost. Each append names the position that `decide` saw; the store refuses any other.
 *   - No batch lands twice. A resend carries the same batch id, by which the store recognises it.
 *   - Commits of one log run one at a time, in the order of their calls. Logs of different streams are
 *     independent, and the store may put their appends into one durable commit.
 *
 * `memory` says whether `decide` may see the state as it is:
 *
 *     valid      the state is the fold of all events up to `head`
 *     uncertain  an append failed and may have landed: the next commit first reads the events after `head`
 *     broken     an event handler threw half way, the state matches no position: the next commit loads anew
 *
 * A process that is killed leaves:
 *
 *     before the append          nothing
 *     during the append          the whole batch or nothing of it
 *     between append and fold    a durable batch, which the next `open` folds
 *     during the snapshot        durable events; only the cached fold is missing
 *
 * After a reread the stream may be in another generation, because it was removed and created again. A
 * decision that depends on the old one compares `head.generation`.
 *
 * Most commits take the synchronous path: no other commit of this log is under way, and the store answers
 * without a promise (SQLite does). `commitMaybeSync` then returns the outcome itself. All other commits wait
 * in the queue.
 */

import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { applyEvent, type Draft, type Event, type StreamKind, writeEvents } from "../model/stream/index.ts";
import type { AppendOutcome, Batch, BatchLease, Guard, Head, StreamRow, Write } from "../store.ts";
import { linkedBatchId, linkIn } from "./chain.ts";
import { type Fold, foldNewEvents, type Loaded, loadStream, verifying } from "./reading.ts";
import { type SnapshotContext, SnapshotKeeper } from "./snapshots.ts";

const MAX_DECISIONS = 1_000;
const MAX_RESENDS = 2;

export interface LogContext extends SnapshotContext {
  now(): number;
  /** Puts an artifact again. False if its bytes are not known here. @internal */
  putAgain(hash: string): Promise<boolean>;
  /** Called once an append refers to these artifacts: nothing else keeps their bytes. @internal */
  noteReferences(hashes: readonly string[]): void;
}

/**
 * The answer of a `decide` function: events to append, and the caller's result. Without events nothing is
 * written.
 */
export interface Decision<Result> {
  readonly events: readonly Draft[];
  /** `commit` returns it once the events are durable. */
  readonly result: Result;
  /** The time of the events, if the decision depends on it. Default: the clock when they are sent. */
  readonly at?: number;
  /** Leases that must still be held when the events are appended. */
  readonly guards?: readonly Guard[];
  /** For the first write of a forked stream; `journal.fork` returns it. */
  readonly fork?: Write["fork"];
  /** A lease that changes hands in the same commit. */
  readonly lease?: BatchLease | undefined;
}

type Decide<State, Result> = (state: State, head: Head) => Decision<Result>;

/** An outcome other than `ok` means that nothing was written. */
export type CommitOutcome<Result> =
  /** `appended` is false if the decision had no events, so the store was not asked. */
  | { readonly outcome: "ok"; readonly result: Result; readonly head: Head; readonly appended: boolean }
  | Extract<AppendOutcome, { outcome: "fenced" | "taken" | "missing" }>;

/** A decision on its way to the store. Without events there is no batch, and the answer is `ok` at once. */
interface InFlight<Result> {
  readonly decision: Decision<Result>;
  readonly batch?: Batch;
  readonly events: readonly Event[];
  readonly bytes: number;
  readonly answer: MaybePromise<AppendOutcome>;
}

const NONE: readonly never[] = [];
const NOTHING_TO_SEND: AppendOutcome = { outcome: "ok", heads: NONE, resent: false };

/**
 * An open stream: `state` is its fold, `commit` changes it. `journal.open(kind, id)` returns one for a kind
 * of your own.
 *
 * Any number of processes may have the same stream open. Each decides on the events that it has seen, and
 * decides again when another was faster, so `decide` must be free of side effects.
 *
 * @example
 * const log = await holdfast.journal.open(visits, "home");
 * const { result } = await log.commit((state) => ({
 *   events: [{ type: "visited", data: { by: "ada" } }],
 *   result: state.count + 1,
 * }));
 */
export class Log<State> {
  /** The stream's name: its kind and its id, such as `visits/home`. */
  readonly stream: string;
  /** The table of events that the stream may hold. */
  readonly kind: StreamKind<State>;
  private readonly context: LogContext;
  private readonly snapshots: SnapshotKeeper<State>;
  private currentState: State;
  private currentHead: Head;
  /** The link of the write at `currentHead` (`chain.ts`). */
  private currentLink: string;
  private currentRow: StreamRow;
  private memory: "valid" | "uncertain" | "broken" = "valid";
  /** The last turn; the next one begins when it has ended. */
  private queue: Promise<unknown> = Promise.resolve();
  /** Turns that run or wait in `queue`. */
  private turns = 0;
  /** True while a commit runs its synchronous first part: `decide`, the codec, and the call of `append`. */
  private isStarting = false;

  constructor(context: LogContext, kind: StreamKind<State>, stream: string, loaded: Loaded<State>) {
    this.context = context;
    this.kind = kind;
    this.stream = stream;
    this.currentState = loaded.state;
    this.currentHead = loaded.head;
    this.currentLink = loaded.link;
    this.currentRow = loaded.row;
    this.snapshots = new SnapshotKeeper(context, kind, stream, loaded.replayedBytes);
  }

  static async open<State>(
    context: LogContext,
    kind: StreamKind<State>,
    stream: string,
  ): Promise<Log<State>> {
    const log = new Log(context, kind, stream, await loadStream(verifying(context), kind, stream));
    return log.opened();
  }

  /**
   * Opens a log again that its last user has left: only events that others have appended are read.
   *
   * @internal
   */
  async reopen(): Promise<Log<State>> {
    await this.refresh();
    return this.opened();
  }

  private async opened(): Promise<Log<State>> {
    // A hidden stream was removed and only its forks still read it: it gets no new snapshot.
    if (this.row.state === "live" && this.snapshots.isDue(NONE)) await this.saveSnapshot();
    return this;
  }

  /**
   * Bytes that an `open` without this log would read and fold.
   *
   * @internal
   */
  get storedBytes(): number {
    return this.snapshots.replayedBytes;
  }

  /** The state after the last acknowledged or reread event. It belongs to the log: do not change it. */
  get state(): State {
    return this.currentState;
  }

  /** The position of `state` in the stream. */
  get head(): Head {
    return this.currentHead;
  }

  /** The stream's row as of `open` or the last reread. */
  get row(): StreamRow {
    return this.currentRow;
  }

  /** False until the first commit, and for a removed stream. */
  get exists(): boolean {
    return this.currentRow.state === "live" || this.currentHead.seq > 0;
  }

  /** Runs `decide` on the current state and makes its events durable, if `guard` still holds. */
  async commit<Result>(decide: Decide<State, Result>, guard?: Guard): Promise<CommitOutcome<Result>> {
    return this.commitMaybeSync(decide, guard);
  }

  /**
   * `commit` without a promise where none is needed; an error is always a rejected promise. A promise costs
   * one to three microseconds right after a sync, and the ledger commits twice per call (decision 019).
   *
   * @internal
   */
  commitMaybeSync<Result>(decide: Decide<State, Result>, guard?: Guard): MaybePromise<CommitOutcome<Result>> {
    if (this.turns > 0 || this.isStarting || this.memory !== "valid") {
      return this.enqueue(() => this.commitInTurn(decide, guard));
    }
    this.isStarting = true;
    try {
      const sent = this.send(decide, guard);
      const { answer } = sent;
      if (answer instanceof Promise || answer.outcome === "conflict" || answer.outcome === "missing") {
        this.isStarting = false;
        return this.enqueue(() => this.commitInTurn(decide, guard, sent));
      }
      const outcome = this.accept(sent, answer);
      if (!this.isSnapshotDue(outcome, sent)) return outcome;
      this.isStarting = false;
      return this.enqueue(() => this.saveSnapshot().then(() => outcome));
    } catch (error) {
      return Promise.reject(error);
    } finally {
      this.isStarting = false;
    }
  }

  /** Reads the events that others have appended, and returns the new state. */
  refresh(): Promise<State> {
    return this.enqueue(() => this.reread());
  }

  /** Runs `turn` after all earlier ones. If there are none, its synchronous part runs before this returns. */
  private enqueue<Result>(turn: () => Promise<Result>): Promise<Result> {
    // `decide`, a codec or a watcher called us from within a commit: let that one enter the queue first.
    if (this.isStarting) return Promise.resolve().then(() => this.enqueue(turn));
    const run = async () => {
      try {
        return await turn();
      } finally {
        this.turns -= 1;
      }
    };
    this.isStarting = true;
    this.turns += 1;
    const ended = this.turns === 1 ? run() : this.queue.then(run, run);
    this.isStarting = false;
    this.queue = ended;
    return ended;
  }

  /** The whole loop of a commit. `sent` is a first append that is already under way. */
  private async commitInTurn<Result>(
    decide: Decide<State, Result>,
    guard: Guard | undefined,
    sent?: InFlight<Result>,
  ): Promise<CommitOutcome<Result>> {
    if (this.memory !== "valid") await this.reread();
    for (let decisions = 0; decisions < MAX_DECISIONS; decisions++) {
      const inFlight = decisions === 0 && sent ? sent : this.send(decide, guard);
      let answer: AppendOutcome;
      try {
        answer = await inFlight.answer;
      } catch (error) {
        answer = await this.resend(inFlight.batch as Batch, error);
      }
      // The erase of another session removed it since it was put.
      if (answer.outcome === "missing" && (await this.context.putAgain(answer.artifact))) continue;
      if (answer.outcome !== "conflict") {
        const outcome = this.accept(inFlight, answer);
        if (this.isSnapshotDue(outcome, inFlight)) await this.saveSnapshot();
        return outcome;
      }
      if (inFlight.decision.fork) throw forkConflict(this.stream, answer.stream);
      if (answer.stream === this.stream) checkConflictHead(this.stream, this.currentHead, answer.head);
      const seen = this.currentHead;
      await this.reread();
      checkNews(this.stream, seen, this.currentHead, answer.head);
    }
    throw new HoldfastError("STREAM_BUSY", `${this.stream}: ${MAX_DECISIONS} conflicts in a row`, {
      hint: "Too many writers change it at once. Try again, or spread the work over more goals or sessions.",
    });
  }

  private send<Result>(decide: Decide<State, Result>, guard: Guard | undefined): InFlight<Result> {
    const decision = decide(this.currentState, this.currentHead);
    if (decision.events.length === 0) return { decision, answer: NOTHING_TO_SEND, events: NONE, bytes: 0 };
    const { batch, events, bytes } = this.makeBatch(decision, guard);
    return { decision, batch, events, bytes, answer: this.append(batch) };
  }

  private makeBatch(
    decision: Decision<unknown>,
    guard: Guard | undefined,
  ): { batch: Batch; events: readonly Event[]; bytes: number } {
    const { namespace, payloads } = this.context;
    const { stream, currentHead: expect } = this;
    const at = decision.at ?? this.context.now();
    const firstSeq = expect.seq + 1;
    let written: ReturnType<typeof writeEvents>;
    let encoded: ReturnType<typeof payloads.encodeEvents>;
    try {
      written = writeEvents(this.kind, decision.events, at);
      encoded = payloads.encodeEvents(written.events, written.text, { namespace, stream, seq: firstSeq });
    } catch (error) {
      throw error instanceof RangeError ? tooLong(stream, error) : error;
    }
    const { events } = written;
    const { payload, isUtf8, codec, sum } = encoded;
    const write: { -readonly [Key in keyof Write]: Write[Key] } = {
      stream,
      expect,
      count: events.length,
      payload,
      codec,
      sum,
      at,
    };
    if (isUtf8) write.isUtf8 = true;
    const change = this.kind.facets?.(this.currentState, encoded.events, firstSeq, codec !== null);
    if (change) {
      const { facets, items, claims, releases, artifacts } = change;
      if (facets) write.facets = facets;
      if (items?.length) write.items = items;
      if (claims?.length) write.claims = claims;
      if (releases?.length) write.releases = releases;
      if (artifacts?.length) write.artifacts = artifacts;
    }
    const guards = guard ? [guard, ...(decision.guards ?? NONE)] : decision.guards;
    if (decision.fork) write.fork = decision.fork;
    if (guards) write.guards = guards;
    const linked = { first: firstSeq, last: expect.seq + events.length, at, codec, payload };
    const id = linkedBatchId(this.currentLink, stream, linked);
    const { lease } = decision;
    const batch: Batch = { id, namespace, writes: [write], ...(lease && { lease }) };
    return { batch, events: encoded.events, bytes: payload.length };
  }

  private append(batch: Batch): MaybePromise<AppendOutcome> {
    try {
      const answer = this.context.store.append(batch);
      // A store of a user may return any thenable, such as a promise of another realm.
      return "outcome" in answer ? answer : Promise.resolve(answer);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Resends a batch that may have landed. If that fails too, the reread of the next commit finds out. */
  private async resend(batch: Batch, firstError: unknown): Promise<AppendOutcome> {
    let error = firstError;
    for (let resends = 0; resends < MAX_RESENDS; resends++) {
      if (!isHoldfastError(error, "STORE_IO") || !error.unknown) break;
      try {
        return await this.context.store.append(batch);
      } catch (another) {
        error = another;
      }
    }
    this.memory = "uncertain";
    throw error;
  }

  /** Brings the state up to date with the store's answer. */
  private accept<Result>(
    { decision, batch, events, bytes }: InFlight<Result>,
    answer: Exclude<AppendOutcome, { outcome: "conflict" }>,
  ): CommitOutcome<Result> {
    if (answer.outcome !== "ok") return answer;
    const appended = batch !== undefined;
    const referred = batch?.writes[0]?.artifacts;
    if (referred) this.context.noteReferences(referred);
    if (appended) this.fold(events, bytes, batch.id);
    return { outcome: "ok", result: decision.result, head: this.currentHead, appended };
  }

  private fold(events: readonly Event[], bytes: number, batch: string): void {
    const { generation, seq } = this.currentHead;
    let last = seq;
    try {
      for (const event of events) {
        applyEvent(this.kind, this.currentState, event, last + 1);
        last += 1;
      }
    } catch (error) {
      this.memory = "broken";
      throw error;
    }
    this.currentHead = { generation, seq: last };
    this.currentLink = linkIn(batch);
    this.snapshots.replayedBytes += bytes;
  }

  private isSnapshotDue(outcome: CommitOutcome<unknown>, { events }: InFlight<unknown>): boolean {
    return outcome.outcome === "ok" && outcome.appended && this.snapshots.isDue(events);
  }

  private saveSnapshot(): Promise<void> {
    return this.snapshots.saveIfWorthwhile(this.currentState, this.currentHead, this.currentLink);
  }

  private async reread(): Promise<State> {
    if (this.memory === "broken" || !(await this.catchUp())) {
      const loaded = await loadStream(verifying(this.context), this.kind, this.stream);
      this.currentState = loaded.state;
      this.currentHead = loaded.head;
      this.currentLink = loaded.link;
      this.currentRow = loaded.row;
      this.snapshots.replayedBytes = loaded.replayedBytes;
    }
    this.memory = "valid";
    return this.currentState;
  }

  /**
   * Folds the events after `head`. False if the stream is in another generation, so that all must be loaded
   * anew.
   */
  private async catchUp(): Promise<boolean> {
    const { generation, seq } = this.currentHead;
    const bytes = this.snapshots.replayedBytes;
    const fold: Fold<State> = { state: this.currentState, seq, link: this.currentLink, bytes };
    try {
      const row = await foldNewEvents(verifying(this.context), this.kind, this.stream, generation, fold);
      if (row) this.currentRow = row;
      return row !== null;
    } finally {
      // Also after an error: the events up to `fold.seq` are in the state and must not be folded twice.
      this.currentHead = { generation, seq: fold.seq };
      this.currentLink = fold.link;
      this.snapshots.replayedBytes = fold.bytes;
      if (fold.isBroken) this.memory = "broken";
    }
  }
}

/**
 * Throws if a conflict means more than that another writer was faster. The store's `head` may equal ours (the
 * stream is hidden), or be older than ours: acknowledged events are gone, and such a store is not written to
 * (I12).
 */
function checkConflictHead(stream: string, ours: Head, head: Head): void {
  if (head.generation === ours.generation && head.seq === ours.seq) {
    throw new HoldfastError(
      "STREAM_NOT_FOUND",
      `${stream} was removed; only its forks still read its history`,
      { hint: "Create a new one, or continue with one of its forks." },
    );
  }
  const isOlder =
    head.generation < ours.generation || (head.generation === ours.generation && head.seq < ours.seq);
  if (!isOlder) return;
  throw new HoldfastError(
    "STORE_REPLACED",
    `${stream} ends at ${head.seq}, but ${ours.seq} was acknowledged: an older copy replaced the store`,
    { hint: "Stop all writers. Bring back the newer store, or reopen this one to accept the loss." },
  );
}

/**
 * Throws if the reread after a conflict found no event and no other generation: the store refuses the append
 * because of events that it cannot show. Another round would end the same way.
 */
function checkNews(stream: string, before: Head, after: Head, refusedAt: Head): void {
  if (after.generation !== before.generation || after.seq !== before.seq) return;
  throw new HoldfastError(
    "STORE_CORRUPT",
    `${stream}: the store refuses an append after ${before.seq} because its head is at ${refusedAt.seq}, ` +
      "but has no event in between",
    {
      hint: "Stop all writers and run `holdfast check`, then restore the store from a backup.",
      data: { stream, seq: before.seq, head: refusedAt.seq },
    },
  );
}

function forkConflict(stream: string, conflicting: string): HoldfastError {
  if (conflicting === stream) {
    return new HoldfastError("STREAM_EXISTS", `${stream} exists already`, {
      hint: "A fork creates a new stream: choose a name that is free.",
    });
  }
  return new HoldfastError("STREAM_NOT_FOUND", `${conflicting} was removed while ${stream} forked from it`, {
    hint: "List what is there and fork from that.",
  });
}

/** V8 has no string for it. Nothing was written. */
function tooLong(stream: string, cause: RangeError): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${stream}: this is too long for one write (500 MB as JSON)`, {
    hint: "Put large content into artifacts (holdfast.putArtifact), or split it.",
    data: { stream },
    cause,
  });
}
