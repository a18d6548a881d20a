/**
 * Runs the calls of a message so that none is lost, none is done twice, and what cannot be known is not guessed.
 * `wave.ts` issues and runs, `settling.ts` deals with unknown outcomes, `recording.ts` writes down what happened.
 */

import { failpoint } from "../failpoint.ts";
import type { Json } from "../model/json.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import {
  type Block,
  type Call,
  draftResults,
  isOpen,
  type Message,
  openCallsOf,
  type SessionState,
  type ToolCallBlock,
  toolCalls,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { isoTime } from "../model/time.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { executeFacts, type LedgerContext, storeResult } from "./context.ts";
import type { Closing } from "./recording.ts";
import { settleCall } from "./settling.ts";
import {
  type Blocker,
  issueWave,
  prepareCall,
  type ReadyCall,
  type RefusedCall,
  runIssued,
  type SettledElsewhere,
  settleElsewhere,
  type WaveResult,
} from "./wave.ts";

export interface CallsOutcome {
  /** Every call of the message has an outcome and the results are part of the transcript. */
  readonly done: boolean;
  /** Open calls, and calls that could not be issued yet. */
  readonly waiting: readonly string[];
  /** Why something is not settled yet, when no person has to act. */
  readonly later: readonly string[];
  /** Which of them could not be issued because a call of another session does the same and has no outcome yet. */
  readonly blocked: readonly BlockedCall[];
}

/** A call that another session's stands in the way of. */
export interface BlockedCall {
  readonly callId: string;
  readonly tool: string;
  readonly by: Blocker;
}

/** Rides on the commit that finishes the message: a checkpoint, for example. */
export type Finishing = (state: SessionState) => readonly Draft[];

export class Ledger {
  private readonly context: LedgerContext;
  private readonly parallel: number;
  private readonly perCall: Finishing;

  /** `perCall` rides on every commit that settles a call and does not finish its message. */
  constructor(context: LedgerContext, parallel: number, perCall: Finishing = () => []) {
    this.context = context;
    this.parallel = parallel;
    this.perCall = perCall;
  }

  /**
   * Settles what an earlier process, or an earlier run, left without an outcome, as far as it is meant: calls of a message that
   * is about to be run are left to that.
   */
  async settle(isMeant: (call: Call) => boolean): Promise<{ settled: string[]; open: string[] }> {
    failpoint("settle.begins");
    const closing: Closing = () => [];
    const unsettled = openCallsOf(this.context.own.state).filter(isMeant);
    const before = unsettled.map((call) => call.id);
    await eachAtOnce(before, this.parallel, (id) => settleCall(this.context, id, closing));
    const open = new Set(this.context.own.state.openCalls);
    return { settled: before.filter((id) => !open.has(id)), open: [...open] };
  }

  /** All calls of the message, from wherever they stand; then one message with their results. */
  async run(message: Message, finishing: Finishing): Promise<CallsOutcome> {
    const turn = new Turn(this.context, message, finishing, this.perCall);
    const later = new Set<string>();
    const open = turn.openCalls();
    if (open.length > 0) {
      await eachAtOnce(open, this.parallel, async (id) => {
        if ((await settleCall(this.context, id, turn.closing)) === "later") later.add(id);
      });
    }
    const prepared = turn.prepare();
    for (let pending = prepared instanceof Promise ? await prepared : prepared; pending.length > 0; ) {
      this.context.stop.throwIfAborted();
      const wave = pending.slice(0, this.parallel);
      const [only] = wave;
      const isAlone = wave.length === 1 && only?.kind === "effect";
      const deferred = await (isAlone ? this.runOnly(turn, only, later) : this.runWave(turn, wave, later));
      pending = [...deferred, ...pending.slice(this.parallel)];
      if (deferred.length === wave.length) break;
    }
    if (turn.lacksResults) await turn.appendResults();
    if (turn.wasUnfinished) failpoint("results.appended");
    const waiting = turn.unsettled();
    if (waiting.length === 0) return { done: true, waiting, later: [], blocked: [] };
    const isWaiting = new Set(waiting);
    return {
      done: false,
      waiting,
      later: [...later].filter((id) => isWaiting.has(id)),
      blocked: [...turn.blocked.values()].filter(({ callId }) => isWaiting.has(callId)),
    };
  }

  /**
   * One call outside any message. Its arguments are durable with its intent, so it needs no other slot. True when it was
   * issued here and now, not by somebody else at the same time.
   */
  async runDirect(block: Pick<ToolCallBlock, "id" | "name" | "args">): Promise<boolean> {
    const { context } = this;
    let isIssued = false;
    const closing: Closing = (state) => this.perCall(state);
    if (!context.own.state.calls.has(block.id)) {
      const prepared = await prepareCall(context, block, null);
      const [wave, refused] = "error" in prepared ? [[], [prepared]] : [[prepared], []];
      for (
        let elsewhere: SettledElsewhere = "retry", tries = 0;
        elsewhere === "retry" && tries < 2;
        tries++
      ) {
        const { claimed, started } = await issueWave(context, wave, refused, () => []);
        elsewhere = claimed ? await settleElsewhere(context, claimed.call, claimed.by, closing) : "settled";
        isIssued ||= started.length > 0;
        for (const ready of started) await runIssued(context, ready, closing);
      }
    }
    if (context.own.state.openCalls.has(block.id)) await settleCall(context, block.id, closing);
    return isIssued;
  }

  /** Returns the calls that could not be issued because an open call stands in their way. */
  private async runWave(turn: Turn, wave: readonly Pending[], later: Set<string>): Promise<Pending[]> {
    const reads = wave.filter((each) => each.kind === "read");
    const running = reads.map((each) => turn.read(each.ready));
    // One may fail while the wave is being issued, when nobody waits for it yet: that must not end the process.
    for (const each of running) each.catch(() => undefined);
    try {
      const { started, deferred } = await this.issue(turn, wave, later);
      running.push(...started.map((ready) => this.runAndSettle(turn, ready, later)));
      await allSettled(running);
      return deferred;
    } finally {
      // Whatever went wrong with one, nobody else is left running unwatched.
      await Promise.allSettled(running);
    }
  }

  /** The same for a call that is alone, as most are: nobody else has to be watched, and none but a global key is ever taken. */
  private async runOnly(turn: Turn, only: Effect, later: Set<string>): Promise<readonly Pending[]> {
    const { ready } = only;
    const issuing: MaybePromise<Pick<WaveResult, "started"> & { readonly deferred: readonly unknown[] }> =
      ready.key.scope === "global"
        ? this.issue(turn, [only], later)
        : issueWave(this.context, [ready], NONE, turn.closingWave);
    const { started, deferred } = issuing instanceof Promise ? await issuing : issuing;
    if (started[0]) {
      const outcome = await runIssued(this.context, started[0], turn.closing);
      const settling = this.settleRest(turn, started[0], outcome, later);
      if (settling instanceof Promise) await settling;
    }
    return deferred.length > 0 ? [only] : NONE;
  }

  private async issue(turn: Turn, wave: readonly Pending[], later: Set<string>) {
    const refused = wave.filter((each) => each.kind === "refused").map((each) => each.refused);
    let effects = wave.filter((each) => each.kind === "effect").map((each) => each.ready);
    const deferred: Pending[] = [];
    const retried = new Set<string>();
    while (effects.length > 0 || refused.length > 0) {
      const issued = await issueWave(this.context, effects, refused, turn.closingWave);
      if (!issued.claimed) {
        deferred.push(...issued.deferred.map((ready) => ({ kind: "effect", ready }) as const));
        return { started: issued.started, deferred };
      }
      const { call: ready, by } = issued.claimed;
      const elsewhere = await settleElsewhere(this.context, ready, by, turn.closing);
      if (elsewhere === "retry" && !retried.has(ready.callId)) {
        retried.add(ready.callId);
        continue;
      }
      effects = effects.filter((each) => each !== ready);
      if (elsewhere === "settled") continue;
      later.add(ready.callId);
      if (elsewhere !== "retry") turn.block(ready, elsewhere);
      deferred.push({ kind: "effect", ready });
      if (effects.length === 0 && refused.length === 0) break;
    }
    return { started: [], deferred };
  }

  private async runAndSettle(turn: Turn, ready: ReadyCall, later: Set<string>): Promise<void> {
    await this.settleRest(turn, ready, await runIssued(this.context, ready, turn.closing), later);
  }

  /** What a run has left open, if anything. */
  private settleRest(
    turn: Turn,
    { callId }: ReadyCall,
    outcome: Outcome,
    later: Set<string>,
  ): Promise<void> | undefined {
    this.context.stop.throwIfAborted();
    // As nearly always: nothing is left to settle.
    if (!this.context.own.state.openCalls.has(callId)) return;
    if (outcome.kind === "unknown" && outcome.later) {
      later.add(callId);
      return;
    }
    return settleCall(this.context, callId, turn.closing).then((settled) => {
      if (settled === "later") later.add(callId);
    });
  }
}

type Effect = { readonly kind: "effect"; readonly ready: ReadyCall };

type Pending =
  | { readonly kind: "read"; readonly ready: ReadyCall }
  | Effect
  | { readonly kind: "refused"; readonly refused: RefusedCall };

const NONE: readonly never[] = [];

function pendingOf(prepared: ReadyCall | RefusedCall): Pending {
  if ("error" in prepared) return { kind: "refused", refused: prepared };
  return { kind: prepared.tool.effect === "read" ? "read" : "effect", ready: prepared };
}

/** One message's calls on their way to one message of results. */
class Turn {
  private readonly context: LedgerContext;
  private readonly message: Message;
  private readonly blocks: readonly ToolCallBlock[];
  private readonly finishing: Finishing;
  private readonly perCall: Finishing;
  /** Answers of reads: they live here until the results are appended, and are simply read again after a crash. */
  private readonly answers = new Map<string, Block>();
  private readonly finished: boolean;
  /** By the id of the call. */
  readonly blocked = new Map<string, BlockedCall>();

  constructor(context: LedgerContext, message: Message, finishing: Finishing, perCall: Finishing) {
    this.context = context;
    this.perCall = perCall;
    this.message = message;
    this.blocks = toolCalls(message);
    this.finishing = finishing;
    this.finished = !context.own.state.unfinished.has(message.id);
  }

  openCalls(): string[] {
    const ids: string[] = [];
    for (const { id } of this.blocks) if (isOpenCall(this.call(id))) ids.push(id);
    return ids;
  }

  /** Looked at one after another, in the order in which they were asked for. */
  prepare(from = 0, pending: Pending[] = []): MaybePromise<Pending[]> {
    for (let at = from; at < this.blocks.length; at++) {
      const block = this.blocks[at] as ToolCallBlock;
      if (this.call(block.id)) continue;
      const prepared = prepareCall(this.context, block, this.message.id);
      if (prepared instanceof Promise) {
        return prepared.then((each) => this.prepare(at + 1, [...pending, pendingOf(each)]));
      }
      pending.push(pendingOf(prepared));
    }
    return pending;
  }

  block({ callId, tool }: ReadyCall, by: Blocker): void {
    this.blocked.set(callId, { callId, tool: tool.name, by });
  }

  async read(ready: ReadyCall): Promise<void> {
    const { callId, tool } = ready;
    const facts = executeFacts(this.context, { id: callId, vendorKey: ready.key.key }, 1);
    const outcome = await attempt(tool, ready.args, facts);
    this.context.stop.throwIfAborted();
    if (outcome.kind === "completed") {
      this.answers.set(callId, { kind: "tool_result", callId, content: await this.content(outcome.value) });
    } else {
      const content = outcome.kind === "failed" ? outcome.error.message : outcome.why;
      this.answers.set(callId, { kind: "tool_result", callId, content, isError: true });
    }
  }

  /** A large answer stands in the transcript as a file: the message refers to it, so it is kept. */
  private async content(value: Json): Promise<string | Block[]> {
    const result = await storeResult(this.context.journal, value);
    if ("value" in result) return typeof value === "string" ? value : JSON.stringify(value);
    const text = `[${result.bytes} bytes, stored as artifact ${result.artifact}]`;
    return [
      { kind: "text", text },
      { kind: "file", artifact: result.artifact, mediaType: "application/json" },
    ];
  }

  /** The results, once the call that is being settled now was the last one missing. */
  readonly closing: Closing = (state, settledNow) => {
    const closing = this.results(state, (id) => id === settledNow);
    return closing.length > 0 ? closing : this.perCall(state);
  };

  readonly closingWave = (state: SessionState, settledNow: ReadonlySet<string>): readonly Draft[] =>
    this.results(state, (id) => settledNow.has(id));

  private results(state: SessionState, isSettledNow: (id: string) => boolean): readonly Draft[] {
    for (const { id } of this.blocks) if (!isSettledNow(id) && !this.hasAnswer(state, id)) return NONE;
    // Also when it was compacted away meanwhile: no provider takes results whose calls are not there.
    if (!state.unfinished.has(this.message.id)) return NONE;
    const blocks = this.blocks.map((block) => this.answers.get(block.id) ?? { call: block.id });
    const createdAt = isoTime(this.context.journal.now());
    return [draftResults(resultsId(this.message, state), createdAt, blocks), ...this.finishing(state)];
  }

  /** Whether its results were missing when it began. */
  get wasUnfinished(): boolean {
    return !this.finished && this.blocks.length > 0;
  }

  /** When reads came last, the results were not part of any call's commit. */
  get lacksResults(): boolean {
    return this.wasUnfinished && this.context.own.state.unfinished.has(this.message.id);
  }

  appendResults(): MaybePromise<void> {
    return this.context.own.write((state) => ({
      events: this.results(state, () => false),
      result: undefined,
    }));
  }

  unsettled(): string[] {
    const { state } = this.context.own;
    const ids: string[] = [];
    for (const { id } of this.blocks) if (!this.hasAnswer(state, id)) ids.push(id);
    return ids;
  }

  private hasAnswer(state: SessionState, id: string): boolean {
    if (this.answers.has(id) || this.finished) return true;
    const call = state.calls.get(id);
    return call !== undefined && !isOpen(call.status);
  }

  private call(id: string): Call | undefined {
    return this.context.own.state.calls.get(id);
  }
}

/** A message that was taken out of the transcript and put back without its results gets them once more. */
function resultsId({ id }: Message, { messageIds }: SessionState): string {
  let free = `${id}.results`;
  for (let tries = 2; messageIds.has(free); tries++) free = `${id}.results.${tries}`;
  return free;
}

function isOpenCall(call: Call | undefined): boolean {
  return call !== undefined && isOpen(call.status);
}

/** At most `limit` at a time; the first error is thrown after all that were started have ended. */
async function eachAtOnce<Item>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<unknown>,
): Promise<void> {
  const queue = [...items];
  const workers = Array.from({ length: Math.min(limit, queue.length) }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  });
  await allSettled(workers);
}

async function allSettled(work: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(work);
  const failure = results.find((result) => result.status === "rejected");
  if (failure) throw failure.reason;
}
