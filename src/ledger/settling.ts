/**
 * Settles a call whose outcome is unknown. Verify before retry:
 *
 *     its tool or input is not accepted here      a person, or a program that has the tool again
 *     it still runs in this process               wait for its own answer
 *     its approval expired, or it needs one       a person
 *     its answer lacks the signature it needs     a person
 *     it never started, or a person allowed it    issue attempt + 1
 *       with arguments that a person changed      the same, under the key of those, if that is free
 *     verify: landed                              completed
 *             never                               issue attempt + 1
 *             notYet                              ask again; after `settleMs` issue attempt + 1
 *               without `settleMs`                a person, after a minute
 *               owners keep leaving too early     a person
 *             unsure, or three errors             as without verify
 *     no verify: idempotent and still in time     issue attempt + 1, same key
 *                interrupted: "fail"              failed
 *                otherwise                        a person
 *     attempt + 1 in a fork without effects       a person
 *
 * Each step is one commit under the lease, decided on the state it is applied to. A crash between two steps
 * leaves the call unknown with everything learnt so far, and the next process continues from there. Nothing
 * is retried without a recorded reason (I9).
 *
 * One owner counts `settleMs` on its steady clock. The wall clock can be set by anybody: it may cause a
 * person to be asked, but it never lets a call run again.
 */

import { failpoint } from "../failpoint.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { quoteValue, streamId } from "../model/names.ts";
import type { Call, SessionState, VerifyAnswer } from "../model/session/index.ts";
import { answerText, draftIssued, isOpen, unsettledAnswer, verifyDelayMs } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { isoTime } from "../model/time.ts";
import { projectPlace } from "../project-place.ts";
import { readResult } from "./attempt.ts";
import { callOf, type LedgerContext, mustNotBeCancelled, storeResult } from "./context.ts";
import { failureMarksOf, failuresOf } from "./failure-marks.ts";
import { callKey, withoutReason } from "./keys.ts";
import { attemptOf, type Closing, recordOutcome, startAndRecord } from "./recording.ts";
import { type Tool, validate, whyApproval } from "./tool.ts";
import { askVerify, type Question } from "./verify.ts";
import { sleep, withTimeout } from "./waiting.ts";
import { isRepeat } from "./wave.ts";

const ATTEMPTS_PER_RUN = 3;
const VERIFY_ERRORS = 3;
const BACK_OFF_MS = 100;
const ASK_AGAIN_MS = 100;
/** How long `notYet` is accepted from a tool without `settleMs`. */
const UNDECLARED_SETTLE_MS = 60_000;
/** A person is asked once this many owners have got `notYet`, over this many times `settleMs`. */
const ENOUGH = { owners: 5, settleTimes: 10 };

/** `later`: the outcome will be known without a person, but not now. */
type Settled = "settled" | "waiting" | "later";

export async function settleCall(context: LedgerContext, callId: string, closing: Closing): Promise<Settled> {
  const firstAttempt = callOf(context.own.state, callId).attempt;
  const patience = { leftMs: context.patienceMs };
  for (;;) {
    context.stop.throwIfAborted();
    const now = callOf(context.own.state, callId);
    if (!isOpen(now.status)) return "settled";
    if (context.drain.aborted && !context.attempts.isRunning(callId)) return "later";
    if (now.status === "waiting" && !(await hasToolAgain(context, { ...now }))) return "waiting";
    // A copy: the state changes while `verify` runs, and the step must decide on what it saw.
    const call = { ...now };
    const step = await nextStep(context, call, closing, call.attempt - firstAttempt, patience);
    if (step !== "again") return step;
  }
}

type Step = Settled | "again";

async function nextStep(
  context: LedgerContext,
  call: Call,
  closing: Closing,
  retries: number,
  patience: Settling["patience"],
): Promise<Step> {
  if (context.attempts.isRunning(call.callId)) return awaitRunning(context, call);
  const recalled = context.attempts.recall(call.callId, call.attempt);
  if (recalled) {
    await recordOutcome(context, attemptOf(context, call, call.attempt), recalled, closing);
    return "again";
  }
  if (call.status === "issued") return markLost(context, call, "the process that ran it is gone");
  if (call.status === "waiting") return markLost(context, call, "its outcome is unknown");
  const until = call.approval?.until ?? null;
  if (until !== null && context.journal.now() >= until) {
    const why = `the approval by ${call.by ?? "a person"} expired ${isoTime(until)}, before it ran`;
    return askPerson(context, call, why, [], { again: true });
  }
  const tool = context.tools.get(call.tool);
  if (!tool) return waitForTool(context, call, `this program has no tool ${call.tool}`);
  const input = await validate(tool.input, withoutReason(tool, call.args));
  if ("problem" in input && call.key === "") {
    const why = `${call.tool} refuses the changed arguments: ${input.problem}`;
    return askPerson(context, call, why, [], { again: true });
  }
  if ("problem" in input) {
    return waitForTool(context, call, `its input is no longer accepted: ${input.problem}`);
  }
  const step = { context, call, tool, args: input.value, closing, retries, patience };
  // No started attempt is in doubt: the call never began, or a person says that it did not happen.
  if (call.doubt === null) return reissue(step, []);
  if (tool.verify) return verify(step);
  return withoutVerify(step, call.why ?? "its outcome is unknown", []);
}

interface Settling extends Question {
  readonly closing: Closing;
  readonly retries: number;
  readonly patience: { leftMs: number };
}

async function markLost(context: LedgerContext, call: Call, why: string): Promise<Step> {
  const unstarted = call.status === "waiting" && call.doubt === null ? { started: false } : {};
  const wrote = await change(context, call, () => [
    { type: "call.lost", data: { callId: call.callId, attempt: call.attempt, why, ...unstarted } },
  ]);
  if (wrote) context.on({ type: "call.unknown", callId: call.callId, tool: call.tool, why });
  return "again";
}

/** Waits for a program that has the tool. A person who answers first must read what is in doubt. */
function waitForTool(context: LedgerContext, call: Call, problem: string): Promise<Step> {
  const doubt =
    call.doubt === null ? "" : `${call.why ?? "its outcome is unknown"}, so it may have happened; `;
  return askPerson(context, call, doubt + problem, [], { lacks: "tool" });
}

async function hasToolAgain(context: LedgerContext, call: Call): Promise<boolean> {
  const tool = call.lacksTool ? context.tools.get(call.tool) : undefined;
  return tool !== undefined && !("problem" in (await validate(tool.input, withoutReason(tool, call.args))));
}

async function askPerson(
  context: LedgerContext,
  call: Call,
  why: string,
  before: readonly Draft[] = [],
  more: { lacks?: "tool"; again?: true; answers?: "approver" } = {},
): Promise<Step> {
  const wrote = await change(context, call, () => [
    ...before,
    { type: "call.waiting", data: { callId: call.callId, why, ...more } },
  ]);
  if (!wrote) return "again";
  context.on({ type: "call.waiting", callId: call.callId, tool: call.tool, why });
  return "waiting";
}

/** The attempt still runs in this process: its own answer is the best verify there is. */
async function awaitRunning(context: LedgerContext, call: Call): Promise<Step> {
  const ended = context.attempts.ended(call.callId).then((): Step => "again");
  return withTimeout(ended, context.patienceMs, context.stop, "later" as const);
}

async function verify(step: Settling): Promise<Step> {
  const { context, call, patience } = step;
  const dueInMs = verifyDelayMs(call, context.journal.now());
  if (dueInMs > patience.leftMs) return "later";
  patience.leftMs -= dueInMs;
  if (dueInMs > 0 && !(await sleepUnlessDrained(context, dueInMs))) return "later";
  failpoint("verify.asked");
  const endedAt = context.attempts.endedAt(call.callId, call.attempt);
  const elapsedMs = context.journal.steady() - Math.max(context.lostSince(call), endedAt);
  const verdict = await askVerify(step);
  failpoint("verify.answered");
  context.on({ type: "call.verified", callId: call.callId, tool: call.tool, answer: verdict.answer });
  switch (verdict.answer) {
    case "landed":
      return complete(step, verdict.result);
    case "never":
      return reissue(step, [verified(call, "never")]);
    case "notYet":
      return afterNotYet(step, verdict.againInMs, elapsedMs);
    case "unsure":
      return withoutVerify(step, verdict.why, [verified(call, "unsure", { detail: verdict.why })]);
    case "error":
      return afterError(step, verdict.why);
  }
}

/** False if no call may start any more. The record has all that was learnt, for the next process. */
async function sleepUnlessDrained({ drain, stop }: LedgerContext, ms: number): Promise<boolean> {
  if (ms > 0 && !drain.aborted)
    await sleep(ms, AbortSignal.any([drain, stop])).catch(() => stop.throwIfAborted());
  return !drain.aborted;
}

async function complete({ context, call, tool, closing }: Settling, found: unknown): Promise<Step> {
  const read = await readResult(tool, found);
  const result = await storeResult(context.journal, read.value);
  const note = read.note === null ? {} : { note: read.note };
  const data = { callId: call.callId, attempt: call.attempt, result, by: "verify", ...note };
  const wrote = await change(context, call, (state) => [
    verified(call, "landed"),
    { type: "call.completed", data },
    ...closing(state, call.callId),
  ]);
  failpoint("call.settled");
  const { callId, tool: name } = call;
  if (wrote) context.on({ type: "call.completed", callId, tool: name, by: "verify", ...note });
  return "again";
}

/** `elapsedMs`: from the loss to the question, since an effect may land while the answer is on its way. */
async function afterNotYet(step: Settling, requestedMs: number, elapsedMs: number): Promise<Step> {
  const { context, call, tool } = step;
  const againInMs = Number.isFinite(requestedMs) ? Math.max(ASK_AGAIN_MS, requestedMs) : ASK_AGAIN_MS;
  const now = context.journal.now();
  if (tool.settleMs !== undefined && elapsedMs >= tool.settleMs) {
    return reissue(step, [verified(call, "notYet", { settled: true })]);
  }
  const why = whyAskPerson(step, againInMs, elapsedMs);
  if (why !== null) return askPerson(context, call, why, [verified(call, "notYet")]);
  const leftMs = tool.settleMs === undefined ? Number.POSITIVE_INFINITY : tool.settleMs - elapsedMs;
  const againAt = now + Math.ceil(Math.min(againInMs, Math.max(0, leftMs)));
  await change(context, call, () => [verified(call, "notYet", { againAt })]);
  return "again";
}

/** The reason to ask a person after `notYet`. With short-lived owners `settleMs` may never pass. */
function whyAskPerson({ context, call, tool }: Settling, againInMs: number, elapsedMs: number) {
  const now = context.journal.now();
  const { since, owners } = unsettledAnswer(call, now);
  if (tool.settleMs === undefined) {
    const isEnough = Math.max(elapsedMs, now - since) >= Math.max(UNDECLARED_SETTLE_MS, againInMs);
    return isEnough ? "no trace of it yet, and the tool has not said when it must have settled" : null;
  }
  const enoughMs = Math.max(UNDECLARED_SETTLE_MS, ENOUGH.settleTimes * tool.settleMs);
  if (owners < ENOUGH.owners || now - since < enoughMs) return null;
  return (
    `no trace of it yet; ${owners} owners have asked, ` +
    `and none stayed for the ${tool.settleMs} ms that it takes to settle`
  );
}

async function afterError(step: Settling, why: string): Promise<Step> {
  const { context, call } = step;
  const errors = (call.verify?.errors ?? 0) + 1;
  const learnt = (againAt?: number) =>
    verified(call, "error", { detail: why, ...(againAt !== undefined && { againAt }) });
  if (errors >= VERIFY_ERRORS) return withoutVerify(step, `verify failed: ${why}`, [learnt()]);
  const againAt = context.journal.now() + BACK_OFF_MS * 4 ** errors;
  await change(context, call, () => [learnt(againAt)]);
  return "again";
}

async function withoutVerify(step: Settling, why: string, learnt: readonly Draft[]): Promise<Step> {
  const { context, call, tool, closing } = step;
  if (mayRepeat(tool, call, context.journal.now())) return reissue(step, learnt);
  if (tool.interrupted !== "fail") return askPerson(context, call, why, learnt);
  const error = { message: `interrupted, and nobody knows whether it took effect: ${why}` };
  const marks = await failureMarksOf(context.journal, call);
  const data = { callId: call.callId, attempt: call.attempt, error, by: "interrupted", ...marks };
  const wrote = await change(context, call, (state) => [
    ...learnt,
    { type: "call.failed", data },
    ...closing(state, call.callId),
  ]);
  if (wrote) context.on({ type: "call.failed", callId: call.callId, tool: call.tool, error: error.message });
  return "again";
}

function mayRepeat(tool: Tool, call: Call, now: number): boolean {
  if (tool.idempotent === undefined) return false;
  if (tool.idempotent === true) return true;
  // Negative if the clock was set back: then the age of the key is unknown.
  const sinceMs = now - (call.keySince ?? call.firstIssuedAt);
  return sinceMs >= 0 && sinceMs < tool.idempotent.forMs;
}

/** Makes one more attempt under the same key. After three in a row a person is asked instead. */
async function reissue(step: Settling, learnt: readonly Draft[]): Promise<Step> {
  const { context, call, tool, args, closing, retries } = step;
  if (retries >= ATTEMPTS_PER_RUN) {
    const why = `${retries} more attempts came to nothing: ${call.why ?? "no answer"}`;
    return askPerson(context, call, why, learnt);
  }
  const approval = call.by === null ? await whyApproval(tool, args) : null;
  if (approval !== null) return askPerson(context, call, approval, learnt);
  const unproven = await whyUnproven(context, call, tool);
  if (unproven !== null)
    return askPerson(context, call, unproven, learnt, { again: true, answers: "approver" });
  const backOffMs = retries > 0 ? BACK_OFF_MS * 4 ** (retries - 1) : 0;
  if (!(await sleepUnlessDrained(context, backOffMs))) return "later";
  const keyed = call.key === "" ? await changedCall(step) : call;
  if ("problem" in keyed) return askPerson(context, call, keyed.problem, learnt, { again: true });
  const run = attemptOf(context, call, call.attempt + 1);
  let isOff = false;
  let isTaken = false;
  const wrote = await change(context, call, (state) => {
    mustNotBeCancelled(context.session, state);
    isOff = state.effects === "refused";
    // Two calls may have been changed to the same arguments: the later one is asked about again.
    isTaken = keyed !== call && isOpen(state.calls.get(state.keys.get(keyed.key) ?? "")?.status ?? "failed");
    return isOff || isTaken ? [] : [...learnt, issueAgain(keyed, run.attempt, context.own.lease.token)];
  });
  if (isOff) {
    const why = "it may have to be done again, and this fork may not start effects";
    return askPerson(context, call, why, learnt);
  }
  if (!wrote || isTaken) return "again";
  failpoint("wave.issued");
  context.on({ type: "call.issued", callId: call.callId, tool: call.tool, attempt: run.attempt });
  const outcome = await startAndRecord(context, { run, vendorKey: keyed.vendorKey, tool, args, closing });
  return outcome.kind === "unknown" && outcome.later ? "later" : "again";
}

/**
 * Why a person's answer does not let a call run of a tool that requires an approver; null if it does. The
 * signature is checked here too: a program that writes into the store can write an answer, but not sign it.
 */
async function whyUnproven({ journal, own, session }: LedgerContext, call: Call, tool: Tool) {
  const { by, proof } = call;
  if (by === null || !tool.requireApprover) return null;
  const unsigned = `${tool.name} requires an approver, and the answer of ${quoteValue(by)} is not signed`;
  if (proof === null) return unsigned;
  const { SignatureCheck } = await import("../signing/index.ts");
  const check = new SignatureCheck(projectPlace(process.cwd()).root, journal.warn);
  const { generation } = own.log.head;
  const signed = { ...call, attempt: proof.attempt };
  const text = answerText({ namespace: journal.namespace, session, generation }, signed, proof);
  const signer = await check.signerOf({ purpose: "answer", text, signature: proof.signature });
  return signer === null ? `${unsigned} by an approver of this machine` : null;
}

/** A call whose arguments a person changed, with its new keys, unless another call does or did the same. */
async function changedCall({ context, call, tool, args }: Settling): Promise<Call | { problem: string }> {
  const { journal, own } = context;
  const { state } = own;
  try {
    const isDoubted = (key: string): boolean => state.doubted.has(key);
    const own = callKey(journal.namespace, tool, call.callId, call.args, args, isDoubted);
    const { scope, key } = own;
    const holder = state.calls.get(state.keys.get(key) ?? "");
    const [claim] = scope === "global" ? (await journal.list<"keys">({ of: "keys", keys: [key] })).rows : [];
    const isDone = holder && (isOpen(holder.status) || isRepeat(tool, holder, state.latestEffect));
    if (isDone || claim) {
      const who = claim ? `session ${streamId(claim.stream)}` : `call ${holder?.callId}`;
      return { problem: `with the changed arguments it is the same as what ${who} did or may do` };
    }
    const known = scope === "global" ? await failuresOf(journal, key) : 0;
    const failures = Math.max(state.failures.get(key) ?? 0, known);
    const doubted = scope === "global" ? undefined : state.doubted.get(key)?.vendorKey;
    const vendorKey = doubted ?? context.vendorKeys.of(own, failures, holder?.callId ?? null);
    return { ...call, scope, key, vendorKey, failures };
  } catch (error) {
    if (!isHoldfastError(error, "INPUT_INVALID")) throw error;
    return { problem: error.message };
  }
}

function issueAgain(call: Call, attempt: number, token: number): Draft {
  const { callId, messageId, tool, effect, scope, args, key, vendorKey, failures } = call;
  const who = call.answers === "person" ? {} : { answers: call.answers };
  const of = { callId, messageId, tool, effect, scope, args, key, vendorKey, failures, ...who };
  return draftIssued({ ...of, attempt, token });
}

type Learnt = { detail?: string; againAt?: number; settled?: true };

function verified({ callId, attempt }: Call, answer: VerifyAnswer, more: Learnt = {}): Draft {
  return { type: "call.verified", data: { callId, attempt, answer, ...more } };
}

/** Commits only if the call is still as seen: a person or a late answer may have come first. False if not. */
function change(
  context: LedgerContext,
  seen: Call,
  drafts: (state: SessionState) => readonly Draft[],
): MaybePromise<boolean> {
  return context.own.write((state) => {
    const call = callOf(state, seen.callId);
    const { status, attempt, granted } = seen;
    const same = call.status === status && call.attempt === attempt && call.granted === granted;
    return same ? { events: drafts(state), result: true } : { events: [], result: false };
  });
}
