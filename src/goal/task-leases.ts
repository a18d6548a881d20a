/**
 * The leases of tasks: `goal/<goal>/<task>`. A run of a goal has one too: `goal/<goal>/<session>`.
 *
 * | kind     | renewed by          | ends when                                     | for                  |
 * |----------|---------------------|-----------------------------------------------|----------------------|
 * | attached | this process        | released, expired, or its process is dead     | an agent in here     |
 * | detached | the writes under it | released, or expired: it outlives the process | a command, a hook    |
 */

import { hostname } from "node:os";
import { allRows, type Journal, Lease } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Actor } from "../model/goal/index.ts";
import type { Guard, Holder, LeaseRow } from "../store.ts";

export const DEFAULT_DETACHED_MS = 30 * 60_000;

export function leaseName(goal: string, task: string): string {
  return `goal/${goal}/${task}`;
}

export interface TaskLease {
  readonly guard: Guard;
  /** Aborts when another owner has the lease. A detached lease notices that only at its next write. */
  readonly lost: AbortSignal;
  confirm(): Promise<boolean>;
  release(): Promise<void>;
}

export interface TakeOptions {
  readonly session: string | null;
  readonly waitMs?: number | undefined;
  /** Length of a detached lease. Without it the lease is attached to this process. */
  readonly detachedMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class TaskLeases {
  private readonly journal: Journal;
  private readonly goal: string;

  constructor(journal: Journal, goal: string) {
    this.journal = journal;
    this.goal = goal;
  }

  async take(task: string, by: Actor, options: TakeOptions): Promise<TaskLease> {
    const name = leaseName(this.goal, task);
    const { detachedMs, waitMs = 0, signal } = options;
    if (detachedMs !== undefined) {
      return this.takeDetached(name, `${by.name}#${options.session ?? ""}`, by, detachedMs);
    }
    const wait = { label: by.name, waitMs, ...(signal && { signal }) };
    // Each claim is an owner of its own: two agents may share a process, and even a handle.
    const lease = await this.journal.leases.take(name, this.journal.newId(), wait);
    if (!(lease instanceof Lease)) throw heldByOther(task, lease, by);
    const { guard, lost } = lease;
    const confirm = (): Promise<boolean> => this.journal.leases.confirm(lease);
    return { guard, lost, confirm, release: () => lease.release() };
  }

  /** Takes the lease from its holder, alive or not, and fences its token. `seen`: only from that token. */
  async seize(task: string, by: Actor, seen?: number): Promise<TaskLease> {
    const name = leaseName(this.goal, task);
    const evict = seen ?? (await this.journal.leases.find(name))?.token;
    return this.takeDetached(name, this.journal.newId(), by, this.journal.leases.ttlMs, evict);
  }

  list(): Promise<LeaseRow[]> {
    const prefix = leaseName(this.goal, "");
    return allRows((from) => this.journal.list<"leases">({ of: "leases", prefix, limit: 500, ...from }));
  }

  /** Releases a lease by its token, also one that another process took. */
  async release(guard: Guard): Promise<void> {
    await this.journal.store.lease({ act: "release", namespace: this.journal.namespace, lease: guard });
  }

  private async takeDetached(
    name: string,
    owner: string,
    by: Actor,
    ttlMs: number,
    evict?: number,
  ): Promise<TaskLease> {
    const { store, namespace } = this.journal;
    // Without start time and boot id no neighbour proves the process dead: the lease must outlive it.
    const unknown = { started: null, boot: null, pidNamespace: null };
    const holder = { owner, label: by.name, host: hostname(), pid: process.pid, ...unknown };
    const request = { act: "take", namespace, name, holder, ttlMs } as const;
    const outcome = await store.lease(evict === undefined ? request : { ...request, evict });
    const task = name.slice(name.lastIndexOf("/") + 1);
    if (outcome.outcome === "held") throw heldByOther(task, outcome.lease, by);
    if (outcome.outcome !== "granted") throw new Error(`lease take answered ${outcome.outcome}`);
    const guard = { lease: name, token: outcome.lease.token };
    return {
      guard,
      lost: new AbortController().signal,
      confirm: () => this.renew(guard, ttlMs),
      release: () => this.release(guard),
    };
  }

  private async renew(guard: Guard, ttlMs: number): Promise<boolean> {
    const { store, namespace } = this.journal;
    const outcome = await store.lease({ act: "renew", namespace, leases: [guard], ttlMs });
    return outcome.outcome === "renewed" && outcome.lost.length === 0;
  }
}

/** A detached holder is shown by name and session: the process that took the lease is long gone. */
function heldByOther(task: string, row: LeaseRow, by: Actor): HoldfastError {
  const { holder, remainingMs } = row;
  const isDetached = holder?.boot === null;
  const prefix = `${by.name}#`;
  const session = isDetached && holder.owner.startsWith(prefix) ? holder.owner.slice(prefix.length) : "";
  const own = session && "Pass that session if it is yours. ";
  const where = `${holder?.host}${isDetached ? "" : `, pid ${holder?.pid}`}`;
  const who = holder ? `${holder.label} (${where})${session && ` in session ${session}`}` : "another agent";
  const seconds = Math.max(1, Math.ceil(remainingMs / 1000));
  const later = isDetached
    ? "it is free when its holder releases it or writes nothing for that long."
    : "it is free when the lease expires or its process is gone.";
  return new HoldfastError("TASK_HELD", `task ${task} is held by ${who} for another ${seconds} s`, {
    hint: `${own}Claim another task, or try again later: ${later}`,
    data: { task, holder: holder?.label, remainingMs },
  });
}

/** A cheap check, no proof: the holder is of this machine, and no process has its pid. */
export function seemsGone(holder: Holder): boolean {
  if (holder.host !== hostname() || holder.started === null) return false;
  try {
    process.kill(holder.pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
