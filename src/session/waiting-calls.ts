import type { BlockedCall } from "../ledger/index.ts";
import type { Call } from "../model/session/index.ts";
import type { WaitingCall } from "./run-options.ts";

/** What a run waits for: its own open calls, and those that it may not begin before another session's have an outcome. */
export function waitingCalls(open: readonly Call[], blocked: readonly BlockedCall[]): WaitingCall[] {
  const own = open.map(({ id, tool, status, needsPerson, why }) => ({
    callId: id,
    tool,
    person: status === "waiting" || needsPerson,
    why: why ?? "its outcome is not known yet",
  }));
  return [...own, ...blocked.map(blockedCall)];
}

function blockedCall({ callId, tool, by }: BlockedCall): WaitingCall {
  const { session, person } = by;
  const why = `call ${by.callId} of session ${session} does the same and has no outcome yet`;
  return { callId, tool, person, why, blockedBy: { session, callId: by.callId } };
}
