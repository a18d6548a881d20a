/**
 * Issues the tool calls of one assistant message in waves.
 *
 * A wave is the calls that start now and run in parallel. One commit under the session's lease issues all of
 * them. Later calls of the message are not in the log yet, so a crash leaves few outcomes unknown.
 *
 * A turn takes two commits (decision 029):
 *
 *     the model answers ──▶ [ message · intents of its first wave ] ──▶ the effects
 *       ──▶ [ last outcome · results · checkpoint · next reservation ] ──▶ the next question
 *
 * A loop of the program's own gets the same with `session.append(message, { issue: tools })`: between the
 * commit and `session.calls` its calls are issued and not started (`SessionCore.appendAndIssue`).
 *
 * Commits in between exist only for more waves and for the other outcomes of a wave. The message comes first
 * in its commit, so no intent is durable without it. It is appended alone if a callback of the program has to
 * be awaited first, or if another session has claimed a key.
 *
 * The commit decides about each call on the state it is applied to:
 *
 *     the key is free                                 issued: it starts after the commit
 *     a completed call of this session has the key    repeated: it gets the recorded result and does not run
 *     an open call of this session has the key        deferred to a later wave; nothing is written
 *     another session has claimed the global key      nothing is written at all; see `settleElsewhere`
 *     it needs approval                               issued and waiting for a person: it does not start
 *     no such tool, bad input, fork without effects   failed: it is never issued
 *
 * Reads are not here. They write nothing, simply run, and run again after a crash.
 *
 * A crash right after one of these steps leaves:
 *
 *     failpoint wave.planned        nothing of a first wave: the model is asked again
 *     the commit                    all of it or none of it: never an intent without its message
 *     failpoint wave.issued         calls that look started: a new owner marks them unknown (`settling.ts`)
 *     the effect (`recording.ts`)   the same, because the log cannot tell whether it happened
 *     an outcome is durable         the next run settles the other calls of the wave
 *     the last outcome is durable   results, checkpoint and reservation too: the model is asked next
 *     a message without its wave    no call is in the log: the next run prepares them from the message
 *
 * Invariants kept here (`torture/checker/` checks them):
 *
 *     I1  An effect starts only after its `call.issued` is durable. Only calls that start now are issued.
 *     I3  Every issued call has the id, tool and arguments of one block of a durable message. A direct call
 *         has no message: its arguments become durable with its intent.
 *     I6  No call is swallowed: it starts, waits for a later wave, fails with a message to the model, or
 *         names the call that it repeats.
 */

import { failpoint } from "../failpoint.ts";
import type { Journal, OwnedOutcome } from "../journal/index.ts";
import { describeError } from "../model/errors.ts";
import { copyArgs, type Json } from "../model/json.ts";
import { andThen, type MaybePromise } from "../model/maybe-promise.ts";
import { ERASED, streamId } from "../model/names.ts";
import type { Call, SessionState, ToolCallBlock } from "../model/session/index.ts";
import { draftIssued, isOpen, reactivation, sessionKind } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Head } from "../store.ts";
import type { Outcome } from "./attempt.ts";
import { callOf, type LedgerContext, mustNotBeCancelled } from "./context.ts";
import { failuresOf } from "./failure-marks.ts";
import { type CallKey, callKey, withoutReason } from "./keys.ts";
import {
  attemptOf,
  type Closing,
  type KeptOutcomes,
  type OutcomeGroup,
  startAndRecord,
} from "./recording.ts";
import { type Tool, validate, whyApproval } from "./tool.ts";

/** This program has its tool, and the tool's schema accepts its input. */
export interface ReadyCall {
  readonly callId: string;
  /** Null for a direct call, which belongs to no message. */
  readonly messageId: string | null;
  readonly tool: Tool;
  /** The arguments as the model sent them. */
  readonly raw: Json;
  /** The arguments as the tool's schema returned them. */
  readonly args: unknown;
  readonly key: CallKey;
  /** Why a person has to approve it first. */
  readonly approval: string | null;
}

/** A call that cannot start. The model gets `error` as its result. */
export interface RefusedCall {
  readonly callId: string;
  readonly messageId: string | null;
  readonly tool: string;
  readonly raw: Json;
  readonly error: string;
  readonly by: "tool" | "input";
}

export interface WaveResult {
  readonly started: readonly ReadyCall[];
  readonly deferred: readonly ReadyCall[];
  /** Set when nothing was written, because another session has claimed the key of this call. */
  readonly claimed: { readonly call: ReadyCall; readonly by: ClaimHolder } | null;
  /** Set when nothing was written, because the leading events no longer fit. */
  readonly outdated?: true;
}

type ClaimHolder = { readonly stream: string; readonly seq: number };

type ClosingWave = (state: SessionState, settled: ReadonlySet<string>) => readonly Draft[];

/** Events that a wave's commit begins with, such as its message. Null writes nothing: they do not fit. */
export type Leading = (state: SessionState, head: Head) => readonly Draft[] | null;

/** `hasKept`: the leading events include the outcomes that the owner keeps for its next commit. */
interface Lead {
  readonly leading: Leading;
  appended(): void;
  readonly hasKept?: boolean;
}

// ---- Prepare: a pure look at one call. Nothing is durable yet.

/** Finds the tool, validates the input and computes the key. Direct calls pass copied arguments. */
export function prepareCall(
  context: LedgerContext,
  block: Pick<ToolCallBlock, "id" | "name" | "args">,
  messageId: string | null,
): MaybePromise<ReadyCall | RefusedCall> {
  const tool = context.tools.get(block.name);
  const refuse = (by: "tool" | "input", error: string, raw: Json = block.args): RefusedCall => {
    return { callId: block.id, messageId, tool: block.name, raw, error, by };
  };
  if (!tool) {
    const known = [...context.tools.keys()].join(", ") || "none";
    return refuse("tool", `There is no tool ${JSON.stringify(block.name)}. The tools are: ${known}.`);
  }
  let raw: Json = null;
  const decide = (input: Awaited<ReturnType<typeof validate>>): MaybePromise<ReadyCall | RefusedCall> => {
    if ("problem" in input) return refuse("input", `Invalid input for ${tool.name}: ${input.problem}`, raw);
    const { doubted } = context.own.state;
    const isDoubted = (key: string): boolean => doubted.has(key);
    const key = callKey(context.journal.namespace, tool, block.id, raw, input.value, isDoubted);
    const ready = { callId: block.id, messageId, tool, raw, args: input.value, key };
    if (!tool.needsApproval) return { ...ready, approval: null };
    return andThen(whyApproval(tool, input.value), (approval) => ({ ...ready, approval }));
  };
  // The arguments are not JSON, or give no key. Only the model can help, by sending other arguments.
  const refuseInput = (error: unknown): RefusedCall => refuse("input", describeError(error).message, raw);
  try {
    raw = messageId === null ? block.args : copyArgs(block.args, `args of ${tool.name}`);
    const input = validate(tool.input, withoutReason(tool, raw));
    return input instanceof Promise ? input.then(decide).catch(refuseInput) : decide(input);
  } catch (error) {
    return refuseInput(error);
  }
}

// ---- Issue: one commit for the whole wave.

export function issueWave(
  context: LedgerContext,
  wave: readonly ReadyCall[],
  refused: readonly RefusedCall[],
  closing: ClosingWave,
  { leading, appended, hasKept }: Lead = NOTHING_LEADS,
): MaybePromise<WaveResult> {
  failpoint("wave.planned");
  const commit = (failures: ReadonlyMap<string, number>): MaybePromise<WaveResult> => {
    const decide = (state: SessionState, head: Head) => {
      const first = leading(state, head);
      if (!first) return { events: [], result: null };
      const { events, result } = decideWave(context, state, wave, failures, refused, closing);
      return { events: first.length > 0 ? [...first, ...events] : events, result };
    };
    return andThen(context.own.commit(decide, hasKept), (outcome) => {
      if (outcome.outcome === "ok" && outcome.result) appended();
      return afterCommit(context, wave, refused, outcome);
    });
  };
  const hasGlobalKey = wave.some(({ key }) => key.scope === "global");
  return hasGlobalKey ? countFailures(context, wave).then(commit) : commit(NO_FAILURES);
}

const NOTHING_LEADS: Lead = { leading: () => [], appended: () => undefined };
const NO_FAILURES: ReadonlyMap<string, number> = new Map();

/** Counts right before the commit: another session may have failed with a key since the call was prepared. */
async function countFailures({ journal }: LedgerContext, wave: readonly ReadyCall[]) {
  const failures = new Map<string, number>();
  for (const { key } of wave) {
    if (key.scope === "global") failures.set(key.key, await failuresOf(journal, key.key));
  }
  return failures;
}

function decideWave(
  context: LedgerContext,
  state: SessionState,
  wave: readonly ReadyCall[],
  failures: ReadonlyMap<string, number>,
  refused: readonly RefusedCall[],
  closing: ClosingWave,
) {
  mustNotBeCancelled(context.session, state);
  const events: Draft[] = [];
  const started: ReadyCall[] = [];
  const repeated: ReadyCall[] = [];
  const asked: ReadyCall[] = [];
  const deferred: ReadyCall[] = [];
  const switchedOff: RefusedCall[] = [];
  const waveKeys = new Set<string>();
  const settled = new Set<string>();
  let latestEffect = state.latestEffect;
  const settle = (callId: string, draft: Draft): void => {
    settled.add(callId);
    events.push(draft);
  };
  for (const call of refused) if (!state.calls.has(call.callId)) settle(call.callId, draftRefused(call));
  for (const call of wave) {
    if (state.calls.has(call.callId)) continue;
    const { key, scope } = call.key;
    const holder = state.calls.get(state.keys.get(key) ?? "");
    if (waveKeys.has(key) || (holder && isOpen(holder.status))) deferred.push(call);
    else if (holder && isRepeat(call.tool, holder, latestEffect)) {
      repeated.push(call);
      settle(call.callId, draftRepeated(call, context.session, holder));
    } else if (state.effects === "refused") {
      const off = refuseEffect(call, state);
      switchedOff.push(off);
      settle(call.callId, draftRefused(off));
    } else {
      waveKeys.add(key);
      latestEffect = call.callId;
      (call.approval === null ? started : asked).push(call);
      const failed = Math.max(state.failures.get(key) ?? 0, failures.get(key) ?? 0);
      // While an earlier attempt is in doubt, the vendor gets the same key. For a global key
      // `failure-marks.ts` decides, because other sessions count too.
      const doubtedKey = scope === "global" ? undefined : state.doubted.get(key)?.vendorKey;
      const vendorKey = doubtedKey ?? context.vendorKeys.of(call.key, failed, holder?.callId ?? null);
      events.push(draftFirstAttempt(context, call, failed, vendorKey), ...draftsOfQuestion(call));
    }
  }
  if (started.length === 0 && deferred.length === 0 && asked.length === 0)
    events.push(...closing(state, settled));
  // In the same commit as the intent: should this process die, a supervisor must see that work is open.
  if (started.length + asked.length > 0 && state.status !== "active") events.unshift(...reactivation(state));
  return { events, result: { started, asked, repeated, deferred, switchedOff } };
}

/** A `write` is a repeat only while no other effect came after it: v1, v2, v1 must not end with v2. */
export function isRepeat(tool: Tool, holder: Call, latestEffect: string | null): boolean {
  if (holder.status !== "completed") return false;
  return tool.effect !== "write" || holder.callId === latestEffect;
}

function refuseEffect({ callId, messageId, tool, raw }: ReadyCall, state: SessionState): RefusedCall {
  const from = state.forked ? ` of ${state.forked.session}` : "";
  const error =
    `Not run: this is a fork${from}, and its effects are off. ` +
    "A person can switch them on: holdfast session effects <session> on";
  return { callId, messageId, tool: tool.name, raw, error, by: "tool" };
}

function afterCommit(
  context: LedgerContext,
  wave: readonly ReadyCall[],
  refused: readonly RefusedCall[],
  outcome: OwnedOutcome<ReturnType<typeof decideWave>["result"] | null>,
): WaveResult {
  if (outcome.outcome === "taken") {
    const call = wave.find(({ key }) => key.scope === "global" && key.key === outcome.key);
    if (!call) throw new Error(`the store refused key ${outcome.key}, which this wave did not claim`);
    return { started: [], deferred: [], claimed: { call, by: outcome.by } };
  }
  if (!outcome.result) return { started: [], deferred: [], claimed: null, outdated: true };
  failpoint("wave.issued");
  const { started, asked, repeated, deferred, switchedOff } = outcome.result;
  for (const { callId, tool, approval } of asked)
    context.on({ type: "call.waiting", callId, tool: tool.name, why: approval ?? "" });
  for (const { callId, tool } of started) {
    context.on({ type: "call.issued", callId, tool: tool.name, attempt: 1 });
  }
  for (const { callId, tool } of repeated) {
    const of = callOf(context.own.state, callId).repeats?.callId ?? "";
    context.on({ type: "call.repeated", callId, tool: tool.name, of });
  }
  for (const { callId, tool, error } of [...refused, ...switchedOff]) {
    context.on({ type: "call.failed", callId, tool, error });
  }
  return { started, deferred, claimed: null };
}

export function runIssued(
  context: LedgerContext,
  { callId, tool, args }: ReadyCall,
  closing: Closing,
  how: { readonly group?: OutcomeGroup | undefined; readonly keepIn?: KeptOutcomes | undefined } = {},
): Promise<Outcome> {
  const issued = callOf(context.own.state, callId);
  const run = attemptOf(context, issued, issued.attempt);
  const { vendorKey } = issued;
  return startAndRecord(context, { run, vendorKey, tool, args, closing, ...how });
}

// ---- Global keys: the same operation runs once over all sessions

export interface Blocker {
  readonly session: string;
  readonly callId: string;
  readonly person: boolean;
}

export type SettledElsewhere = "settled" | "retry" | Blocker;

/**
 * Settles a call whose key another session has claimed:
 *
 *     completed there      "settled": repeated here, with the recorded result
 *     failed there         "retry": the key is free again
 *     open there           the blocker: this session cannot decide, so the call stays out of the log
 *     its session is gone  "settled": failed here, because the effect happened and its result is lost
 */
export async function settleElsewhere(
  context: LedgerContext,
  call: ReadyCall,
  by: ClaimHolder,
  closing: Closing,
): Promise<SettledElsewhere> {
  const holder = await findHolder(context.journal, by, call.key.key);
  const session = streamId(by.stream);
  if (holder && isOpen(holder.status)) {
    return { session, callId: holder.callId, person: holder.status === "waiting" };
  }
  if (holder?.status === "failed") return "retry";
  const { callId, tool } = call;
  // It does not name that session: the id of an erased one must not get into another log.
  const gone = "a session that was removed did this already. Its result is no longer on record.";
  const draft = holder
    ? draftRepeated(call, session, holder, holder.result ? { result: holder.result } : {})
    : draftRefused({ ...call, tool: tool.name, by: "tool", error: `Not run: ${gone}` });
  await context.own.write((state) => {
    mustNotBeCancelled(context.session, state);
    if (state.calls.has(callId)) return { events: [], result: undefined };
    return { events: [draft, ...closing(state, callId)], result: undefined };
  });
  const { repeats, error } = callOf(context.own.state, callId);
  if (repeats) context.on({ type: "call.repeated", callId, tool: tool.name, of: repeats.callId });
  else if (error) context.on({ type: "call.failed", callId, tool: tool.name, error: error.message });
  return "settled";
}

/** Finds the call that claimed the key, in its current state. Null when its session was removed. */
async function findHolder(journal: Journal, by: ClaimHolder, key: string): Promise<Call | null> {
  if (by.stream === ERASED) return null;
  // `open` verifies the record, `load` would not. This call's outcome depends on it.
  const log = await journal.open(sessionKind, streamId(by.stream));
  if (!log.exists) return null;
  for (const call of log.state.calls.values()) {
    // The key, too: a newer session of the same name may have another call at that position.
    if (call.seq === by.seq && call.key === key) return call;
  }
  return null;
}

// ---- Drafts

function draftFirstAttempt(
  context: LedgerContext,
  { callId, messageId, tool, raw: args, key: { scope, key } }: ReadyCall,
  failures: number,
  vendorKey: string,
): Draft {
  const { name, effect, requireApprover, agentAnswers } = tool;
  const answers = requireApprover ? "approver" : agentAnswers ? "agent" : undefined;
  const who = answers === undefined ? {} : ({ answers } as const);
  const of = { callId, messageId, tool: name, effect, scope, args, key, vendorKey, failures, ...who };
  return draftIssued({ ...of, attempt: 1, token: context.own.lease.token });
}

/** The first attempt of a call that needs approval never starts: the same commit asks for a person. */
function draftsOfQuestion({ callId, approval: why }: ReadyCall): Draft[] {
  if (why === null) return [];
  return [
    { type: "call.lost", data: { callId, attempt: 1, why, started: false } },
    { type: "call.waiting", data: { callId, why } },
  ];
}

function draftRepeated(
  { callId, messageId, tool, raw: args, key }: ReadyCall,
  session: string,
  first: Call,
  more: { readonly result?: Call["result"] } = {},
): Draft {
  const of = { session, callId: first.callId };
  const since = first.settledAt ?? first.issuedAt;
  return {
    type: "call.repeated",
    data: { callId, messageId, tool: tool.name, effect: tool.effect, args, key: key.key, of, since, ...more },
  };
}

function draftRefused({ callId, messageId, tool, raw: args, by, error }: RefusedCall): Draft {
  const data = { callId, attempt: 0, error: { message: error }, by, messageId, tool, args };
  return { type: "call.failed", data };
}
