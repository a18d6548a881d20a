/**
 * Claims whose holder is gone.
 *
 *     its lease was released, ran out, or its process is no longer there ──▶ dead
 *     it lives, but nothing shows that it got any further for so long ──▶ stale; only for whoever asks for that
 *
 * This only suspects. Whether a holder is dead is decided by the task's lease, which a living holder keeps; whether
 * the claim is still the one that was seen, by its token, inside the commit that puts the task back. So any number
 * of processes may look at once, and each death is recorded once.
 *
 * A claim belongs to a session, and a session may be busy with something the goal does not see: what its own log
 * says, or another task of it, counts as progress too.
 */

import { hostname } from "node:os";
import type { GoalState, Task, TaskClaim } from "../model/goal/index.ts";
import { exactAge } from "../model/time.ts";
import type { Holder, LeaseRow } from "../store.ts";
import { isForeign } from "./claim-acts.ts";
import { leaseName } from "./lease-name.ts";

export interface LostOptions {
  /** Also those that live but have not got any further for so long. Null: the dead alone. */
  readonly staleAfterMs: number | null;
  /** The task that is about to be claimed: taking it over says the same. */
  readonly except?: string;
  /** Sessions whose own lease is kept by a living process, and when each last wrote. */
  readonly living?: ReadonlyMap<string, number>;
}

export interface LostClaim {
  readonly task: string;
  readonly session: string | null;
  readonly agent: string;
  /** The last that it said it was doing. */
  readonly note: string | null;
  readonly why: string;
}

export interface Suspect extends LostClaim {
  readonly token: number;
  /** It still lives: its lease has to be taken from it. */
  readonly isAlive: boolean;
}

type Claimed = Task & { readonly claim: TaskClaim };

export function claimedTasks(state: GoalState): Claimed[] {
  return [...state.tasks.values()].filter((task): task is Claimed => task.claim !== null);
}

export function suspects(
  state: GoalState,
  leases: readonly LeaseRow[],
  now: number,
  options: LostOptions,
): Suspect[] {
  const rows = new Map(leases.map((row) => [row.name, row]));
  const claimed = claimedTasks(state);
  return claimed.flatMap((task) => {
    if (task.id === options.except) return [];
    const { claim } = task;
    // A lease of another copy's store is not seen from here: nobody can tell from here that its holder is gone.
    const isElsewhere = isForeign(state, claim);
    const livesElsewhere = claim.session !== null && options.living?.has(claim.session) === true;
    const isAlive = livesElsewhere || (!isElsewhere && holds(rows.get(leaseName(state.id, claim.as)), claim));
    const idleMs = now - lastProgress(claimed, claim, options);
    const isStale = options.staleAfterMs !== null && idleMs >= options.staleAfterMs;
    if ((isAlive || isElsewhere) && !isStale) return [];
    const reason = isAlive || isElsewhere ? `no progress for ${exactAge(idleMs)}` : "its process is gone";
    const doing = claim.note === null ? "" : `; last note: ${claim.note}`;
    const why = `Agent unresponsive, task reset: ${reason} in ${task.id}${doing}`.slice(0, 1_000);
    const { token, note, session, by } = claim;
    return [{ task: task.id, session, agent: by.name, note, why, token, isAlive }];
  });
}

function lastProgress(claimed: readonly Claimed[], claim: TaskClaim, { living }: LostOptions): number {
  if (claim.session === null) return claim.progressAt;
  const own = claimed.filter((task) => task.claim.session === claim.session);
  return Math.max(...own.map((task) => task.claim.progressAt), living?.get(claim.session) ?? 0);
}

function holds(row: LeaseRow | undefined, claim: TaskClaim): boolean {
  if (!row?.holder || row.token !== claim.token) return false;
  return row.remainingMs > 0 && !seemsGone(row.holder);
}

/** A hint that is cheap to have: of this machine, and no process has its pid. The lease itself asks for proof. */
export function seemsGone(holder: Holder): boolean {
  if (holder.host !== hostname() || holder.started === null) return false;
  try {
    process.kill(holder.pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
