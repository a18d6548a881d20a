/**
 * Sessions whose process died.
 *
 *     lease held, but run out or its holder gone ──take it──▶ granted, from the dead ──▶ mark in the goal's history
 *       ──▶ note that a worker is wanted ──▶ release
 *
 * The lease is what makes a crash count once: only one supervisor is granted it, the mark is guarded by its token, and
 * after the release it is no longer the dead one's. A supervisor that dies before the release leaves a lease of its
 * own that runs out: the next one comes by the same way, and finds the session marked already. So does one that could
 * not mark it for a reason that may pass: its lease is left to run out.
 *
 * The answer to the take may get lost on its way, and the store asked once more: that finds the lease ours already, and no longer
 * knows whom it was taken from. The lease as it was listed does, if nobody had it in between.
 *
 * A session that goes on by itself in between is held again, and nothing is written. One whose process dies after the leases
 * were listed may be taken to settle its calls: whoever does that records the crash first.
 */

import { type Goal, goalCore, seemsGone, sessionActs } from "../goal/index.ts";
import { allRows, type Journal, Lease } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Actor, GoalDraft, GoalState } from "../model/goal/index.ts";
import { streamId } from "../model/names.ts";
import type { Holder, LeaseRow, StreamRow } from "../store.ts";
import type { SupervisorEvent } from "./notices.ts";
import type { Try } from "./worker-kind.ts";

/** All leases whose name begins so, by name. */
export async function leasesUnder(journal: Journal, prefix: string): Promise<Map<string, LeaseRow>> {
  const rows = await allRows((from) => journal.list<"leases">({ of: "leases", prefix, limit: 500, ...from }));
  return new Map(rows.map((row) => [row.name, row]));
}

/** Held by somebody of whom nothing says that they are gone. */
export function isLive(row: LeaseRow | undefined): boolean {
  return row?.holder != null && row.remainingMs > 0 && !seemsGone(row.holder);
}

/** Held by somebody who did not let go of it and seems to be gone. Taking it is the proof. */
export function isAbandoned(row: LeaseRow | undefined): row is LeaseRow {
  return row?.holder != null && !isLive(row);
}

export interface CrashPlace {
  readonly journal: Journal;
  readonly by: Actor;
  /** The goal of this name; null when there is none. */
  goal(id: string): Promise<Goal | null>;
  /** A worker is to be started for this session, if anybody starts workers. */
  want(session: string): Promise<void>;
  tell(event: SupervisorEvent): void;
  readonly attempt: Try;
  /** Whom we took a lease from that we left to run out, by the stream, with the name that we left it under. Kept over sweeps. */
  readonly unmarked: Map<string, { readonly from: Holder; readonly owner: string }>;
}

/** Returns the ids of those that this sweep found dead. */
export async function markCrashedSessions(
  place: CrashPlace,
  leases: ReadonlyMap<string, LeaseRow>,
): Promise<string[]> {
  const crashed: string[] = [];
  for (const lease of leases.values()) {
    if (!isAbandoned(lease)) continue;
    const session = streamId(lease.name);
    const mark = () => markCrashed(place, lease);
    if (await place.attempt(`marking session ${session} as crashed`, mark, false)) crashed.push(session);
  }
  return crashed;
}

async function markCrashed(place: CrashPlace, listed: LeaseRow): Promise<boolean> {
  const { journal, by } = place;
  const lease = await journal.leases.take(listed.name, journal.newId(), { label: by.name, waitMs: 0 });
  if (!(lease instanceof Lease)) return false;
  try {
    return await recordCrash(place, lease, listed);
  } finally {
    await lease.release();
  }
}

/**
 * For whoever has just taken the lease of a session: true when that was left by somebody who died. `listed`: the lease as it was
 * before, where that is known.
 */
export async function recordCrash(
  place: Omit<CrashPlace, "attempt">,
  lease: Lease,
  listed?: LeaseRow,
): Promise<boolean> {
  const { journal, by } = place;
  const from = deadOf(place, lease, listed);
  try {
    // Only now: somebody may have ended or cancelled it before the lease was ours.
    const row = await journal.row(lease.name);
    if (from === null || row.state !== "live" || row.facets.status !== "active") return false;
    const session = streamId(lease.name);
    const why = `${holderText(from)} is gone`;
    const goal = row.facets.goal === null ? null : await place.goal(row.facets.goal);
    if (goal) await noteCrash(goal, by, { row, lease, from, why });
    await place.want(session);
    place.tell({ type: "session.crashed", session, goal: goal?.id ?? null, why });
    return true;
  } catch (error) {
    if (from && isHoldfastError(error) && error.retryable) {
      place.unmarked.set(lease.name, { from, owner: lease.holder.owner });
      lease.letExpire();
    }
    throw error;
  }
}

/** Who had it before us; where that was ourselves, who had it before that. */
function deadOf(
  { unmarked }: Pick<CrashPlace, "unmarked">,
  { name, token, from: told }: Lease,
  listed: LeaseRow | undefined,
): Holder | null {
  const left = unmarked.get(name);
  unmarked.delete(name);
  const from = told ?? (isAbandoned(listed) && token === listed.token + 1 ? listed.holder : null);
  return left && left.owner === from?.owner ? left.from : from;
}

interface Death {
  readonly row: StreamRow;
  readonly lease: Lease;
  readonly from: Holder;
  readonly why: string;
}

/** A session that the goal has never heard of gets its entry now, from when it began. */
async function noteCrash(goal: Goal, by: Actor, { row, lease, from, why }: Death): Promise<void> {
  const session = streamId(row.stream);
  const notes = `Agent unresponsive: ${why}`.slice(0, 1_000);
  await goalCore(goal).commit(by, (state: GoalState) => {
    const entry = state.history.get(session);
    if (entry && entry.status !== "active") return { events: [], result: undefined };
    const start = {
      session,
      agent: from.label.slice(0, 500) || "unknown",
      resumes: null,
      startedAt: row.createdAt,
    };
    const begun = entry ? [] : sessionActs.startSession(state, by, start).events;
    const crashed: GoalDraft = { type: "session.crashed", data: { by, session, notes } };
    return { events: [...begun, crashed], result: undefined, guards: [lease.guard] };
  });
}

function holderText({ label, host, pid }: Holder): string {
  return `${label} (${host}, pid ${pid})`;
}
