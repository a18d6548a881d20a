/** How events of calls change a session. Every step goes through the table of transitions in `call.ts`. */

import { HoldfastError } from "../errors.ts";
import type { Place } from "../stream/index.ts";
import { releaseChild } from "./budget.ts";
import type {
  AnswerContent,
  ApprovedData,
  Call,
  CallAct,
  CallError,
  CompletedData,
  FailedData,
  GrantedData,
  IssuedData,
  LostData,
  NoTrace,
  RepeatedData,
  SettledBy,
  VerifiedData,
  WaitingData,
} from "./call.ts";
import { APPROVED, CALL_TRANSITIONS, isOpen, unsettledAnswer } from "./call.ts";
import type { SessionState } from "./session-state.ts";

export function issueCall(state: SessionState, data: IssuedData, place: Place): void {
  const earlier = state.calls.get(data.callId);
  if (earlier) {
    move(state, earlier, "issue");
    if (earlier.key === "") rekey(state, earlier, data, place);
    earlier.attempt = data.attempt;
    earlier.issuedAt = place.at;
    earlier.token = data.token;
    earlier.verify = null;
    earlier.granted = false;
    earlier.approval = null;
    earlier.lacksTool = false;
    earlier.needsPerson = false;
    earlier.lostAt = null;
  } else {
    const keySince = state.doubted.get(data.key)?.since ?? null;
    add(state, newCall(data, place, keySince), "issue");
  }
  state.keys.set(data.key, data.callId);
  if (data.effect !== "read") state.latestEffect = data.callId;
}

/** A call whose arguments a person changed gets the key of the new ones. */
function rekey(state: SessionState, call: Call, data: IssuedData, { seq }: Place): void {
  const { scope, key, vendorKey, failures } = data;
  Object.assign(call, { scope, key, vendorKey, failures, seq });
  call.keySince = state.doubted.get(key)?.since ?? null;
}

export function completeCall(state: SessionState, data: CompletedData, place: Place): void {
  const call = known(state, data.callId);
  move(state, call, "complete");
  call.result = data.result;
  call.note = data.note ?? null;
  settle(state, call, data, place);
  state.doubted.delete(call.key);
}

export function failCall(state: SessionState, data: FailedData, place: Place): void {
  const earlier = state.calls.get(data.callId);
  const call = earlier ?? newCall(refusedCall(data), place);
  if (earlier) move(state, earlier, "fail");
  else add(state, call, "fail");
  call.error = data.error as CallError;
  settle(state, call, data, place);
  if (state.keys.get(call.key) === call.callId) state.keys.delete(call.key);
  if (!earlier || call.key === "") return;
  if (countsAsFailure(call, data)) {
    state.failures.set(call.key, Math.max(state.failures.get(call.key) ?? 0, call.failures) + 1);
    state.doubted.delete(call.key);
  } else if (leavesDoubt(data.by)) {
    const { vendorKey, keySince, firstIssuedAt } = call;
    state.doubted.set(call.key, { vendorKey, since: keySince ?? firstIssuedAt });
  }
}

/**
 * Whether a failure changes the vendor's key. Only a certain rejection does; an unknown or presumed outcome
 * must not. If an earlier call with the same key is in doubt, only a person or `verify` can answer for both.
 */
export function countsAsFailure({ keySince }: Call, { by, doubted }: FailedData): boolean {
  if (by === "fork" || leavesDoubt(by)) return false;
  const isDoubted = keySince !== null || doubted === true;
  return !isDoubted || by === "verify" || by === "person";
}

/** True for a failure after which the effect may still have landed. */
export function leavesDoubt(by: SettledBy): boolean {
  return by === "presumed" || by === "interrupted";
}

export function loseCall(state: SessionState, data: LostData, place: Place): void {
  const call = known(state, data.callId);
  move(state, call, "lose");
  call.lacksTool = false;
  call.needsPerson = data.person === true;
  call.why = data.why;
  call.lostAt = place.at;
  if (data.started !== false) call.doubt ??= data.attempt;
}

export function verifyCall(state: SessionState, data: VerifiedData, place: Place): void {
  const call = known(state, data.callId);
  move(state, call, "verify");
  call.verify = {
    answer: data.answer,
    detail: data.detail ?? null,
    at: place.at,
    againAt: data.againAt ?? null,
    errors: data.answer === "error" ? (call.verify?.errors ?? 0) + 1 : 0,
    noTrace: noTraceAfter(call, data.answer, place.at),
  };
  if (data.answer === "never" || data.settled) call.doubt = null;
}

/** An error of `verify` keeps the earlier answer. */
function noTraceAfter(call: Call, answer: VerifiedData["answer"], at: number): NoTrace | null {
  if (answer === "notYet") return unsettledAnswer(call, at);
  return answer === "error" ? (call.verify?.noTrace ?? null) : null;
}

export function waitCall(state: SessionState, data: WaitingData): void {
  const call = known(state, data.callId);
  move(state, call, "wait");
  call.lacksTool = data.lacks === "tool";
  call.why = data.why;
  if (!data.again) return;
  call.granted = false;
  call.approval = null;
  call.proof = null;
  call.by = null;
  call.answers = data.answers ?? call.answers;
}

export function grantCall(state: SessionState, data: GrantedData): void {
  const { callId, person: by, why, signature } = data;
  grant(known(state, callId), { outcome: "retry", by, why }, signature, state);
}

function grant(call: Call, answer: AnswerContent, signature: string | undefined, state: SessionState): void {
  move(state, call, "grant");
  call.granted = true;
  call.lacksTool = false;
  call.doubt = null;
  call.by = answer.by;
  call.why = answer.why;
  call.proof = signature === undefined ? null : { ...answer, attempt: call.attempt, signature };
}

/** Other arguments free the call's key: nothing was done under it. The next issue sets a new one. */
export function approveCall(state: SessionState, data: ApprovedData): void {
  const { callId, person: by, why = APPROVED, args, until, signature } = data;
  const call = known(state, callId);
  grant(call, { outcome: "approved", by, why, ...(until !== undefined && { until }) }, signature, state);
  call.approval = { until: until ?? null };
  if (args === undefined) return;
  call.asked = { args: call.asked?.args ?? call.args, changedBy: by };
  call.args = args;
  if (state.keys.get(call.key) === callId) state.keys.delete(call.key);
  call.key = "";
  call.vendorKey = "";
}

export function repeatCall(state: SessionState, data: RepeatedData, place: Place): void {
  const first = state.calls.get(data.of.callId);
  const issued = {
    ...data,
    scope: "session" as const,
    vendorKey: first?.vendorKey ?? "",
    failures: 0,
    attempt: 1,
    token: 0,
  };
  const call = newCall(issued, place);
  add(state, call, "repeat");
  call.repeats = data.of;
  call.result = data.result ?? first?.result ?? null;
  call.note = first?.note ?? null;
  call.settledAt = data.since;
}

function newCall(data: IssuedData, place: Place, keySince: number | null = null): Call {
  return {
    callId: data.callId,
    messageId: data.messageId,
    tool: data.tool,
    effect: data.effect,
    scope: data.scope,
    args: data.args as Call["args"],
    asked: null,
    key: data.key,
    vendorKey: data.vendorKey,
    failures: data.failures,
    status: "issued",
    attempt: data.attempt,
    issuedAt: place.at,
    firstIssuedAt: place.at,
    keySince,
    seq: place.seq,
    token: data.token,
    result: null,
    note: null,
    error: null,
    settledBy: null,
    settledAt: null,
    why: null,
    by: null,
    verify: null,
    lostAt: null,
    doubt: null,
    granted: false,
    approval: null,
    proof: null,
    answers: data.answers ?? "person",
    lacksTool: false,
    needsPerson: false,
    isAside: false,
    repeats: null,
  };
}

/** A call that failed before it was issued. It has no key, so it blocks nothing. */
function refusedCall(data: FailedData): IssuedData {
  return {
    callId: data.callId,
    messageId: data.messageId ?? null,
    tool: data.tool ?? "unknown",
    effect: "read",
    scope: "call",
    args: data.args ?? null,
    key: "",
    vendorKey: "",
    failures: 0,
    attempt: Math.max(1, data.attempt),
    token: 0,
  };
}

function settle(state: SessionState, call: Call, data: CompletedData | FailedData, place: Place): void {
  state.budget = releaseChild(state.budget, call.callId);
  call.settledBy = data.by;
  call.settledAt = place.at;
  call.by = data.person ?? null;
  if (data.why !== undefined) call.why = data.why;
}

function known(state: SessionState, callId: string): Call {
  const call = state.calls.get(callId);
  if (call) return call;
  throw illegalCall(callId, "none", "settle");
}

function add(state: SessionState, call: Call, act: CallAct): void {
  const next = CALL_TRANSITIONS.none[act];
  if (!next) throw illegalCall(call.callId, "none", act);
  state.calls.set(call.callId, call);
  enter(state, call, next);
}

function move(state: SessionState, call: Call, act: CallAct): void {
  const next = CALL_TRANSITIONS[call.status][act];
  if (!next) throw illegalCall(call.callId, call.status, act);
  enter(state, call, next);
}

function enter(state: SessionState, call: Call, status: Call["status"]): void {
  call.status = status;
  if (isOpen(status)) state.openCalls.add(call.callId);
  else state.openCalls.delete(call.callId);
}

export function illegalCall(callId: string, status: string, act: CallAct | "settle"): HoldfastError {
  return new HoldfastError("CALL_TRANSITION", `call ${callId} is ${status}: it cannot ${act}`, {
    hint: "Reread the session: another process, or a person, settled this call first.",
    data: { callId, status, act },
  });
}
