/**
 * The leases of tasks: `goal/<goal>/<task>`.
 *
 * An attached lease lives with this process: it is renewed while the process runs and can be taken over as soon as
 * the process is provably dead. A detached one outlives the process that took it, for callers that come and go (a
 * command line, a hook): nobody renews it but the writes under it, so it lasts longer and only time ends it.
 */

import { hostname } from "node:os";
import { allRows, type Journal, Lease } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Actor } from "../model/goal/index.ts";
import type { Guard, Holder, LeaseRow } from "../store.ts";
import { leaseName } from "./lease-name.ts";

export const DEFAULT_DETACHED_MS = 30 * 60_000;

/** A right to a task, however it was got. */
export interface TaskLease {
  readonly guard: Guard;
  /** Aborts when somebody else has it. A detached lease learns that only from its next write. */
  readonly lost: AbortSignal;
  /** Whether it is still ours; prolongs it if so. */
  confirm(): Promise<boolean>;
  release(): Promise<void>;
}

export interface TakeOptions {
  readonly session: string | null;
  readonly waitMs?: number;
  /** Length of a detached lease. Without it the lease is attached to this process. */
  readonly detachedMs?: number;
  readonly signal?: AbortSignal;
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
    const wait = signal ? { label: by.name, waitMs, signal } : { label: by.name, waitMs };
    // Each claim is an owner of its own: two agents may share a process, and even a handle.
    const lease = await this.journal.leases.take(name, this.journal.newId(), wait);
    if (!(lease instanceof Lease)) throw heldByOther(task, lease, by);
    const { guard, lost } = lease;
    return {
      guard,
      lost,
      confirm: () => this.journal.leases.confirm(lease),
      release: () => lease.release(),
    };
  }

  /**
   * Takes it from whoever has it, alive or not; the token of that holder is worth nothing from then on. With `seen`:
   * only from the holder of that token.
   */
  async seize(task: string, by: Actor, seen?: number): Promise<TaskLease> {
    const name = leaseName(this.goal, task);
    const evict = seen ?? (await this.journal.leases.find(name))?.token;
    return this.takeDetached(name, this.journal.newId(), by, this.journal.leases.ttlMs, evict);
  }

  /** All leases of the goal: its tasks and its runs. */
  list(): Promise<LeaseRow[]> {
    const prefix = leaseName(this.goal, "");
    return allRows((from) => this.journal.list<"leases">({ of: "leases", prefix, limit: 500, ...from }));
  }

  /** Lets go of a lease that another process, or an earlier life of this one, took. */
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
    const holder = detachedHolder(owner, by.name);
    const request = { act: "take", namespace, name, holder, ttlMs } as const;
    const outcome = await store.lease(evict === undefined ? request : { ...request, evict });
    if (outcome.outcome === "held")
      throw heldByOther(name.slice(name.lastIndexOf("/") + 1), outcome.lease, by);
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

/** Without the facts by which a neighbour could prove its process dead: it is meant to outlive it. */
function detachedHolder(owner: string, label: string): Holder {
  const unknown = { started: null, boot: null, pidNamespace: null };
  return { owner, label, host: hostname(), pid: process.pid, ...unknown };
}

/** A detached holder is the name and session that claimed; the process that spoke for it is long gone. */
function heldByOther(task: string, row: LeaseRow, by: Actor): HoldfastError {
  const { holder, remainingMs } = row;
  const isDetached = holder?.boot === null;
  const own = `${by.name}#`;
  const session = isDetached && holder.owner.startsWith(own) ? holder.owner.slice(own.length) : "";
  const where = `${holder?.host}${isDetached ? "" : `, pid ${holder?.pid}`}`;
  const who = holder ? `${holder.label} (${where})${session && ` in session ${session}`}` : "somebody else";
  const seconds = Math.max(1, Math.ceil(remainingMs / 1000));
  const later = isDetached
    ? "it can be taken over when its holder puts it back or writes nothing more."
    : "it can be taken over when the lease runs out or its process is gone.";
  return new HoldfastError("TASK_HELD", `task ${task} is held by ${who} for another ${seconds} s`, {
    hint: `${session && "Say that session if it is yours. "}Take another task, or try again later: ${later}`,
    data: { task, holder: holder?.label, remainingMs },
  });
}
