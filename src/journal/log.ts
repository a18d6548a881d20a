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
 * after another; logs of different streams commit together when the store coalesces them.
 */

import { randomUUID } from "node:crypto";
import {
  applyEvent,
  type Draft,
  type Event,
  HoldfastError,
  isHoldfastError,
  type StreamKind,
  writeEvents,
} from "../model/index.ts";
import {
  type AppendOutcome,
  type Batch,
  type Guard,
  type Head,
  type StreamRow,
  UTF_8,
  type Write,
} from "../store.ts";
import { type Fold, foldName, foldNews, type Loaded, loadStream, type Reader, verifying } from "./reading.ts";

const DECIDE_LIMIT = 1_000;
const RESENDS = 2;
const SNAPSHOT_MIN_BYTES = 64 * 1024;

export interface LogContext extends Reader {
  now(): number;
  /** Told of what went wrong beside the main path, such as a snapshot that could not be kept. */
  warn(error: unknown): void;
}

/** What to append, and what the caller wants back once it is durable. No events: nothing is written. */
export interface Decision<Result> {
  readonly events: readonly Draft[];
  readonly result: Result;
  readonly guards?: readonly Guard[];
  /** Only for the first write of a stream. */
  readonly fork?: Write["fork"];
}

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
  private replayedBytes: number;
  private measureAt: number;
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
    this.replayedBytes = loaded.replayedBytes;
    this.measureAt = SNAPSHOT_MIN_BYTES;
  }

  static async open<State>(
    context: LogContext,
    kind: StreamKind<State>,
    stream: string,
  ): Promise<Log<State>> {
    const log = new Log(context, kind, stream, await loadStream(verifying(context), kind, stream));
    if (log.exists && log.mayPaySnapshot(false)) await log.snapshotIfItPays();
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
  commit<Result>(
    decide: (state: State, head: Head) => Decision<Result>,
    guard?: Guard,
  ): Promise<CommitOutcome<Result>> {
    return this.inTurn(() => this.commitNow(decide, guard));
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

  private async commitNow<Result>(
    decide: (state: State, head: Head) => Decision<Result>,
    guard: Guard | undefined,
  ): Promise<CommitOutcome<Result>> {
    try {
      if (this.trust !== "sound") await this.reread();
      for (let tries = 0; tries < DECIDE_LIMIT; tries++) {
        const decision = decide(this.current, this.at);
        if (decision.events.length === 0)
          return { outcome: "ok", result: decision.result, head: this.at, appended: false };
        const { batch, events, bytes } = this.prepare(decision, guard);
        let outcome: AppendOutcome;
        try {
          outcome = await this.context.store.append(batch);
        } catch (error) {
          outcome = await this.sendAgain(batch, error);
        }
        if (outcome.outcome === "ok") {
          this.fold(events, bytes);
          if (this.mayPaySnapshot(this.hasShrunk(events))) await this.snapshotIfItPays();
          return { outcome: "ok", result: decision.result, head: this.at, appended: true };
        }
        if (outcome.outcome !== "conflict") return outcome;
        if (decision.fork) throw cannotFork(this.stream, outcome.stream);
        await this.afterConflict(outcome.head, outcome.stream);
      }
      throw new HoldfastError("STREAM_BUSY", `${this.stream}: ${DECIDE_LIMIT} attempts met a conflict each`, {
        hint: "Many writers change this at once. Try again, or spread the work over several goals or sessions.",
      });
    } finally {
      this.turns -= 1;
    }
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
    const change = this.kind.facets?.(this.current, encoded.events, expect.seq + 1) ?? {};
    const { fork } = decision;
    const guards = guard ? [guard, ...(decision.guards ?? [])] : decision.guards;
    const { payload, utf8, codec, sum } = encoded;
    const write: { -readonly [Key in keyof Write]: Write[Key] } = {
      stream: this.stream,
      expect,
      count: events.length,
      payload,
      [UTF_8]: utf8,
      codec,
      sum,
      at,
    };
    Object.assign(write, change);
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
    this.replayedBytes += bytes;
  }

  /** What we were told is durable must still be there; a store that went back in time is not written to (I12). */
  private async afterConflict(head: Head, stream: string): Promise<void> {
    if (stream === this.stream && head.generation === this.at.generation && head.seq === this.at.seq) {
      throw new HoldfastError(
        "STREAM_NOT_FOUND",
        `${this.stream} was removed; only forks of it still use its past`,
        {
          hint: "Make a new one, or go on with one of its forks.",
        },
      );
    }
    const isOlder =
      head.generation < this.at.generation ||
      (head.generation === this.at.generation && head.seq < this.at.seq);
    if (stream === this.stream && isOlder) {
      throw new HoldfastError(
        "STORE_REPLACED",
        `${this.stream} ends at ${head.seq} but ${this.at.seq} was acknowledged: the store is not the one it was`,
        {
          hint: "Stop all writers. An older copy was put in its place; bring back the newer one, or reopen to accept it.",
        },
      );
    }
    await this.reread();
  }

  private async reread(): Promise<State> {
    if (this.trust === "broken" || !(await this.takeNews())) {
      const loaded = await loadStream(verifying(this.context), this.kind, this.stream);
      this.current = loaded.state;
      this.at = loaded.head;
      this.streamRow = loaded.row;
      this.replayedBytes = loaded.replayedBytes;
    }
    this.trust = "sound";
    return this.current;
  }

  /** False when the stream has begun another life. */
  private async takeNews(): Promise<boolean> {
    const { generation, seq } = this.at;
    const fold: Fold<State> = { state: this.current, seq, bytes: this.replayedBytes };
    try {
      return await foldNews(verifying(this.context), this.kind, this.stream, generation, fold);
    } finally {
      // The state has changed as far as it came, also before an error: none of it may be folded again.
      this.at = { generation, seq: fold.seq };
      this.replayedBytes = fold.bytes;
      if (fold.isBroken) this.trust = "broken";
    }
  }

  /**
   * A snapshot pays when replaying costs more than twice loading the state. The state's size is measured only
   * when the replay has doubled since the last look, or after an event that shrinks it, so looking stays cheap.
   */
  private mayPaySnapshot(shrunk: boolean): boolean {
    return this.replayedBytes >= SNAPSHOT_MIN_BYTES && (shrunk || this.replayedBytes >= this.measureAt);
  }

  private hasShrunk(events: readonly Event[]): boolean {
    const { shrinking } = this.kind;
    return shrinking !== undefined && events.some(({ type }) => shrinking.includes(type));
  }

  private async snapshotIfItPays(): Promise<void> {
    try {
      await this.keepSnapshot();
    } catch (error) {
      // The events themselves are durable; only the shortcut to them is missing.
      this.measureAt = Math.max(this.measureAt, 2 * this.replayedBytes);
      this.context.warn(error);
    }
  }

  private async keepSnapshot(): Promise<void> {
    if (this.replayedBytes <= 2 * (this.kind.leastLength?.(this.current) ?? 0)) {
      this.measureAt = 2 * this.replayedBytes;
      return;
    }
    const text = JSON.stringify(this.kind.encode(this.current));
    this.measureAt = 2 * Math.max(this.replayedBytes, text.length);
    if (this.replayedBytes <= 2 * text.length) return;
    const { namespace } = this.context;
    const place = { namespace, stream: this.stream, seq: this.at.seq };
    const encoded = this.context.payloads.encodeSnapshot(text, place);
    const { generation, seq } = this.at;
    const fold = foldName(this.kind);
    await this.context.store.put({
      of: "snapshot",
      namespace,
      stream: this.stream,
      generation,
      seq,
      fold,
      ...encoded,
    });
    this.replayedBytes = text.length;
    this.measureAt = 2 * text.length + SNAPSHOT_MIN_BYTES;
  }
}

function cannotFork(stream: string, met: string): HoldfastError {
  if (met === stream) {
    return new HoldfastError("STREAM_EXISTS", `${stream} exists already`, {
      hint: "A fork makes a new one: choose a name that is free.",
    });
  }
  return new HoldfastError(
    "STREAM_NOT_FOUND",
    `${met} was removed while ${stream} was being forked from it`,
    {
      hint: "List what is there and fork from that.",
    },
  );
}
