/**
 * One look at a goal: tasks whose holder is gone or stuck go back, runs and sessions that are only known to the goal
 * and gave no sign are marked as crashed, and what is ready or stopped is reported.
 *
 * Every change is one commit, guarded by the lease of what it is about or decided on the state as it then is, so a
 * crash between two of them leaves the rest for the next look, and two supervisors write nothing twice.
 */

import { type Goal, goalCore, type LostClaim, resetLostClaims } from "../goal/index.ts";
import { type Journal, Lease } from "../journal/index.ts";
import { type Actor, blockedTasks, type HistoryEntry } from "../model/goal/index.ts";
import { streamName } from "../model/names.ts";
import { exactAge } from "../model/time.ts";
import type { LeaseRow } from "../store.ts";
import { isLive, leasesUnder } from "./leases.ts";
import type { SupervisorEvent } from "./notices.ts";
import type { Work } from "./work.ts";

export interface GoalPlace {
  readonly journal: Journal;
  readonly by: Actor;
  readonly staleAfterMs: number;
  tell(event: SupervisorEvent): void;
}

export interface GoalReport {
  readonly reset: readonly (LostClaim & { readonly goal: string })[];
  readonly ready: readonly Work[];
  /** Set when nothing can move before a person helps. */
  readonly stopped: string | null;
  readonly blocked: ReadonlySet<string>;
}

export async function sweepGoal(
  place: GoalPlace,
  goal: Goal,
  sessions: ReadonlyMap<string, LeaseRow>,
): Promise<GoalReport> {
  await goal.refresh();
  const living = await livingSessions(place, goal, sessions);
  const lost = await resetLostClaims(goal, place.by, { staleAfterMs: place.staleAfterMs, living });
  for (const each of lost) place.tell({ type: "task.reset", goal: goal.id, ...each });
  await markSilent(place, goal, sessions);
  const next = await goal.next();
  return {
    reset: lost.map((each) => ({ goal: goal.id, ...each })),
    ready: next.tasks.map(({ id }) => ({ kind: "task", goal: goal.id, task: id })),
    stopped: next.outlook === "blocked" || next.outlook === "stuck" ? next.why : null,
    blocked: new Set(blockedTasks(goal.state).keys()),
  };
}

/** Of those that hold tasks: who still has their own session, and when they last wrote to it. */
async function livingSessions(
  { journal }: GoalPlace,
  goal: Goal,
  sessions: ReadonlyMap<string, LeaseRow>,
): Promise<Map<string, number>> {
  const living = new Map<string, number>();
  for (const { claim } of goal.state.tasks.values()) {
    const stream = claim?.session ? sessionStream(claim.session) : null;
    if (!claim?.session || !stream || !(await isLiveNow(journal, sessions, stream))) continue;
    living.set(claim.session, (await journal.row(stream)).updatedAt);
  }
  return living;
}

/** The leases were listed when the sweep began: who is not among the living by then may have come since. */
async function isLiveNow(
  journal: Journal,
  listed: ReadonlyMap<string, LeaseRow>,
  stream: string,
): Promise<boolean> {
  return isLive(listed.get(stream)) || isLive((await journal.leases.find(stream)) ?? undefined);
}

/** The name that an agent gave itself need not be one that a session can have. */
function sessionStream(session: string): string | null {
  try {
    return streamName("session", session);
  } catch {
    // No stream can have this name, so no lease has it.
    return null;
  }
}

/** Entries that say active, hold no task, and whose own session or run is not alive. */
async function markSilent(
  place: GoalPlace,
  goal: Goal,
  sessions: ReadonlyMap<string, LeaseRow>,
): Promise<void> {
  const busy = new Set([...goal.state.tasks.values()].map(({ claim }) => claim?.session));
  const active = [...goal.state.history.values()].filter(
    ({ status, id }) => status === "active" && !busy.has(id),
  );
  if (active.length === 0) return;
  const own = await leasesUnder(place.journal, `goal/${goal.id}/`);
  for (const entry of active) {
    const run = own.get(`goal/${goal.id}/${entry.id}`);
    const stream = sessionStream(entry.id);
    if (stream !== null && (await isLiveNow(place.journal, sessions, stream))) continue;
    if (run) await markDeadRun(place, goal, entry, run);
    else await markStale(place, goal, entry);
  }
}

async function markDeadRun(place: GoalPlace, goal: Goal, entry: HistoryEntry, run: LeaseRow): Promise<void> {
  if (isLive(run)) return;
  const { journal, by } = place;
  const lease = await journal.leases.take(run.name, journal.newId(), { label: by.name, waitMs: 0 });
  if (!(lease instanceof Lease)) return;
  try {
    await crash(place, goal, entry, "its run ended without a word");
  } finally {
    await lease.release();
  }
}

async function markStale(place: GoalPlace, goal: Goal, entry: HistoryEntry): Promise<void> {
  const idleMs = place.journal.now() - (await changedAt(goal, entry));
  if (idleMs < place.staleAfterMs) return;
  await crash(place, goal, entry, `no sign of it for ${exactAge(idleMs)}`);
}

async function changedAt(goal: Goal, { revision, startedAt }: HistoryEntry): Promise<number> {
  for await (const [seq, { at }] of goal.events(revision - 1)) {
    if (seq === revision) return at;
  }
  return startedAt;
}

async function crash(place: GoalPlace, goal: Goal, { id }: HistoryEntry, why: string): Promise<void> {
  const notes = `Agent unresponsive: ${why}`;
  const wrote = await goalCore(goal).commit(place.by, (state) => {
    if (state.history.get(id)?.status !== "active") return { events: [], result: false };
    return {
      events: [{ type: "session.crashed", data: { by: place.by, session: id, notes } }],
      result: true,
    };
  });
  if (wrote) place.tell({ type: "session.crashed", session: id, goal: goal.id, why });
}
