/**
 * What becomes of a call whose outcome is unknown. Verify-before-retry:
 *
 *     tool gone from this program, input no longer accepted ──▶ a person
 *     a person granted another attempt ──▶ issued, attempt + 1
 *     verify: landed ──▶ completed        never ──▶ issued, attempt + 1
 *             notYet ──▶ asked again; after `settleMs`, if declared, attempt + 1; else a person
 *             unsure, or errors that do not stop ──▶ same-key retry if the tool allows it, else a person
 *     no verify: idempotent and in time ──▶ issued, attempt + 1, same key
 *                interrupted: "fail" ──▶ failed        else ──▶ a person
 *
 * Each arrow is one commit under the lease, decided on the state as it then is; a crash between two of them leaves
 * the call unknown with what was learnt so far, and the next process goes on from there. Nothing is ever retried
 * here without a recorded reason (I9).
 */

import { failpoint } from "../failpoint.ts";
import {
  type Call,
  type Draft,
  isOpen,
  type Json,
  type SessionState,
  type VerifyAnswer,
} from "../model/index.ts";
import { attempt, readResult } from "./attempt.ts";
import { callOf, executeFacts, type LedgerContext, storeResult } from "./context.ts";
import { describeError } from "./failure.ts";
import { type Closing, recordOutcome, watchLate } from "./recording.ts";
import { validate } from "./standard-schema.ts";
import { startAllowed } from "./starting.ts";
import type { Tool, Verdict } from "./tool.ts";
import { sleep, within } from "./waiting.ts";

const ATTEMPTS_PER_RUN = 3;
const VERIFY_ERRORS = 3;
const BACK_OFF_MS = 100;
/** How long `notYet` is believed of a tool that never said when its effects must have settled. */
const UNDECLARED_SETTLE_MS = 60_000;

/** `later`: it will be known without a person, but not now. */
export type Settled = "settled" | "waiting" | "later";

export async function settleCall(context: LedgerContext, callId: string, closing: Closing): Promise<Settled> {
  const firstAttempt = callOf(context.own.state, callId).attempt;
  for (;;) {
    context.stop.throwIfAborted();
    // A copy: the state moves on while a verify is under way, and every step must rest on what it saw.
    const call = { ...callOf(context.own.state, callId) };
    if (!isOpen(call.status)) return "settled";
    if (call.status === "waiting") return "waiting";
    const step = await nextStep(context, call, closing, call.attempt - firstAttempt);
    if (step !== "again") return step;
  }
}

type Step = Settled | "again";

async function nextStep(
  context: LedgerContext,
  call: Call,
  closing: Closing,
  retries: number,
): Promise<Step> {
  if (call.status === "issued") return lose(context, call, "the process that ran it is gone");
  const tool = context.tools.get(call.tool);
  if (!tool) return askPerson(context, call, `this program has no tool ${call.tool}`);
  if (context.running.has(call.id)) return awaitRunning(context, call);
  const input = await validate(tool.input, call.args);
  if ("problem" in input)
    return askPerson(context, call, `its input is no longer accepted: ${input.problem}`);
  if (call.granted) return reissue(context, call, tool, input.value, [], closing);
  if (tool.verify) return verify(context, call, tool, input.value, closing, retries);
  return withoutVerify(
    context,
    call,
    tool,
    input.value,
    closing,
    retries,
    call.why ?? "its outcome is unknown",
  );
}

async function lose(context: LedgerContext, call: Call, why: string): Promise<Step> {
  await change(context, call, () => [
    { type: "call.lost", data: { callId: call.id, attempt: call.attempt, why } },
  ]);
  context.on({ type: "call.unknown", callId: call.id, tool: call.tool, why });
  return "again";
}

async function askPerson(
  context: LedgerContext,
  call: Call,
  why: string,
  before: Draft[] = [],
): Promise<Step> {
  await change(context, call, () => [...before, { type: "call.waiting", data: { callId: call.id, why } }]);
  context.on({ type: "call.waiting", callId: call.id, tool: call.tool, why });
  return "waiting";
}

/** The attempt that was given up still runs here: its own answer is the best verify there is. */
async function awaitRunning(context: LedgerContext, call: Call): Promise<Step> {
  const answer = Promise.resolve(context.running.get(call.id)).then((): Step => "again");
  return within(answer, context.patienceMs, context.stop, "later" as const);
}

async function verify(
  context: LedgerContext,
  call: Call,
  tool: Tool,
  args: unknown,
  closing: Closing,
  retries: number,
): Promise<Step> {
  const dueInMs = (call.verify?.againAt ?? 0) - context.journal.now();
  if (dueInMs > context.patienceMs) return "later";
  if (dueInMs > 0) await sleep(dueInMs, context.stop);
  failpoint("verify.asked");
  const verdict = await askTool(context, call, tool, args);
  failpoint("verify.answered");
  context.on({ type: "call.verified", callId: call.id, tool: call.tool, answer: verdict.answer });
  switch (verdict.answer) {
    case "landed":
      return complete(context, call, tool, verdict.result, closing);
    case "never":
      return retries < ATTEMPTS_PER_RUN
        ? reissue(context, call, tool, args, [verified(call, "never")], closing)
        : askPerson(context, call, `${retries} more attempts came to nothing`, [verified(call, "never")]);
    case "notYet":
      return afterNotYet(context, call, tool, args, closing, verdict.againInMs);
    case "unsure":
      return withoutVerify(
        context,
        call,
        tool,
        args,
        closing,
        retries,
        verdict.why,
        verified(call, "unsure", verdict.why),
      );
    case "error":
      return afterError(context, call, tool, args, closing, retries, verdict.why);
  }
}

type Answer = Verdict<unknown> | { readonly answer: "error"; readonly why: string };

async function askTool(context: LedgerContext, call: Call, tool: Tool, args: unknown): Promise<Answer> {
  const timeout = tool.timeoutMs ?? 60_000;
  try {
    const asked = tool.verify?.(args as never, {
      key: call.vendorKey,
      callId: call.id,
      session: context.session,
      token: context.own.lease.token,
      attempt: call.attempt,
      issuedAt: call.issuedAt,
      signal: AbortSignal.any([context.stop, AbortSignal.timeout(timeout)]),
    });
    const silence = { answer: "error", why: `verify gave no answer within ${timeout} ms` } as const;
    return (await within(Promise.resolve(asked), timeout, context.stop, silence)) as Answer;
  } catch (error) {
    context.stop.throwIfAborted();
    return { answer: "error", why: describeError(error).message };
  }
}

async function complete(
  context: LedgerContext,
  call: Call,
  tool: Tool,
  result: unknown,
  closing: Closing,
): Promise<Step> {
  const read = await readResult(tool, result);
  const stored = await storeResult(context.journal, read.value as Json);
  const data = { callId: call.id, attempt: call.attempt, result: stored.result, by: "verify" };
  const drafts = (state: SessionState): Draft[] => [
    verified(call, "landed"),
    { type: "call.completed", data: { ...data, ...(read.note !== null && { why: read.note }) } },
    ...closing(state, call.id),
  ];
  await change(context, call, drafts, stored.artifacts);
  failpoint("call.settled");
  context.on({ type: "call.completed", callId: call.id, tool: call.tool, by: "verify" });
  return "again";
}

async function afterNotYet(
  context: LedgerContext,
  call: Call,
  tool: Tool,
  args: unknown,
  closing: Closing,
  againInMs: number,
): Promise<Step> {
  const now = context.journal.now();
  const since = call.lostAt ?? now;
  if (tool.settleMs !== undefined && now >= since + tool.settleMs) {
    return reissue(context, call, tool, args, [verified(call, "notYet", "settled")], closing);
  }
  if (tool.settleMs === undefined && now >= since + Math.max(UNDECLARED_SETTLE_MS, againInMs)) {
    const why = "no trace of it yet, and the tool has not said when it must have settled";
    return askPerson(context, call, why, [verified(call, "notYet")]);
  }
  const settledAt = tool.settleMs === undefined ? Number.POSITIVE_INFINITY : since + tool.settleMs;
  const againAt = Math.min(now + againInMs, settledAt);
  await change(context, call, () => [verified(call, "notYet", undefined, againAt)]);
  return "again";
}

async function afterError(
  context: LedgerContext,
  call: Call,
  tool: Tool,
  args: unknown,
  closing: Closing,
  retries: number,
  why: string,
): Promise<Step> {
  const count = (call.verify?.answer === "error" ? call.verify.count : 0) + 1;
  if (count >= VERIFY_ERRORS) {
    return withoutVerify(
      context,
      call,
      tool,
      args,
      closing,
      retries,
      `verify failed: ${why}`,
      verified(call, "error", why),
    );
  }
  const againAt = context.journal.now() + BACK_OFF_MS * 4 ** count;
  await change(context, call, () => [verified(call, "error", why, againAt)]);
  return "again";
}

/** Nobody can tell from here whether it happened. */
async function withoutVerify(
  context: LedgerContext,
  call: Call,
  tool: Tool,
  args: unknown,
  closing: Closing,
  retries: number,
  why: string,
  learnt?: Draft,
): Promise<Step> {
  const before = learnt ? [learnt] : [];
  if (mayRepeat(tool, call, context.journal.now())) {
    if (retries >= ATTEMPTS_PER_RUN)
      return askPerson(context, call, `${retries} more attempts: ${why}`, before);
    if (retries > 0) await sleep(BACK_OFF_MS * 4 ** (retries - 1), context.stop);
    return reissue(context, call, tool, args, before, closing);
  }
  if (tool.interrupted !== "fail") return askPerson(context, call, why, before);
  const error = { message: `interrupted, and nobody knows whether it took effect: ${why}` };
  await change(context, call, (state) => [
    ...before,
    { type: "call.failed", data: { callId: call.id, attempt: call.attempt, error, by: "interrupted" } },
    ...closing(state, call.id),
  ]);
  context.on({ type: "call.failed", callId: call.id, tool: call.tool, error: error.message });
  return "again";
}

/** Same key, same effect: as long as the vendor remembers the key. */
function mayRepeat(tool: Tool, call: Call, now: number): boolean {
  if (tool.idempotent === undefined) return false;
  return tool.idempotent === true || now < call.firstIssuedAt + tool.idempotent.forMs;
}

async function reissue(
  context: LedgerContext,
  call: Call,
  tool: Tool,
  args: unknown,
  before: readonly Draft[],
  closing: Closing,
): Promise<Step> {
  const next = call.attempt + 1;
  const wrote = await change(context, call, () => [
    ...before,
    issueAgain(call, next, context.own.lease.token),
  ]);
  if (!wrote) return "again";
  failpoint("wave.issued");
  await startAllowed(context);
  context.on({ type: "call.issued", callId: call.id, tool: call.tool, attempt: next });
  const outcome = await attempt(tool, args, executeFacts(context, call, next), context.stop);
  failpoint("call.executed");
  if (outcome.kind === "unknown" && outcome.late)
    watchLate(context, callOf(context.own.state, call.id), outcome.late);
  await recordOutcome(context, { id: call.id, attempt: next, tool: call.tool }, outcome, closing);
  return outcome.kind === "unknown" && outcome.later ? "later" : "again";
}

function issueAgain(call: Call, attempt: number, token: number): Draft {
  const { id: callId, messageId, tool, effect, scope, args, key, vendorKey } = call;
  return {
    type: "call.issued",
    data: { callId, messageId, tool, effect, scope, args, key, vendorKey, attempt, token },
  };
}

function verified(call: Call, answer: VerifyAnswer, detail?: string, againAt?: number): Draft {
  const { id: callId, attempt } = call;
  return {
    type: "call.verified",
    data: {
      callId,
      attempt,
      answer,
      ...(detail !== undefined && { detail }),
      ...(againAt !== undefined && { againAt }),
    },
  };
}

/** Commits only while the call is still as it was when we decided; a person or a late answer may have been faster. */
function change(
  context: LedgerContext,
  seen: Call,
  drafts: (state: SessionState) => Draft[],
  artifacts: readonly string[] = [],
): Promise<boolean> {
  const { status, attempt: number, granted } = seen;
  return context.own.write((state) => {
    const call = callOf(state, seen.id);
    const same = call.status === status && call.attempt === number && call.granted === granted;
    return same ? { events: drafts(state), result: true, artifacts } : { events: [], result: false };
  });
}
