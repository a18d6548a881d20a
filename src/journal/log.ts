/**
 * An open stream: its state in memory, and the one way to change it.
 *
 * `commit` decides on the current state, appends with the expected position, and folds the events only after the
 * store has acknowledged them. Memory is therefore never ahead of the store, and behind it only until the next
 * conflict or refresh:
 *
 *     decide ──▶ append ──ok──▶ fold, return
 *                  │──conflict──▶ reread what others wrote, decide again
 *                  │──fenced · taken · missing──▶ returned to the caller; nothing happened
 *                  └──error──▶ unknown: send the same batch again (its id makes that safe), else the caller is told
 *                              and the next commit rereads first
 *
 * A reread that fails between two events keeps what it has folded. One that fails within an event leaves a state of no
 * position, and the next one loads from the beginning. After a reread the stream may have begun another life: a decision
 * that is about the old one looks at `head.generation`.
 *
 * A crash between append and fold leaves a durable write that the next open will fold. Commits of one log run one
 * after another; logs of different streams commit together when the store coalesces them. One that nobody is before, and that the
 * store answers at once, is over when `commitSoon` returns; all others take their turn in the queue, the rest of that one included
 * where it met a conflict or owes a snapshot.
 */

import { randomUUID } from "node:crypto";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { applyEvent, type Draft, type Event, type StreamKind, writeEvents } from "../model/stream/index.ts";
import type { AppendOutcome, Batch, Guard, Head, StreamRow, Write } from "../store.ts";
import { cannotFork, mustGoOn } from "./conflicts.ts";
import { type Fold, foldNews, type Loaded, loadStream, verifying } from "./reading.ts";
import { type SnapshotContext, SnapshotKeeper } from "./snapshots.ts";

const DECIDE_LIMIT = 1_000;
const RESENDS = 2;

export interface LogContext extends SnapshotContext {
  now(): number;
}

/** What to append, and what the caller wants back once it is durable. No events: nothing is written. */
export interface Decision<Result> {
  readonly events: readonly Draft[];
  readonly result: Result;
  readonly guards?: readonly Guard[];
  /** Only for the first write of a stream. */
  readonly fork?: Write["fork"];
}

type Decide<State, Result> = (state: State, head: Head) => Decision<Result>;

/** What was decided and sent to the store. Without a batch there was nothing to send. */
interface Flight<Result> {
  readonly decision: Decision<Result>;
  readonly batch?: Batch;
  readonly events: readonly Event[];
  readonly bytes: number;
  readonly answer: MaybePromise<AppendOutcome>;
}

const NONE: readonly never[] = [];
const NOTHING_SENT: AppendOutcome = { outcome: "ok", heads: NONE, resent: false };

export type CommitOutcome<Result> =
  /** `appended` is false when there was nothing to write, and so nothing was asked of the store. */
  | { readonly outcome: "ok"; readonly result: Result; readonly head: Head; readonly appended: boolean }
  | Extract<AppendOutcome, { outcome: "fenced" | "taken" | "missing" }>;

/**
 * One stream, open: its state, and `commit` to change it. Integrations with a kind of their own get one from
 * `journal.open`; sessions and goals stand on it. Any number may have the same stream open: each decides on what it has
 * seen, and decides again where others were faster.
 */
export class Log<State> {
  readonly stream: string;
  readonly kind: StreamKind<State>;
  private readonly context: LogContext;
  private current: State;
  private at: Head;
  private streamRow: StreamRow;
  private readonly snapshots: SnapshotKeeper<State>;
  private queue: Promise<unknown> = Promise.resolve();
  /** How many are under way or waiting in `queue`. Each counts itself out: a promise for that would be one more a commit. */
  private turns = 0;
  private isStarting = false;
  /** Whether memory can be decided on; else the next commit rereads, or loads anew, first. */
  private trust: "sound" | "doubtful" | "broken" = "sound";

  constructor(context: LogContext, kind: StreamKind<State>, stream: string, loaded: Loaded<State>) {
    this.context = context;
    this.kind = kind;
    this.stream = stream;
    this.current = loaded.state;
    this.at = loaded.head;
    this.streamRow = loaded.row;
    this.snapshots = new SnapshotKeeper(context, kind, stream, loaded.replayedBytes);
  }

  static async open<State>(
    context: LogContext,
    kind: StreamKind<State>,
    stream: string,
  ): Promise<Log<State>> {
    const log = new Log(context, kind, stream, await loadStream(verifying(context), kind, stream));
    // Of a stream that only its forks keep, nobody is to find more than its events.
    if (log.row.state === "live" && log.snapshots.mayPay(NONE)) await log.keepSnapshot();
    return log;
  }

  /** As of the last acknowledged or reread event. Belongs to the log: read it, do not change it. */
  get state(): State {
    return this.current;
  }

  get head(): Head {
    return this.at;
  }

  /** The stream as it was when it was opened or last reread from its beginning. */
  get row(): StreamRow {
    return this.streamRow;
  }

  get exists(): boolean {
    return this.streamRow.state === "live" || this.at.seq > 0;
  }

  /** Runs `decide` on the state as it then is, and makes its events durable; under `guard`, if there is one. */
  async commit<Result>(decide: Decide<State, Result>, guard?: Guard): Promise<CommitOutcome<Result>> {
    return this.commitSoon(decide, guard);
  }

  /** For the ledger layer: the same, answered at once where the store does so and nobody else is at this log. */
  commitSoon<Result>(decide: Decide<State, Result>, guard?: Guard): MaybePromise<CommitOutcome<Result>> {
    if (this.turns > 0 || this.isStarting || this.trust !== "sound") {
      return this.inTurn(() => this.commitNow(decide, guard));
    }
    this.isStarting = true;
    try {
      const flight = this.send(decide, guard);
      const { answer } = flight;
      if (answer instanceof Promise || answer.outcome === "conflict") {
        this.isStarting = false;
        return this.inTurn(() => this.commitNow(decide, guard, flight));
      }
      const outcome = this.take(flight, answer);
      if (!this.owesSnapshot(flight, answer)) return outcome;
      this.isStarting = false;
      return this.inTurn(() => this.afterSnapshot(outcome));
    } catch (error) {
      return Promise.reject(error);
    } finally {
      this.isStarting = false;
    }
  }

  /** Takes in what others have written. */
  refresh(): Promise<State> {
    return this.inTurn(() => this.refreshNow());
  }

  /** After all that was begun before; at once, if that is over. */
  private inTurn<Result>(act: () => Promise<Result>): Promise<Result> {
    // Called by what runs within `act` itself, a codec or a watcher: its turn comes once this one stands in the queue.
    if (this.isStarting) return Promise.resolve().then(() => this.inTurn(act));
    this.isStarting = true;
    this.turns += 1;
    const turn = this.turns === 1 ? act() : this.queue.then(act, act);
    this.isStarting = false;
    this.queue = turn;
    return turn;
  }

  private async refreshNow(): Promise<State> {
    try {
      return await this.reread();
    } finally {
      this.turns -= 1;
    }
  }

  /** `first` was sent already. */
  private async commitNow<Result>(
    decide: Decide<State, Result>,
    guard: Guard | undefined,
    first?: Flight<Result>,
  ): Promise<CommitOutcome<Result>> {
    try {
      if (this.trust !== "sound") await this.reread();
      for (let tries = 0; tries < DECIDE_LIMIT; tries++) {
        const flight = tries === 0 && first ? first : this.send(decide, guard);
        let answer: AppendOutcome;
        try {
          answer = await flight.answer;
        } catch (error) {
          answer = await this.sendAgain(flight.batch as Batch, error);
        }
        if (answer.outcome !== "conflict") {
          const outcome = this.take(flight, answer);
          if (this.owesSnapshot(flight, answer)) await this.keepSnapshot();
          return outcome;
        }
        if (flight.decision.fork) throw cannotFork(this.stream, answer.stream);
        if (answer.stream === this.stream) mustGoOn(this.stream, this.at, answer.head);
        await this.reread();
      }
      throw new HoldfastError("STREAM_BUSY", `${this.stream}: ${DECIDE_LIMIT} attempts met a conflict each`, {
        hint: "Many writers change this at once. Try again, or spread the work over several goals or sessions.",
      });
    } finally {
      this.turns -= 1;
    }
  }

  private async afterSnapshot<Outcome>(outcome: Outcome): Promise<Outcome> {
    try {
      await this.keepSnapshot();
      return outcome;
    } finally {
      this.turns -= 1;
    }
  }

  private send<Result>(decide: Decide<State, Result>, guard: Guard | undefined): Flight<Result> {
    const decision = decide(this.current, this.at);
    if (decision.events.length === 0) return { decision, answer: NOTHING_SENT, events: NONE, bytes: 0 };
    const { batch, events, bytes } = this.prepare(decision, guard);
    return { decision, batch, events, bytes, answer: this.append(batch) };
  }

  private append(batch: Batch): MaybePromise<AppendOutcome> {
    try {
      const answer = this.context.store.append(batch);
      // Whatever else is awaited, such as a promise of another realm, is no outcome yet.
      return "outcome" in answer ? answer : Promise.resolve(answer);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** What an answer comes to: memory follows the store, and the caller is told. */
  private take<Result>(
    { decision, batch, events, bytes }: Flight<Result>,
    answer: Exclude<AppendOutcome, { outcome: "conflict" }>,
  ): CommitOutcome<Result> {
    if (answer.outcome !== "ok") return answer;
    const appended = batch !== undefined;
    if (appended) this.fold(events, bytes);
    return { outcome: "ok", result: decision.result, head: this.at, appended };
  }

  private owesSnapshot({ events }: Flight<unknown>, { outcome }: AppendOutcome): boolean {
    return outcome === "ok" && events.length > 0 && this.snapshots.mayPay(events);
  }

  private keepSnapshot(): Promise<void> {
    return this.snapshots.keepIfItPays(this.current, this.at);
  }

  private prepare<Result>(
    decision: Decision<Result>,
    guard: Guard | undefined,
  ): { batch: Batch; events: readonly Event[]; bytes: number } {
    const at = this.context.now();
    const { events, text } = writeEvents(this.kind, decision.events, at);
    const expect = this.at;
    const place = { namespace: this.context.namespace, stream: this.stream, seq: expect.seq + 1 };
    const encoded = this.context.payloads.encodeEvents(events, text, place);
    const change = this.kind.facets?.(this.current, encoded.events, expect.seq + 1);
    const { fork } = decision;
    const guards = guard ? [guard, ...(decision.guards ?? NONE)] : decision.guards;
    const { payload, isUtf8, codec, sum } = encoded;
    const write: { -readonly [Key in keyof Write]: Write[Key] } = {
      stream: this.stream,
      expect,
      count: events.length,
      payload,
      codec,
      sum,
      at,
    };
    if (isUtf8) write.isUtf8 = true;
    if (change) {
      const { facets, items, claims, releases, artifacts } = change;
      if (facets) write.facets = facets;
      if (items?.length) write.items = items;
      if (claims?.length) write.claims = claims;
      if (releases?.length) write.releases = releases;
      if (artifacts?.length) write.artifacts = artifacts;
    }
    if (fork) write.fork = fork;
    if (guards) write.guards = guards;
    const batch = { id: randomUUID(), namespace: this.context.namespace, writes: [write] };
    return { batch, events: encoded.events, bytes: encoded.payload.length };
  }

  /** After an error of the store: the same batch, as long as it may or may not be there. */
  private async sendAgain(batch: Batch, first: unknown): Promise<AppendOutcome> {
    let error = first;
    for (let resends = 0; resends < RESENDS; resends++) {
      if (!isHoldfastError(error, "STORE_IO") || !error.unknown) break;
      try {
        return await this.context.store.append(batch);
      } catch (another) {
        error = another;
      }
    }
    this.trust = "doubtful";
    throw error;
  }

  private fold(events: readonly Event[], bytes: number): void {
    const { generation, seq } = this.at;
    let last = seq;
    try {
      for (const each of events) {
        applyEvent(this.kind, this.current, each, last + 1);
        last += 1;
      }
    } catch (error) {
      this.trust = "broken";
      throw error;
    }
    this.at = { generation, seq: last };
    this.snapshots.replayedBytes += bytes;
  }

  private async reread(): Promise<State> {
    if (this.trust === "broken" || !(await this.takeNews())) {
      const loaded = await loadStream(verifying(this.context), this.kind, this.stream);
      this.current = loaded.state;
      this.at = loaded.head;
      this.streamRow = loaded.row;
      this.snapshots.replayedBytes = loaded.replayedBytes;
    }
    this.trust = "sound";
    return this.current;
  }

  /** False when the stream has begun another life. */
  private async takeNews(): Promise<boolean> {
    const { generation, seq } = this.at;
    const fold: Fold<State> = { state: this.current, seq, bytes: this.snapshots.replayedBytes };
    try {
      return await foldNews(verifying(this.context), this.kind, this.stream, generation, fold);
    } finally {
      // The state has changed as far as it came, also before an error: none of it may be folded again.
      this.at = { generation, seq: fold.seq };
      this.snapshots.replayedBytes = fold.bytes;
      if (fold.isBroken) this.trust = "broken";
    }
  }
}
