/**
 * Writing down what an attempt came to. With the lease: as its owner. Without it: only the attempt's own late
 * answer, which anyone may append because it can only add to what is known.
 *
 * What an outcome may say of its call:
 *
 *     completed   of any attempt: that one landed
 *     failed      of the current attempt only, and only while no earlier one is in doubt; else it stays unknown
 *     unknown     of the current attempt, once
 */

import { failpoint } from "../failpoint.ts";
import { commitResult, type Decision } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import {
  type Call,
  type CallResult,
  draftCompleted,
  isOpen,
  type SessionState,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { callOf, executeFacts, type LedgerContext, smallResult, storeResult } from "./context.ts";
import { commitFailure, type FailureMarks } from "./failure-marks.ts";
import type { Tool } from "./tool.ts";
import { isOpenToDoubt, lookedInto } from "./verify.ts";
import { sleep } from "./waiting.ts";

/**
 * From a durable intent to a recorded outcome. The attempt is registered for as long as it runs, so that nobody else
 * in this process takes it for lost.
 */

export function startAndRecord(
  context: LedgerContext,
  run: Attempt,
  vendorKey: string,
  tool: Tool,
  args: unknown,
  closing: Closing,
): Promise<Outcome> {
  const work = startAttempt(context, run, vendorKey, tool, args, closing);
  context.attempts.track(run.id, work);
  return work;
}

async function startAttempt(
  context: LedgerContext,
  run: Attempt,
  vendorKey: string,
  tool: Tool,
  args: unknown,
  closing: Closing,
): Promise<Outcome> {
  const { lease } = context.own;
  try {
    let ask: (() => Promise<void>) | null = null;
    while (!mayStart(context)) {
      ask ??= context.journal.leases.confirmationPoller(lease);
      await ask();
    }
  } catch (error) {
    const never: Outcome = { kind: "unknown", why: "stopped before it began", late: null, started: false };
    if (!lease.lost.aborted) await recordOutcome(context, run, never, closing);
    throw error;
  }
  const facts = executeFacts(context, { id: run.id, vendorKey }, run.attempt);
  const answer = attempt(tool, args, facts);
  let outcome = answer instanceof Promise ? await answer : answer;
  failpoint("call.executed");
  if (outcome.kind === "failed" && outcome.presumed) {
    const call = callOf(context.own.state, run.id);
    if (isOpenToDoubt(tool, call))
      outcome = await lookedInto({ context, call, tool, args }, outcome.error.message);
  }
  // Before anything is written: a process that has lost its lease still records its attempt's own answer.
  if (outcome.kind === "unknown" && outcome.late) watchLate(context, run, outcome.late);
  const recorded = recordOutcome(context, run, outcome, closing);
  if (recorded instanceof Promise) await recorded;
  return outcome;
}

/**
 * The last look before an effect. The intent is durable under our lease, which must still be ours; false when the store
 * has to be asked first. Nothing is awaited between the look and the start: a process that is stopped at the start of
 * one call looks again before the next.
 */
function mayStart(context: LedgerContext): boolean {
  if (!context.journal.leases.isSurelyHeld(context.own.lease)) return false;
  context.stop.throwIfAborted();
  failpoint("call.starts");
  return true;
}

/** Drafts that close the message once its last call is settled; they ride on that call's own commit. */
export type Closing = (state: SessionState, settledNow: string) => readonly Draft[];

/** One attempt, by the number it was started with: the fold's own may have moved on since. */
export interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly tool: string;
  /** The life of the session that it belongs to: another of the same name knows nothing of it. */
  readonly generation: number;
}

const RECORD_TRIES = 6;
const RECORD_PAUSE_MS = 25;

/** Records the outcome; what somebody else recorded first stands. */
export function recordOutcome(
  context: LedgerContext,
  run: Attempt,
  outcome: Outcome,
  closing: Closing,
): MaybePromise<void> {
  const known = context.attempts.remember(run, outcome);
  const recorded = (wrote: boolean): void => {
    known.forget();
    failpoint("call.recorded");
    if (wrote) announce(context, run, outcome);
  };
  const answer = write({ context, run, outcome, by: "execute", closing });
  if (!(answer instanceof Promise)) return recorded(answer);
  return answer.then(recorded, async (error: unknown) => {
    if (isHoldfastError(error, "LEASE_LOST")) {
      if (outcome.kind !== "unknown") await write({ context, run, outcome, ...LATE });
      known.forget();
    }
    throw error;
  });
}

interface Writing {
  readonly context: LedgerContext;
  readonly run: Attempt;
  readonly outcome: Outcome;
  readonly by: "execute" | "late";
  readonly closing: Closing;
}

const LATE = { by: "late", closing: () => [] } as const;

/** False when there was nothing left to say. */
function write(writing: Writing): MaybePromise<boolean> {
  const { context, outcome } = writing;
  if (outcome.kind !== "completed") return writeDown(writing, null);
  const small = smallResult(outcome.value);
  if (small) return writeDown(writing, small);
  const stored = stubbornly(stopOf(writing), () => storeResult(context.journal, outcome.value));
  return andThen(stored, (result) => writeDown(writing, result));
}

function writeDown(writing: Writing, result: CallResult | null): MaybePromise<boolean> {
  const { context, run, outcome, by } = writing;
  const { own, journal } = context;
  const commit = (marks: FailureMarks) => {
    const decide = (state: SessionState, head: { generation: number }): Decision<boolean> =>
      head.generation === run.generation ? decideOutcome(writing, state, result, marks) : NOTHING;
    return by === "late" ? own.log.commitMaybeSync(decide) : own.commit(decide);
  };
  return stubbornly(stopOf(writing), () =>
    outcome.kind === "failed"
      ? commitFailure(journal, own.state.calls.get(run.id), commit)
      : andThen(commit({}), commitResult),
  );
}

/** A late answer needs no lease, so losing it is no reason to give up. */
function stopOf({ context, by }: Writing): AbortSignal {
  return by === "late" ? NEVER : context.own.lease.lost;
}

const NEVER = new AbortController().signal;
const NOTHING: Decision<boolean> = { events: [], result: false };

/** The outcome is in our hands: a store that is busy or briefly failing is asked again before it is let go. */
function stubbornly<Result>(stop: AbortSignal, write: () => MaybePromise<Result>): MaybePromise<Result> {
  const again = async (first: unknown): Promise<Result> => {
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
  return answer instanceof Promise ? answer.catch(again) : answer;
}

/** Keeps an eye on an attempt that was given up: its answer, when it comes, is recorded without the lease. */
export function watchLate(context: LedgerContext, run: Attempt, late: Promise<Outcome>): void {
  const watching = late
    .then(async (outcome) => {
      if (outcome.kind === "unknown" || isDoubtful(context, run, outcome)) {
        // Also for whoever opened the session anew in this process: that handle's lease cannot write this down.
        context.attempts.end(run, context.journal.steady());
        const why = outcome.kind === "unknown" ? outcome.why : `it threw: ${outcome.error.message}`;
        return stillUnknown(context, run, why);
      }
      const known = context.attempts.remember(run, outcome);
      await write({ context, run, outcome, ...LATE });
      known.forget();
    })
    .catch((error: unknown) => {
      if (!isHoldfastError(error, "STORE_CLOSED")) context.journal.warn(error);
    });
  context.attempts.track(run.id, watching);
}

/** Presumably nothing happened, and more can be done than to believe it. */
function isDoubtful(context: LedgerContext, run: Attempt, outcome: Outcome): outcome is Failed {
  const tool = context.tools.get(run.tool);
  const call = context.own.state.calls.get(run.id);
  const isIt = tool !== undefined && call !== undefined && isOpenToDoubt(tool, call);
  return isIt && outcome.kind === "failed" && outcome.presumed === true;
}

/** It ended without an answer only now: what must have settled counts from here. As the owner, or not at all. */
async function stillUnknown(context: LedgerContext, run: Attempt, why: string): Promise<void> {
  const { own } = context;
  const decide = (state: SessionState) => {
    const call = state.calls.get(run.id);
    const same = call?.status === "unknown" && call.attempt === run.attempt;
    const data = { callId: run.id, attempt: run.attempt, why };
    return { events: same ? [{ type: "call.lost", data }] : [], result: undefined };
  };
  try {
    await stubbornly(own.lease.lost, () => own.write(decide));
  } catch (error) {
    if (!isHoldfastError(error, "LEASE_LOST")) throw error;
  }
}

function decideOutcome(
  { context, run, outcome: given, by, closing }: Writing,
  state: SessionState,
  result: CallResult | null,
  marks: FailureMarks,
): Decision<boolean> {
  const call = state.calls.get(run.id);
  if (!call || !isOpen(call.status)) return NOTHING;
  const outcome = inDoubt(call, run, given);
  if (outcome.kind !== "completed" && call.attempt !== run.attempt) return NOTHING;
  if (outcome.kind === "unknown") {
    return call.status === "issued" ? { events: lost(run, outcome), result: true } : NOTHING;
  }
  const draft =
    outcome.kind === "completed"
      ? completed(call, outcome.note, result, by)
      : failed(run, outcome, by, marks);
  const rest = by === "execute" ? closing(state, run.id) : [];
  return { events: [...(context.riders.get(run.id) ?? []), draft, ...rest], result: true };
}

/** "This attempt did nothing" says nothing about an earlier one whose outcome is unknown. */
function inDoubt(call: Call, run: Attempt, outcome: Outcome): Outcome {
  if (outcome.kind !== "failed" || call.doubt === null || call.doubt === run.attempt) return outcome;
  const why = `attempt ${run.attempt} failed (${outcome.error.message}), but attempt ${call.doubt} may have landed`;
  return { kind: "unknown", why, late: null };
}

function completed(
  call: Call,
  note: string | null,
  result: CallResult | null,
  by: "execute" | "late",
): Draft {
  const { id: callId, attempt } = call;
  if (!result) throw new Error(`call ${callId} is said to be completed without a result`);
  return draftCompleted({ callId, attempt, result, by, ...(note !== null && { why: note }) });
}

type Failed = Extract<Outcome, { kind: "failed" }>;

function failed(
  run: Attempt,
  { error, presumed, verified }: Failed,
  written: "execute" | "late",
  marks: FailureMarks,
): Draft {
  const certain = verified ? "verify" : written === "late" ? "late" : "definite";
  const by = presumed ? "presumed" : certain;
  return { type: "call.failed", data: { callId: run.id, attempt: run.attempt, error, by, ...marks } };
}

function lost(run: Attempt, outcome: Extract<Outcome, { kind: "unknown" }>): Draft[] {
  const { why, started, asks, person } = outcome;
  const more = { ...(started === false && { started }), ...(person && { person }) };
  const draft = { type: "call.lost", data: { callId: run.id, attempt: run.attempt, why, ...more } };
  return asks ? [draft, { type: "call.waiting", data: { callId: run.id, why } }] : [draft];
}

function announce(context: LedgerContext, run: Attempt, outcome: Outcome): void {
  const { id: callId, tool } = run;
  if (outcome.kind === "completed") context.on({ type: "call.completed", callId, tool, by: "execute" });
  else if (outcome.kind === "failed")
    context.on({ type: "call.failed", callId, tool, error: outcome.error.message });
  else context.on({ type: outcome.asks ? "call.waiting" : "call.unknown", callId, tool, why: outcome.why });
}
