/**
 * Runs the tool calls of a message so that none is lost, none runs twice, and no outcome is guessed.
 *
 *     wave.ts       issues calls: the intent is durable before the effect
 *     recording.ts  starts an issued call and records its outcome
 *     settling.ts   settles calls whose outcome is unknown
 *
 * One message goes through these steps. Each can be the last one before a crash; the next run starts over,
 * and the log tells it which calls are settled already.
 *
 *     settle the calls an earlier run left open ──▶ issue and run the other calls, wave by wave
 *       ──▶ append one message with all results (in the commit of the last call, unless a read came last)
 *
 * A new message is appended in the commit that issues its first wave: `append`, then `run`.
 */

import { failpoint } from "../failpoint.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Block, Call, Message, SessionState, ToolCallBlock } from "../model/session/index.ts";
import { draftResults, isOpen, openCallsOf, toolCalls } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { isoTime } from "../model/time.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { callOf, executeFacts, type LedgerContext, storeResult } from "./context.ts";
import {
  attemptOf,
  type Closing,
  type KeptOutcomes,
  NOT_STARTED,
  OutcomeGroup,
  recordOutcome,
} from "./recording.ts";
import { settleCall } from "./settling.ts";
import type { Blocker, Leading, ReadyCall, RefusedCall, SettledElsewhere, WaveResult } from "./wave.ts";
import { issueWave, prepareCall, runIssued, settleElsewhere } from "./wave.ts";

/** The outcome of `session.calls`. */
export interface CallsOutcome {
  /** True if every call has an outcome and the results are in the transcript. */
  readonly done: boolean;
  /** Ids of the calls without an outcome, issued or not. */
  readonly waiting: readonly string[];
  /** Ids of the waiting calls that a later run settles without a person. */
  readonly later: readonly string[];
  /** Waiting calls that could not be issued because another session runs the same operation. */
  readonly blocked: readonly BlockedCall[];
}

/** A call that waits for a call of another session with the same global key. */
export interface BlockedCall {
  readonly callId: string;
  readonly tool: string;
  readonly by: Blocker;
}

/** Drafts for the commit that finishes the message, such as a checkpoint. */
export type Finishing = (state: SessionState) => readonly Draft[];

export class Ledger {
  private readonly context: LedgerContext;
  private readonly parallel: number;
  private readonly kept: KeptOutcomes;
  private readonly perCall: Finishing | null;

  /** `perCall` adds drafts to every commit that settles a call but does not finish its message. */
  constructor(
    context: LedgerContext,
    parallel: number,
    kept: KeptOutcomes,
    perCall: Finishing | null = null,
  ) {
    this.context = context;
    this.parallel = parallel;
    this.kept = kept;
    this.perCall = perCall;
  }

  /** Settles open calls for which `isMeant` is true. `run` settles the calls of its own message. */
  async settle(isMeant: (call: Call) => boolean): Promise<{ settled: string[]; open: string[] }> {
    failpoint("settle.begins");
    const unsettled = openCallsOf(this.context.own.state).filter(isMeant);
    const before = unsettled.map((call) => call.callId);
    await inParallel(before, this.parallel, (id) => settleCall(this.context, id, () => []));
    const open = new Set(this.context.own.state.openCalls);
    return { settled: before.filter((id) => !open.has(id)), open: [...open] };
  }

  /**
   * Makes a new message durable together with the intents of its first wave. `leading` drafts the message
   * with the ids of these calls, or null if they are taken. `appended` is called once it is durable, before
   * any call is reported. Call `run` right after, with the result.
   *
   * `issued` is null if nothing was written: then append the message alone. The model's answer does not wait
   * for a callback of the program.
   */
  async append(message: Message, leading: Leading, appended: () => void): Promise<FirstWave> {
    const pending = prepareCalls(this.context, message);
    const size = this.parallel;
    if (pending instanceof Promise) return { pending, issued: null, size };
    const wave = pending.slice(0, this.parallel);
    const effects = wave.filter((each) => each.kind === "effect").map((each) => each.ready);
    const refused = wave.filter((each) => each.kind === "refused").map((each) => each.refused);
    if (effects.length + refused.length === 0) return { pending, issued: null, size };
    const issuing = issueWave(this.context, effects, refused, () => NONE, { leading, appended });
    const { started, deferred, claimed, outdated } = issuing instanceof Promise ? await issuing : issuing;
    if (outdated) return { pending: null, issued: null, size };
    if (claimed) return { pending, issued: null, size };
    for (const { callId } of started) this.context.attempts.expect(callId);
    return { pending, issued: { started, deferred: deferred.map(effectOf) }, size };
  }

  /** Records that the calls of a first wave did not start, so that the next run may start them. */
  async abandon({ issued }: FirstWave): Promise<void> {
    for (const { callId } of issued?.started ?? []) {
      const run = attemptOf(this.context, callOf(this.context.own.state, callId), 1);
      const recording = Promise.resolve(recordOutcome(this.context, run, NOT_STARTED, () => NONE));
      this.context.attempts.track(callId, recording);
      await recording;
    }
  }

  /** `first`: the wave that `append` has issued, which starts now. Otherwise the message is durable. */
  async run(message: Message, finishing: Finishing, first?: FirstWave): Promise<CallsOutcome> {
    const turn = new Turn(this.context, message, finishing, this.perCall);
    const later = new Set<string>();
    let issued = first?.issued ?? null;
    const open = issued ? [] : turn.openCalls();
    if (open.length > 0) {
      await inParallel(open, this.parallel, async (id) => {
        if ((await settleCall(this.context, id, turn.closing)) === "later") later.add(id);
      });
    }
    const prepared = first?.pending ?? prepareCalls(this.context, message);
    for (let pending = prepared instanceof Promise ? await prepared : prepared; pending.length > 0; ) {
      // Issued calls are started in any case, or recorded as not started (`recording.ts`).
      if (!issued) this.context.stop.throwIfAborted();
      if (!issued && this.context.drain.aborted) break;
      const size = (issued && first?.size) ?? this.parallel;
      const wave = pending.slice(0, size);
      const [only] = wave;
      const isSingle = wave.length === 1 && only?.kind === "effect";
      const deferred = await (isSingle
        ? this.runSingle(turn, only, later, issued)
        : this.runWave(turn, wave, later, issued));
      issued = null;
      pending = [...deferred, ...pending.slice(size)];
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
   * Runs one call without a message. True if it was issued here, not by another handle meanwhile.
   * With `keeps` its result becomes durable in the owner's next commit. `closing` joins its outcome's commit.
   */
  async runDirect(
    block: Pick<ToolCallBlock, "id" | "name" | "args">,
    keeps = false,
    closing: Closing = (state) => this.perCall?.(state) ?? NONE,
  ): Promise<boolean> {
    const { context, kept } = this;
    let isIssued = false;
    let isUnstarted = false;
    if (!context.own.state.calls.has(block.id) && !context.drain.aborted) {
      const prepared = await prepareCall(context, block, null);
      const [wave, refused] = "error" in prepared ? [[], [prepared]] : [[prepared], []];
      let elsewhere: SettledElsewhere = "retry";
      for (let tries = 0; elsewhere === "retry" && tries < 2; tries++) {
        const { claimed, started } = await this.issueDirect(wave, refused, closing);
        elsewhere = claimed ? await settleElsewhere(context, claimed.call, claimed.by, closing) : "settled";
        isIssued ||= started.length > 0;
        for (const ready of started) {
          const outcome = await runIssued(context, ready, closing, { keepIn: keeps ? kept : undefined });
          isUnstarted = outcome.kind === "unknown" && outcome.later === true && outcome.started === false;
        }
      }
    }
    // A tool that has to be asked again later must not be asked again at once.
    if (isUnstarted || kept.find(block.id)) return isIssued;
    if (context.own.state.openCalls.has(block.id)) await settleCall(context, block.id, closing);
    return isIssued;
  }

  /** The same commit makes the outcomes of earlier calls durable, if any are kept. */
  private async issueDirect(
    wave: readonly ReadyCall[],
    refused: readonly RefusedCall[],
    closing: Closing,
  ): Promise<WaveResult> {
    const { context, kept } = this;
    const closingWave = (state: SessionState, settled: ReadonlySet<string>): readonly Draft[] =>
      [...settled].flatMap((callId) => closing(state, callId));
    if (kept.size === 0) return issueWave(context, wave, refused, closingWave);
    const leading: Leading = (state, head) => kept.drafts(state, head, wave[0]?.key.key ?? null);
    const lead = { leading, appended: () => kept.noteDurable(), hasKept: true };
    let issued: WaveResult;
    try {
      issued = await issueWave(context, wave, refused, closingWave, lead);
    } catch (error) {
      // The next owner needs the kept answers, and this program may end with the error.
      if (isHoldfastError(error, "LEASE_LOST")) await kept.flush();
      throw error;
    }
    return issued.outdated ? issueWave(context, wave, refused, closingWave) : issued;
  }

  private async runWave(
    turn: Turn,
    wave: readonly Pending[],
    later: Set<string>,
    issued: Issued | null,
  ): Promise<readonly Pending[]> {
    const reads = wave.filter((each) => each.kind === "read");
    const running = reads.map((each) => turn.read(each.ready));
    // A read may fail before it is awaited below: an unhandled rejection would end the process.
    for (const each of running) each.catch(() => undefined);
    try {
      const { started, deferred } = issued ?? (await this.issue(turn, wave, later));
      const { context } = this;
      const group = this.perCall ? undefined : new OutcomeGroup(context, started.length, turn.closingWave);
      const runAndSettle = async (ready: ReadyCall): Promise<void> =>
        this.settleIfOpen(turn, ready, await runIssued(context, ready, turn.closing, { group }), later);
      running.push(...started.map(runAndSettle));
      await allSettled(running);
      return deferred;
    } finally {
      // If one call fails, the others are still awaited: none runs on unobserved.
      await Promise.allSettled(running);
    }
  }

  /** Fast path for a wave of one effect, the usual case: there is no other call to await. */
  private async runSingle(
    turn: Turn,
    only: Effect,
    later: Set<string>,
    issued: Issued | null,
  ): Promise<readonly Pending[]> {
    const { ready } = only;
    const issue = (): MaybePromise<
      Pick<WaveResult, "started"> & { readonly deferred: readonly unknown[] }
    > =>
      ready.key.scope === "global"
        ? this.issue(turn, [only], later)
        : issueWave(this.context, [ready], NONE, turn.closingWave);
    const issuing = issued ?? issue();
    const { started, deferred } = issuing instanceof Promise ? await issuing : issuing;
    if (started[0]) {
      const outcome = await runIssued(this.context, started[0], turn.closing);
      const settling = this.settleIfOpen(turn, started[0], outcome, later);
      if (settling instanceof Promise) await settling;
    }
    return deferred.length > 0 ? [only] : NONE;
  }

  /** Issues the effects of a wave. Calls whose key another session has claimed leave the wave one by one. */
  private async issue(turn: Turn, wave: readonly Pending[], later: Set<string>) {
    const refused = wave.filter((each) => each.kind === "refused").map((each) => each.refused);
    let effects = wave.filter((each) => each.kind === "effect").map((each) => each.ready);
    const deferred: Pending[] = [];
    const retried = new Set<string>();
    while (effects.length > 0 || refused.length > 0) {
      const issued = await issueWave(this.context, effects, refused, turn.closingWave);
      if (!issued.claimed) {
        deferred.push(...issued.deferred.map(effectOf));
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
      const { callId, tool } = ready;
      if (elsewhere !== "retry") turn.blocked.set(callId, { callId, tool: tool.name, by: elsewhere });
      deferred.push(effectOf(ready));
      if (effects.length === 0 && refused.length === 0) break;
    }
    return { started: [], deferred };
  }

  private settleIfOpen(
    turn: Turn,
    { callId }: ReadyCall,
    outcome: Outcome,
    later: Set<string>,
  ): Promise<void> | undefined {
    this.context.stop.throwIfAborted();
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

/** A wave whose intents are durable. `deferred` calls wait for a later one. */
interface Issued {
  readonly started: readonly ReadyCall[];
  readonly deferred: readonly Effect[];
}

/** The first wave of a message that `append` was called with. */
export interface FirstWave {
  /** All calls of the message. Null if they have to be prepared again, because their ids have changed. */
  readonly pending: MaybePromise<readonly Pending[]> | null;
  readonly issued: Issued | null;
  /** How many of the calls belong to it. */
  readonly size: number;
}

const NONE: readonly never[] = [];

function effectOf(ready: ReadyCall): Effect {
  return { kind: "effect", ready };
}

/** The calls of a message that are not in the log yet. */
function prepareCalls(context: LedgerContext, message: Message): MaybePromise<readonly Pending[]> {
  const blocks = toolCalls(message);
  const prepareFrom = (from: number, pending: readonly Pending[]): MaybePromise<readonly Pending[]> => {
    const found = [...pending];
    for (let at = from; at < blocks.length; at++) {
      const block = blocks[at] as ToolCallBlock;
      if (context.own.state.calls.has(block.id)) continue;
      const prepared = prepareCall(context, block, message.id);
      if (prepared instanceof Promise)
        return prepared.then((each) => prepareFrom(at + 1, [...found, pendingOf(each)]));
      found.push(pendingOf(prepared));
    }
    return found;
  };
  return prepareFrom(0, NONE);
}

function pendingOf(prepared: ReadyCall | RefusedCall): Pending {
  if ("error" in prepared) return { kind: "refused", refused: prepared };
  return { kind: prepared.tool.effect === "read" ? "read" : "effect", ready: prepared };
}

class Turn {
  private readonly context: LedgerContext;
  private readonly message: Message;
  private readonly blocks: readonly ToolCallBlock[];
  private readonly finishing: Finishing;
  private readonly perCall: Finishing | null;
  /** Results of reads, in memory until the results are appended. After a crash the reads run again. */
  private readonly answers = new Map<string, Block>();
  private readonly wasFinished: boolean;
  readonly blocked = new Map<string, BlockedCall>();

  constructor(context: LedgerContext, message: Message, finishing: Finishing, perCall: Finishing | null) {
    this.context = context;
    this.perCall = perCall;
    this.message = message;
    this.blocks = toolCalls(message);
    this.finishing = finishing;
    this.wasFinished = !context.own.state.unfinished.has(message.id);
  }

  openCalls(): string[] {
    const { openCalls } = this.context.own.state;
    return this.blocks.map(({ id }) => id).filter((id) => openCalls.has(id));
  }

  async read(ready: ReadyCall): Promise<void> {
    const { callId, tool } = ready;
    const facts = executeFacts(this.context, { callId, vendorKey: ready.key.key }, 1);
    const outcome = await attempt(tool, ready.args, facts);
    this.context.stop.throwIfAborted();
    if (outcome.kind === "completed") {
      this.answers.set(callId, { kind: "tool_result", callId, content: await this.content(outcome.value) });
    } else {
      const content = outcome.kind === "failed" ? outcome.error.message : outcome.why;
      this.answers.set(callId, { kind: "tool_result", callId, content, isError: true });
    }
  }

  /** A large answer becomes a file block, whose reference keeps the artifact from being pruned. */
  private async content(value: Json): Promise<string | Block[]> {
    const result = await storeResult(this.context.journal, value);
    if ("value" in result) return typeof value === "string" ? value : JSON.stringify(value);
    const text = `[${result.bytes} bytes, stored as artifact ${result.artifact}]`;
    return [
      { kind: "text", text },
      { kind: "file", artifact: result.artifact, mediaType: "application/json" },
    ];
  }

  readonly closing: Closing = (state, settledNow) => {
    const closing = this.results(state, (id) => id === settledNow);
    return closing.length > 0 ? closing : (this.perCall?.(state) ?? NONE);
  };

  readonly closingWave = (state: SessionState, settledNow: ReadonlySet<string>): readonly Draft[] =>
    this.results(state, (id) => settledNow.has(id));

  private results(state: SessionState, isSettledNow: (id: string) => boolean): readonly Draft[] {
    for (const { id } of this.blocks) if (!isSettledNow(id) && !this.hasAnswer(state, id)) return NONE;
    // Not unfinished any more, or compacted away meanwhile: no provider accepts results without their calls.
    if (!state.unfinished.has(this.message.id)) return NONE;
    const blocks = this.blocks.map((block) => this.answers.get(block.id) ?? { callId: block.id });
    const createdAt = isoTime(this.context.journal.now());
    return [draftResults(resultsId(this.message, state), createdAt, blocks), ...this.finishing(state)];
  }

  get wasUnfinished(): boolean {
    return !this.wasFinished && this.blocks.length > 0;
  }

  /** True if no call's commit has appended the results, because a read came last. */
  get lacksResults(): boolean {
    return this.wasUnfinished && this.context.own.state.unfinished.has(this.message.id);
  }

  appendResults(): MaybePromise<void> {
    return this.context.own.write((state) => {
      return { events: this.results(state, () => false), result: undefined };
    });
  }

  unsettled(): string[] {
    const { state } = this.context.own;
    return this.blocks.map(({ id }) => id).filter((id) => !this.hasAnswer(state, id));
  }

  private hasAnswer(state: SessionState, id: string): boolean {
    if (this.answers.has(id) || this.wasFinished) return true;
    const call = state.calls.get(id);
    return call !== undefined && !isOpen(call.status);
  }
}

/** A message that was removed and put back without its results gets a second results message. */
function resultsId({ id }: Message, { messageIds }: SessionState): string {
  let free = `${id}.results`;
  for (let tries = 2; messageIds.has(free); tries++) free = `${id}.results.${tries}`;
  return free;
}

async function inParallel<Item>(
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
