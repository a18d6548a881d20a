/**
 * Calls of a session that was ended while one of them was in doubt. Nobody runs it, so nobody verifies them: a person has to
 * be able to say what became of them.
 *
 *     issued ──lost──▶ unknown ──waiting──▶ waiting ──person──▶ …
 *
 * Its last owner may live after all, and answer late: that is recorded as for any call that waits.
 */

import { type Call, isOpen, openCallsOf, type SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";

const WHY = "its session was ended, and nobody finds out by itself";

/** Open calls of which no person has said yet what is to become of them: a granted retry waits for the session to be reopened. */
export function undecided(state: SessionState): Call[] {
  return openCallsOf(state).filter(({ status, granted }) => status !== "waiting" && !granted);
}

/** Puts those that are still in doubt before a person. */
export function escalateToPerson(calls: Iterable<Call>, why: string = WHY): Draft[] {
  return [...calls].flatMap(({ id: callId, status, attempt }): Draft[] => {
    if (!isOpen(status) || status === "waiting") return [];
    const lost: Draft[] = status === "issued" ? [{ type: "call.lost", data: { callId, attempt, why } }] : [];
    return [...lost, { type: "call.waiting", data: { callId, why } }];
  });
}
