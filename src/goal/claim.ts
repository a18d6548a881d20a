import type { Actor, EndedClaim, Task } from "../model/goal/index.ts";
import type { TaskLease } from "./task-leases.ts";

/** What a claim asks of its goal. */
export interface ClaimedWork {
  noteProgress(input: { task: string; token: number; by: Actor; note?: string | null }): Promise<Task>;
  submit(input: { task: string; token: number; by: Actor } & EvidenceInput): Promise<Task>;
  fail(input: { task: string; token: number; by: Actor; error: string; retryable?: boolean }): Promise<Task>;
  release(input: { task: string; token: number; by: Actor; why?: string | null }): Promise<Task>;
  blockTask(input: { task: string; token: number; by: Actor; description: string }): Promise<string>;
}

export interface EvidenceInput {
  readonly summary?: string | null;
  readonly commands?: readonly {
    readonly command: string;
    readonly exitCode: number;
    readonly output?: string | null;
  }[];
  /** A bare path is hashed as it is on disk now, below the goal's root. `hash: null` says that it was removed. */
  readonly files?: readonly (string | { readonly path: string; readonly hash: string | null })[];
}

/**
 * One agent's hold on one task. Every write through it carries the token of its lease: after a take-over the store
 * refuses them all with `LEASE_LOST`, however late they come.
 */
export class Claim {
  readonly task: string;
  readonly by: Actor;
  readonly session: string | null;
  /** What the last one who had the task was doing, and how that ended. */
  readonly previous: EndedClaim | null;
  private readonly work: ClaimedWork;
  private readonly lease: TaskLease;

  constructor(work: ClaimedWork, lease: TaskLease, task: Task, by: Actor, session: string | null) {
    this.work = work;
    this.lease = lease;
    this.task = task.id;
    this.previous = task.previous;
    this.by = by;
    this.session = session;
  }

  get token(): number {
    return this.lease.guard.token;
  }

  /** Aborts when the task was taken over: stop before the next side effect. */
  get lost(): AbortSignal {
    return this.lease.lost;
  }

  /** Asks the store whether the task is still ours and prolongs the lease. Leaves no trace in the log. */
  heartbeat(): Promise<boolean> {
    return this.lease.confirm();
  }

  progress(note: string | null = null): Promise<Task> {
    return this.work.noteProgress({ ...this.proof, note });
  }

  submit(evidence: EvidenceInput = {}): Promise<Task> {
    return this.work.submit({ ...this.proof, ...evidence });
  }

  fail(error: string, options: { retryable?: boolean } = {}): Promise<Task> {
    return this.work.fail({ ...this.proof, error, ...options });
  }

  release(why: string | null = null): Promise<Task> {
    return this.work.release({ ...this.proof, why });
  }

  /** Records the blocker and puts the task back, in one commit. Returns the blocker's id. */
  block(description: string): Promise<string> {
    return this.work.blockTask({ ...this.proof, description });
  }

  /** Ends the lease; for the goal, after the write that ended the claim. */
  letGo(): Promise<void> {
    return this.lease.release();
  }

  private get proof(): { task: string; token: number; by: Actor } {
    return { task: this.task, token: this.token, by: this.by };
  }
}
