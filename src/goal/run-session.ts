/**
 * A run in the history of its goal.
 *
 * A run holds a lease of its own for as long as it lives. The next run finds entries that are still active although
 * their lease is free: those runs died between two tasks, and are marked as crashed.
 */

import { Lease } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Actor } from "../model/goal/index.ts";
import { quoteValue } from "../model/names.ts";
import { type Goal, goalCore } from "./goal.ts";
import { leaseName } from "./task-leases.ts";

const PREFIX = "run-";

export class RunSession {
  readonly id: string;
  private readonly goal: Goal;
  private readonly by: Actor;
  private readonly lease: Lease;

  private constructor(goal: Goal, by: Actor, id: string, lease: Lease) {
    this.goal = goal;
    this.by = by;
    this.id = id;
    this.lease = lease;
  }

  static async start(goal: Goal, by: Actor, given: string | undefined): Promise<RunSession> {
    const id = given ?? `${PREFIX}${goalCore(goal).journal.newId()}`;
    const lease = await takeLease(goal, by, id);
    if (!lease) throw inUse(goal, id);
    try {
      await goal.refresh();
      const crashed = await markCrashed(goal, by, id);
      // Whoever marked the last one as crashed, a supervisor for example, it is still the one to take up.
      await goal.startSession({ session: id, by, ...(crashed !== null && { resumes: crashed }) });
    } catch (error) {
      await lease.release();
      throw error;
    }
    return new RunSession(goal, by, id, lease);
  }

  async end(notes: string): Promise<void> {
    await this.goal.refresh();
    if (this.goal.state.history.get(this.id)?.status !== "active") return;
    try {
      await this.goal.endSession({ session: this.id, notes, by: this.by });
    } catch (error) {
      // Somebody has just marked it as crashed: what the run came to is told all the same.
      if (!isHoldfastError(error, "SESSION_ENDED")) throw error;
    }
  }

  async close(): Promise<void> {
    await this.lease.release();
  }
}

function inUse(goal: Goal, id: string): HoldfastError {
  return new HoldfastError(
    "SESSION_HELD",
    `another run of goal ${goal.id} goes by the name ${quoteValue(id)}`,
    {
      hint: "Wait until it ends, or give this run a name of its own.",
      data: { goal: goal.id, session: id },
    },
  );
}

async function takeLease(goal: Goal, by: Actor, id: string): Promise<Lease | null> {
  const name = leaseName(goal.id, id);
  const { journal } = goalCore(goal);
  const lease = await journal.leases.take(name, journal.newId(), { label: by.name, waitMs: 0 });
  return lease instanceof Lease ? lease : null;
}

/** Returns the latest of the runs that turned out to be dead. One that ended meanwhile is none of them. */
async function markCrashed(goal: Goal, by: Actor, own: string): Promise<string | null> {
  const supervisor: Actor = { name: by.name, role: "supervisor" };
  let latest: string | null = null;
  for (const { id, status } of [...goal.state.history.values()]) {
    if (id === own || status !== "active" || !id.startsWith(PREFIX)) continue;
    const lease = await takeLease(goal, by, id);
    if (!lease) continue;
    const notes = "its run ended without a word";
    try {
      if (await goal.crashSession({ session: id, notes, by: supervisor })) latest = id;
    } finally {
      await lease.release();
    }
  }
  return latest;
}
