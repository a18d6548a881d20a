/**
 * Calls of a session that was ended while one of them was in doubt. Nobody runs it, so nobody verifies them: a person has to
 * be able to say what became of them.
 *
 *     issued ──lost──▶ unknown ──waiting──▶ waiting ──person──▶ …
 *
 * Its last owner may live after all, and answer late: that is recorded as for any call that waits.
 */

import { type Call, type Draft, isOpen } from "../model/index.ts";

const WHY = "its session was ended, and nobody finds out by itself";

/** Puts those that are still in doubt before a person. */
export function putBeforePerson(calls: Iterable<Call>): Draft[] {
  return [...calls].flatMap(({ id: callId, status, attempt }): Draft[] => {
    if (!isOpen(status) || status === "waiting") return [];
    const lost: Draft[] =
      status === "issued" ? [{ type: "call.lost", data: { callId, attempt, why: WHY } }] : [];
    return [...lost, { type: "call.waiting", data: { callId, why: WHY } }];
  });
}
