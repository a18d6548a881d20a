/**
 * Starts an issued call and records its outcome.
 *
 *     intent durable ──▶ lease still ours? ──▶ execute ──▶ outcome durable
 *
 * The owner records with the lease. Without the lease only the attempt's own late answer is recorded: anybody
 * may append that, because it can only add knowledge.
 *
 * Outcomes of one wave that arrive in the same turn of the event loop share a commit (`OutcomeGroup`). A
 * crash before it leaves them unknown, as a crash before any outcome is durable does.
 *
 * With `settle: "with-next"` the result of a direct call is kept in memory (`KeptOutcomes`). It becomes
 * durable in the commit of the next intent, or before any other commit of the owner:
 *
 *     [ intent 1 ] ──▶ effect 1 ──▶ kept ──▶ [ outcome 1 · intent 2 ] ──▶ effect 2 ──▶ kept ──▶ [ outcome 2 ]
 *
 * A crash right after one of these steps leaves:
 *
 *     the effect, or failpoint call.kept    a call that looks started: unknown, settled as any other
 *     [ outcome · next intent ]             the outcome, and a next call that looks started
 *     the store refuses that commit         the outcome is still kept, and the next effect has not started
 *     another process takes over            its own late answer is recorded, if the call is still open
 *
 * The outcomes that may be recorded for a call:
 *
 *     completed   by any attempt: that one took effect
 *     failed      by the current attempt, while no earlier attempt is in doubt; else it counts as unknown
 *     unknown     by the current attempt, once
 */

import { setImmediate } from "node:timers";
import { failpoint } from "../failpoint.ts";
import { commitResult, type Decision, type Journal, type OwnedLog } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import type { Call, CallResult, SessionState } from "../model/session/index.ts";
import { draftCompleted, isOpen } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { callOf, executeFacts, type LedgerContext, smallResult, storeResult } from "./context.ts";
import { commitFailure, type FailureMarks } from "./failure-marks.ts";
import type { Tool } from "./tool.ts";
import { canCheckPresumed, checkPresumed } from "./verify.ts";
import { sleep } from "./waiting.ts";

/** Drafts that close the message if `settledNow` was its last open call. */
export type Closing = (state: SessionState, settledNow: string) => readonly Draft[];

export interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly tool: string;
  /** The session's generation. A later session of the same name must not get this attempt's outcome. */
  readonly generation: number;
}

export function attemptOf({ own }: LedgerContext, { callId: id, tool }: Call, attempt: number): Attempt {
  return { id, attempt, tool, generation: own.log.head.generation };
}

export const NOT_STARTED = {
  kind: "unknown",
  why: "stopped before it began",
  late: null,
  started: false,
} as const satisfies Outcome;

const RECORD_TRIES = 6;
const RECORD_PAUSE_MS = 25;

interface Start {
  readonly run: Attempt;
  readonly vendorKey: string;
  readonly tool: Tool;
  readonly args: unknown;
  readonly closing: Closing;
  readonly group?: OutcomeGroup | undefined;
  /** Keeps a small result in memory until the owner's next commit. */
  readonly keepIn?: KeptOutcomes | undefined;
}

/** Runs an issued call. It is registered meanwhile, so that this process does not take it for lost. */
export function startAndRecord(context: LedgerContext, start: Start): Promise<Outcome> {
  const work = startAttempt(context, start);
  context.attempts.track(start.run.id, work);
  return work;
}

async function startAttempt(context: LedgerContext, start: Start): Promise<Outcome> {
  const { run, vendorKey, tool, args, closing, group } = start;
  const { lease } = context.own;
  try {
    let confirm: (() => Promise<void>) | null = null;
    while (!mayStart(context)) {
      confirm ??= context.journal.leases.confirmationPoller(lease);
      await confirm();
    }
  } catch (error) {
    if (!lease.lost.aborted) await recordOutcome(context, run, NOT_STARTED, closing);
    throw error;
  }
  const facts = executeFacts(context, { callId: run.id, vendorKey }, run.attempt);
  const answer = attempt(tool, args, facts);
  let outcome = answer instanceof Promise ? await answer : answer;
  failpoint("call.executed");
  if (outcome.kind === "failed" && outcome.presumed) {
    const call = callOf(context.own.state, run.id);
    if (canCheckPresumed(tool, call))
      outcome = await checkPresumed({ context, call, tool, args }, outcome.error.message);
  }
  // Before the write, which throws if the lease is lost: the attempt's own answer is recorded all the same.
  if (outcome.kind === "unknown" && outcome.late) watchLate(context, run, outcome.late);
  if (start.keepIn?.keep({ context, run, outcome, by: "execute", closing })) return outcome;
  const recorded = recordOutcome(context, run, outcome, closing, group);
  if (recorded instanceof Promise) await recorded;
  return outcome;
}

/** Is the lease still ours? False: ask the store first. Nothing is awaited between this and the effect. */
function mayStart(context: LedgerContext): boolean {
  if (!context.journal.leases.isSurelyHeld(context.own.lease)) return false;
  context.stop.throwIfAborted();
  failpoint("call.starts");
  return true;
}

export function recordOutcome(
  context: LedgerContext,
  run: Attempt,
  outcome: Outcome,
  closing: Closing,
  group?: OutcomeGroup,
): MaybePromise<void> {
  const forget = context.attempts.remember(run, outcome);
  const recorded = (wrote: boolean): void => {
    forget();
    failpoint("call.recorded");
    if (wrote) emitOutcome(context, run, outcome);
  };
  const answer = write({ context, run, outcome, by: "execute", closing }, group);
  if (!(answer instanceof Promise)) return recorded(answer);
  return answer.then(recorded, async (error: unknown) => {
    if (isHoldfastError(error, "LEASE_LOST")) {
      if (outcome.kind !== "unknown") await write({ context, run, outcome, ...LATE });
      forget();
    }
    throw error;
  });
}

interface Recording {
  readonly context: LedgerContext;
  readonly run: Attempt;
  readonly outcome: Outcome;
  readonly by: "execute" | "late";
  readonly closing: Closing;
}

const LATE = { by: "late", closing: () => [] } as const;

function write(recording: Recording, group?: OutcomeGroup): MaybePromise<boolean> {
  const { context, outcome } = recording;
  if (outcome.kind !== "completed") {
    group?.leave();
    return commitOutcome(recording, null);
  }
  const small = smallResult(outcome.value);
  if (small) return group ? group.add(recording, small) : commitOutcome(recording, small);
  group?.leave();
  const stored = withRetries(stopOf(recording), () => storeResult(context.journal, outcome.value));
  return andThen(stored, (result) => {
    failpoint("result.stored");
    return commitOutcome(recording, result);
  });
}

interface GroupedOutcome {
  readonly recording: Recording;
  readonly result: CallResult;
  resolve(wrote: boolean): void;
  reject(error: unknown): void;
}

/** The results of one wave. A commit takes those that are there when this turn of the event loop ends. */
export class OutcomeGroup {
  private readonly context: LedgerContext;
  private readonly closing: (state: SessionState, settled: ReadonlySet<string>) => readonly Draft[];
  private running: number;
  private waiting: GroupedOutcome[] = [];

  constructor(context: LedgerContext, running: number, closing: OutcomeGroup["closing"]) {
    this.context = context;
    this.running = running;
    this.closing = closing;
  }

  /** True if the outcome was news, once it is durable. */
  add(recording: Recording, result: CallResult): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ recording, result, resolve, reject });
      if (this.waiting.length === 1) setImmediate(() => void this.flush());
      this.leave();
    });
  }

  /** The other calls need not be waited for when all of them have ended. */
  leave(): void {
    this.running -= 1;
    if (this.running === 0) void this.flush();
  }

  private async flush(): Promise<void> {
    const group = this.waiting;
    if (group.length === 0) return;
    this.waiting = [];
    const { own } = this.context;
    const commit = () => own.commit((state, { generation }) => this.decide(state, generation, group));
    try {
      const wrote = await withRetries(own.lease.lost, () => andThen(commit(), commitResult));
      for (const each of group) each.resolve(wrote.has(each.recording.run.id));
    } catch (error) {
      for (const each of group) each.reject(error);
    }
  }

  private decide(
    state: SessionState,
    generation: number,
    group: readonly GroupedOutcome[],
  ): Decision<ReadonlySet<string>> {
    const settled = new Set<string>();
    const events: Draft[] = [];
    for (const { recording, result } of group) {
      if (recording.run.generation !== generation) continue;
      const decision = decideOutcome({ ...recording, closing: () => [] }, state, result, {});
      events.push(...decision.events);
      if (decision.result) settled.add(recording.run.id);
    }
    if (settled.size > 0) events.push(...this.closing(state, settled));
    return { events, result: settled };
  }
}

interface KeptOutcome {
  readonly recording: Recording;
  readonly value: Json;
  readonly note: string | null;
  readonly result: CallResult;
  forget(): void;
}

/**
 * Results of direct calls that are not durable yet. A commit of the owner either includes them (`drafts`, for
 * the next intent) or comes after them (`flush`). Each stays here until the state shows its call as settled.
 */
export class KeptOutcomes {
  private readonly own: OwnedLog<SessionState>;
  private readonly kept = new Map<string, KeptOutcome>();

  constructor(own: OwnedLog<SessionState>, warn: Journal["warn"]) {
    this.own = own;
    // The next owner can use the answers, also if this program never closes its handle.
    own.lease.lost.addEventListener("abort", () => void this.flush().catch(warn), { once: true });
  }

  get size(): number {
    return this.kept.size;
  }

  find(callId: string): Pick<KeptOutcome, "value" | "note"> | undefined {
    return this.kept.get(callId);
  }

  /** False if the outcome has to be recorded at once: others wait for it, or it is more than a result. */
  keep(recording: Recording): boolean {
    const { context, run, outcome } = recording;
    if (outcome.kind !== "completed" || context.riders.has(run.id) || this.own.lease.lost.aborted)
      return false;
    // A frozen copy of what the tool returned: it cannot change before it is written.
    const result = smallResult(outcome.value);
    if (!result || callOf(this.own.state, run.id).scope === "global") return false;
    const forget = context.attempts.remember(run, outcome);
    const { value, note } = outcome;
    this.kept.set(run.id, { recording, value, note, result, forget });
    this.own.flushKept = () => this.flush();
    failpoint("call.kept");
    return true;
  }

  /** Null if a kept call has the key: whether the next call repeats it depends on its outcome. */
  drafts(state: SessionState, { generation }: { generation: number }, key: string | null): Draft[] | null {
    const events: Draft[] = [];
    for (const { recording, result } of this.kept.values()) {
      const { run } = recording;
      if (run.generation !== generation) continue;
      if (key !== null && state.calls.get(run.id)?.key === key) return null;
      events.push(...decideOutcome(recording, state, result, {}).events);
    }
    return events;
  }

  /** Call it after a commit: forgets the outcomes that are durable. */
  noteDurable(): void {
    const { state, head } = this.own.log;
    for (const [callId, { recording, forget }] of this.kept) {
      const isSame = recording.run.generation === head.generation;
      if (isSame && isOpen(state.calls.get(callId)?.status ?? "failed")) continue;
      this.kept.delete(callId);
      forget();
    }
    if (this.kept.size === 0) this.own.flushKept = null;
  }

  /** Records all of them in one commit; without the lease, each as its call's own late answer. */
  async flush(): Promise<void> {
    if (this.kept.size === 0) return;
    const decide = (state: SessionState, head: { generation: number }): Decision<void> => {
      return { events: this.drafts(state, head, null) ?? [], result: undefined };
    };
    try {
      const commit = () => andThen(this.own.commit(decide, true), commitResult);
      await withRetries(this.own.lease.lost, commit);
    } catch (error) {
      if (!isHoldfastError(error, "LEASE_LOST")) throw error;
      for (const { recording, forget } of [...this.kept.values()]) {
        await write({ ...recording, ...LATE });
        this.kept.delete(recording.run.id);
        forget();
      }
    }
    this.noteDurable();
    failpoint("call.recorded");
  }
}

function commitOutcome(recording: Recording, result: CallResult | null): MaybePromise<boolean> {
  const { context, run, outcome, by } = recording;
  const { own, journal } = context;
  const commit = (marks: FailureMarks) => {
    const decide = (state: SessionState, head: { generation: number }): Decision<boolean> =>
      head.generation === run.generation ? decideOutcome(recording, state, result, marks) : NOTHING;
    return by === "late" ? own.log.commitMaybeSync(decide) : own.commit(decide);
  };
  return withRetries(stopOf(recording), () =>
    outcome.kind === "failed"
      ? commitFailure(journal, own.state.calls.get(run.id), commit)
      : andThen(commit({}), commitResult),
  );
}

/** The signal that ends retries. A late answer needs no lease, so a lost lease does not end them. */
function stopOf({ context, by }: Recording): AbortSignal {
  return by === "late" ? NEVER : context.own.lease.lost;
}

const NEVER = new AbortController().signal;
const NOTHING: Decision<boolean> = { events: [], result: false };

/** Retries while the store fails for a moment: giving up would make a known outcome unknown. */
function withRetries<Result>(stop: AbortSignal, write: () => MaybePromise<Result>): MaybePromise<Result> {
  const retry = async (first: unknown): Promise<Result> => {
    let error = first;
    for (let tries = 1; ; tries++) {
      if (!isHoldfastError(error) || !error.retryable || tries >= RECORD_TRIES) throw error;
      await sleep(RECORD_PAUSE_MS * 2 ** tries, stop);
      try {
        return await write();
      } catch (another) {
        error = another;
      }
    }
  };
  const answer = write();
  return answer instanceof Promise ? answer.catch(retry) : answer;
}

function watchLate(context: LedgerContext, run: Attempt, late: Promise<Outcome>): void {
  const watching = late
    .then(async (outcome) => {
      if (outcome.kind === "unknown" || isWorthChecking(context, run, outcome)) {
        // In memory, too: a newer handle of this process has the lease now, so this one cannot write.
        context.attempts.end(run, context.journal.steady());
        const why = outcome.kind === "unknown" ? outcome.why : `it threw: ${outcome.error.message}`;
        return recordStillUnknown(context, run, why);
      }
      const forget = context.attempts.remember(run, outcome);
      await write({ context, run, outcome, ...LATE });
      forget();
    })
    .catch((error: unknown) => {
      if (!isHoldfastError(error, "STORE_CLOSED")) context.journal.warn(error);
    });
  context.attempts.track(run.id, watching);
}

function isWorthChecking(context: LedgerContext, run: Attempt, outcome: Outcome): outcome is Failed {
  const tool = context.tools.get(run.tool);
  const call = context.own.state.calls.get(run.id);
  const canCheck = tool !== undefined && call !== undefined && canCheckPresumed(tool, call);
  return canCheck && outcome.kind === "failed" && outcome.presumed === true;
}

/** Records the attempt's end: `settleMs` counts from here. Written as the owner, or not at all. */
async function recordStillUnknown(context: LedgerContext, run: Attempt, why: string): Promise<void> {
  const { own } = context;
  const decide = (state: SessionState) => {
    const call = state.calls.get(run.id);
    const same = call?.status === "unknown" && call.attempt === run.attempt;
    const data = { callId: run.id, attempt: run.attempt, why };
    return { events: same ? [{ type: "call.lost", data }] : [], result: undefined };
  };
  try {
    await withRetries(own.lease.lost, () => own.write(decide));
  } catch (error) {
    if (!isHoldfastError(error, "LEASE_LOST")) throw error;
  }
}

function decideOutcome(
  { context, run, outcome: reported, by, closing }: Recording,
  state: SessionState,
  result: CallResult | null,
  marks: FailureMarks,
): Decision<boolean> {
  const call = state.calls.get(run.id);
  if (!call || !isOpen(call.status)) return NOTHING;
  const outcome = withEarlierDoubt(call, run, reported);
  if (outcome.kind !== "completed" && call.attempt !== run.attempt) return NOTHING;
  if (outcome.kind === "unknown") {
    return call.status === "issued" ? { events: draftsOfLost(run, outcome), result: true } : NOTHING;
  }
  const isCompleted = outcome.kind === "completed";
  const draft = isCompleted
    ? draftOfCompleted(call, outcome, result, by)
    : draftOfFailed(run, outcome, by, marks);
  const rest = by === "execute" ? closing(state, run.id) : [];
  return { events: [...(context.riders.get(run.id) ?? []), draft, ...rest], result: true };
}

/** "This attempt had no effect" says nothing about an earlier attempt whose outcome is unknown. */
function withEarlierDoubt(call: Call, run: Attempt, outcome: Outcome): Outcome {
  if (outcome.kind !== "failed" || call.doubt === null || call.doubt === run.attempt) return outcome;
  const { message } = outcome.error;
  const why = `attempt ${run.attempt} failed (${message}), but attempt ${call.doubt} may have landed`;
  return { kind: "unknown", why, late: null };
}

function draftOfCompleted(
  { callId, attempt }: Call,
  { note, why }: Extract<Outcome, { kind: "completed" }>,
  result: CallResult | null,
  by: Recording["by"],
): Draft {
  if (!result) throw new Error(`call ${callId}: completed without a result`);
  const remarks = { ...(note !== null && { note }), ...(why !== undefined && { why }) };
  return draftCompleted({ callId, attempt, result, by, ...remarks });
}

type Failed = Extract<Outcome, { kind: "failed" }>;

function draftOfFailed(
  run: Attempt,
  { error, presumed, verified }: Failed,
  written: Recording["by"],
  marks: FailureMarks,
): Draft {
  const certain = verified ? "verify" : written === "late" ? "late" : "definite";
  const by = presumed ? "presumed" : certain;
  return { type: "call.failed", data: { callId: run.id, attempt: run.attempt, error, by, ...marks } };
}

function draftsOfLost(run: Attempt, outcome: Extract<Outcome, { kind: "unknown" }>): Draft[] {
  const { why, started, person } = outcome;
  const more = { ...(started === false && { started }), ...(person && { person }) };
  return [{ type: "call.lost", data: { callId: run.id, attempt: run.attempt, why, ...more } }];
}

function emitOutcome(context: LedgerContext, run: Attempt, outcome: Outcome): void {
  const { id: callId, tool } = run;
  if (outcome.kind === "completed") {
    const note = outcome.note === null ? {} : { note: outcome.note };
    context.on({ type: "call.completed", callId, tool, by: "execute", ...note });
  } else if (outcome.kind === "failed")
    context.on({ type: "call.failed", callId, tool, error: outcome.error.message });
  else context.on({ type: "call.unknown", callId, tool, why: outcome.why });
}
