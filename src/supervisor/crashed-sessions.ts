/**
 * Marks sessions whose process died.
 *
 *     lease expired or its holder is gone ──take it──▶ granted, and taken from the dead holder
 *       ──▶ mark the crash in the goal's history ──▶ request a worker ──▶ release
 *
 * The lease makes a crash count once: only one supervisor is granted it, its token guards the mark, and after
 * the release it no longer names the dead process. A supervisor that dies before the release, or cannot write
 * the mark for a temporary reason, leaves a lease that expires. The next supervisor does the same steps.
 *
 * The answer to the take may get lost. Asked again, the store says that the lease is ours and no longer knows
 * the previous holder. The lease as it was listed knows it, unless another process had the lease in between.
 *
 * A session that continues by itself meanwhile is held again, and nothing is written. A session whose process
 * dies after the leases were listed may be taken to settle its calls: that records the crash first.
 */

import { type Goal, goalCore, seemsGone, sessionActs } from "../goal/index.ts";
import { allRows, type Journal, Lease } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Actor, GoalDraft, GoalState } from "../model/goal/index.ts";
import { streamId } from "../model/names.ts";
import { holderText } from "../session/index.ts";
import type { Holder, LeaseRow } from "../store.ts";
import type { SupervisorEvent } from "./notices.ts";
import type { Attempt } from "./worker-kind.ts";

export interface CrashContext {
  readonly journal: Journal;
  readonly by: Actor;
  goal(id: string): Promise<Goal | null>;
  want(session: string): Promise<void>;
  emit(event: SupervisorEvent): void;
  readonly attempt: Attempt;
  /** Leases this supervisor let expire, by stream, with the dead holder. Kept between sweeps. */
  readonly unmarked: Map<string, { readonly from: Holder; readonly owner: string }>;
}

export async function markCrashedSessions(
  context: CrashContext,
  leases: ReadonlyMap<string, LeaseRow>,
): Promise<string[]> {
  const crashed: string[] = [];
  for (const lease of leases.values()) {
    if (!isAbandoned(lease)) continue;
    const session = streamId(lease.name);
    const mark = () => markCrashed(context, lease);
    if (await context.attempt(`marking session ${session} as crashed`, mark, false)) crashed.push(session);
  }
  return crashed;
}

async function markCrashed(context: CrashContext, listed: LeaseRow): Promise<boolean> {
  const { journal, by } = context;
  const lease = await journal.leases.take(listed.name, journal.newId(), { label: by.name, waitMs: 0 });
  if (!(lease instanceof Lease)) return false;
  try {
    return await recordCrash(context, lease, listed);
  } finally {
    await lease.release();
  }
}

/** True if the lease was just taken from a dead process. `listed`: the lease before that, if known. */
export async function recordCrash(
  context: Omit<CrashContext, "attempt">,
  lease: Lease,
  listed?: LeaseRow,
): Promise<boolean> {
  const { journal, by } = context;
  const from = previousHolder(context, lease, listed);
  try {
    // Read under the lease: the session may have been ended or cancelled before.
    const row = await journal.row(lease.name);
    if (from === null || row.state !== "live" || row.facets.status !== "active") return false;
    const session = streamId(lease.name);
    const why = `${holderText(from)} is gone`;
    const goal = row.facets.goal === null ? null : await context.goal(row.facets.goal);
    if (goal) await noteCrash(goal, by, { lease, from, why, startedAt: row.createdAt });
    await context.want(session);
    context.emit({ type: "session.crashed", session, goal: goal?.id ?? null, why });
    return true;
  } catch (error) {
    if (from && isHoldfastError(error) && error.retryable) {
      context.unmarked.set(lease.name, { from, owner: lease.holder.owner });
      lease.letExpire();
    }
    throw error;
  }
}

/** The dead holder. If our own expired lease came in between, the holder before that. */
function previousHolder(
  { unmarked }: Pick<CrashContext, "unmarked">,
  { name, token, from: reported }: Lease,
  listed: LeaseRow | undefined,
): Holder | null {
  const own = unmarked.get(name);
  unmarked.delete(name);
  const from = reported ?? (isAbandoned(listed) && token === listed.token + 1 ? listed.holder : null);
  return own && own.owner === from?.owner ? own.from : from;
}

/** Marks the crash in the goal's history. A session without an entry gets one, from its creation on. */
async function noteCrash(
  goal: Goal,
  by: Actor,
  { lease, from, why, startedAt }: { lease: Lease; from: Holder; why: string; startedAt: number },
): Promise<void> {
  const session = streamId(lease.name);
  const notes = `Agent unresponsive: ${why}`.slice(0, 1_000);
  await goalCore(goal).commit(by, (state: GoalState) => {
    const entry = state.history.get(session);
    if (entry && entry.status !== "active") return { events: [], result: undefined };
    const start = { session, agent: from.label.slice(0, 500) || "unknown", resumes: null, startedAt };
    const started = entry ? [] : sessionActs.startSession(state, by, start).events;
    const crashed: GoalDraft = { type: "session.crashed", data: { by, session, notes } };
    return { events: [...started, crashed], result: undefined, guards: [lease.guard] };
  });
}

// ---- Leases

export async function leasesUnder(journal: Journal, prefix: string): Promise<Map<string, LeaseRow>> {
  const rows = await allRows((from) => journal.list<"leases">({ of: "leases", prefix, limit: 500, ...from }));
  return new Map(rows.map((row) => [row.name, row]));
}

export function isLive(row: LeaseRow | undefined): boolean {
  return row?.holder != null && row.remainingMs > 0 && !seemsGone(row.holder);
}

/** True if the holder did not release the lease and seems to be gone. Only taking it proves that. */
export function isAbandoned(row: LeaseRow | undefined): row is LeaseRow {
  return row?.holder != null && !isLive(row);
}
