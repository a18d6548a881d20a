/**
 * Sessions without an owner: their calls in doubt, and their lease.
 *
 * No process verifies the calls of such a session, so a person must be able to decide about them:
 *
 *     issued ──lost──▶ unknown ──waiting──▶ waiting ──person──▶ …
 *
 * If the last owner lives after all and answers late, that is recorded as for any call that waits.
 */

import { type Journal, Lease } from "../journal/index.ts";
import { type Call, isOpen, openCallsOf, type SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { LeaseRow } from "../store.ts";

const SESSION_ENDED = "its session was ended, and nobody finds out by itself";

/** Open calls that no person has decided about. A granted retry is decided. */
export function undecidedCalls(state: SessionState): Call[] {
  return openCallsOf(state).filter(({ status, granted }) => status !== "waiting" && !granted);
}

export function escalateToPerson(calls: Iterable<Call>, why: string = SESSION_ENDED): Draft[] {
  return [...calls].flatMap(({ callId, status, attempt }): Draft[] => {
    if (!isOpen(status) || status === "waiting") return [];
    const data = { callId, attempt, why, gone: true } as const;
    const lost: Draft[] = status === "issued" ? [{ type: "call.lost", data }] : [];
    return [...lost, { type: "call.waiting", data: { callId, why } }];
  });
}

/** Called with a lease that a dead process probably left. `found` is the lease before the take. */
export type OnCrash = (lease: Lease, by: string, found: LeaseRow | null) => Promise<void>;

/** The look before the take knows the previous holder, even if the answer to the take gets lost. */
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
