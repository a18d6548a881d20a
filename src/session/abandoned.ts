/**
 * Calls of a session that was ended while one of them was in doubt. Nobody runs it, so nobody verifies them:
 * a person has to be able to say what became of them.
 *
 *     issued ──lost──▶ unknown ──waiting──▶ waiting ──person──▶ …
 *
 * Its last owner may live after all, and answer late: that is recorded as for any call that waits.
 */

import { type Journal, Lease } from "../journal/index.ts";
import { type Call, isOpen, openCallsOf, type SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { LeaseRow } from "../store.ts";

/**
 * Told of a lease that may have been taken from somebody who died, while it is held; with how it was found
 * before.
 */
export type OnCrash = (lease: Lease, by: string, found: LeaseRow | null) => Promise<void>;

/**
 * The lease of a session that nobody runs, for a person who says something there. It is looked at first:
 * where the answer to the take gets lost and the store is asked once more, only that look tells from whom it
 * was taken.
 */
export async function takeFromDead(
  journal: Journal,
  stream: string,
  by: string,
  onCrash: OnCrash,
): Promise<Lease | LeaseRow> {
  const found = await journal.leases.find(stream);
  const lease = await journal.leases.take(stream, journal.newId(), { label: by, waitMs: 0 });
  if (!(lease instanceof Lease) || (lease.from === null && !found?.holder)) return lease;
  try {
    await onCrash(lease, by, found);
    return lease;
  } catch (error) {
    await lease.release();
    throw error;
  }
}

const WHY = "its session was ended, and nobody finds out by itself";

/**
 * Open calls of which no person has said yet what is to become of them: a granted retry waits for the session
 * to be reopened.
 */
export function undecidedCalls(state: SessionState): Call[] {
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
