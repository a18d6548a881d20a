/**
 * Claims: how agents hold the tasks of a goal, and how a task comes back from a holder that is gone.
 *
 *     take the lease ──▶ commit the claim ──▶ writes with its token ──▶ commit its end ──▶ release the lease
 *
 * | a crash                                      | leaves                       | what happens next         |
 * |----------------------------------------------|------------------------------|---------------------------|
 * | between taking the lease and the claim       | a lease without a claim      | the lease expires         |
 * | between the end of the claim and the release | a lease on an unclaimed task | it expires, or is taken   |
 * |                                              |                              | at once from a dead owner |
 *
 * Lost claims:
 *
 *     its lease is released or expired, or its process is gone ──▶ dead
 *     its holder lives, but made no progress for `staleAfterMs` ──▶ stale; only if the caller asks for that
 *
 * `suspects` only suspects. The task's lease decides whether a holder is dead, because a living holder keeps
 * it. The claim's token, checked inside the commit, decides whether the claim is still the one that was seen.
 * So any number of processes may look at the same time, and each death is recorded once.
 */

import { isHoldfastError } from "../model/errors.ts";
import type {
  Actor,
  EndedClaim,
  Evidence,
  GoalOperation,
  GoalState,
  Task,
  TaskClaim,
} from "../model/goal/index.ts";
import { checkRole, findTask } from "../model/goal/index.ts";
import { exactAge } from "../model/time.ts";
import type { LeaseRow } from "../store.ts";
import type { Act } from "./act.ts";
import * as claims from "./claim-acts.ts";
import type { Attributed, GoalCore } from "./goal-core.ts";
import { blockClaim } from "./note-acts.ts";
import { DEFAULT_DETACHED_MS, leaseName, seemsGone, type TaskLease, TaskLeases } from "./task-leases.ts";

export interface ClaimOptions {
  /** The session that works on the task. When it ends or crashes, the task goes back. */
  readonly session?: string | null;
  /** How long to wait for a task that another agent holds; by default not at all. */
  readonly waitMs?: number;
  /** The lease outlives this process and lasts `forMs` after each write, by default 30 minutes. */
  readonly detached?: boolean | { readonly forMs: number };
  readonly signal?: AbortSignal;
}

/** The proof that a task is done. Example: `{ summary: "tests pass", files: ["src/cart.ts"] }`. */
export interface EvidenceInput {
  readonly summary?: string | null;
  /** Commands that were run, e.g. `{ command: "npm test", exitCode: 0 }`. */
  readonly commands?: readonly { command: string; exitCode: number; output?: string | null }[];
  /** A bare path is hashed as it is on disk now, below the root. `hash: null` records a removed file. */
  readonly files?: readonly (string | { readonly path: string; readonly hash: string | null })[];
}

/**
 * One agent's hold on one task, from `goal.claim()`. Every write through it carries the token of its lease:
 * after a take-over the store rejects them all with `LEASE_LOST`, however late they come.
 *
 * @example
 * const claim = await goal.claim("T-001", { by: { name: "claude", role: "worker" } });
 * await claim.progress("parser written, tests next");
 * await claim.submit({ summary: "done", files: ["src/parser.ts"] });
 */
export class Claim {
  /** Id of the claimed task: `T-001`. */
  readonly task: string;
  /** The agent that holds the task. */
  readonly by: Actor;
  /** The session in the goal's history that works on the task; null for a claim without one. */
  readonly session: string | null;
  /** The claim before this one: its agent, its last note and how it ended. */
  readonly previous: EndedClaim | null;
  private readonly claims: TaskClaims;
  private readonly lease: TaskLease;

  constructor(owner: TaskClaims, lease: TaskLease, task: Task, by: Actor, session: string | null) {
    this.claims = owner;
    this.lease = lease;
    this.task = task.id;
    this.previous = task.previous;
    this.by = by;
    this.session = session;
  }

  /** The fencing token of the lease. Pass it to a target that can refuse older tokens. */
  get token(): number {
    return this.lease.guard.token;
  }

  /** Aborts when another agent has taken the task over: stop before the next side effect. */
  get lost(): AbortSignal {
    return this.lease.lost;
  }

  /** Renews the lease; false when the task is no longer ours. Writes no event. */
  heartbeat(): Promise<boolean> {
    return this.lease.confirm();
  }

  /** Records how far the work is. The next agent reads the note if this one dies. */
  progress(note: string | null = null): Promise<Task> {
    return this.claims.noteProgress({ ...this.proof, note });
  }

  /** Submits the work for verification. Ends the claim. */
  submit(evidence: EvidenceInput = {}): Promise<Task> {
    return this.claims.submit({ ...this.proof, ...evidence });
  }

  /** The attempt failed. Unless `retryable` is false, the task may be claimed again. Ends the claim. */
  fail(error: string, options: { retryable?: boolean } = {}): Promise<Task> {
    return this.claims.fail({ ...this.proof, error, ...options });
  }

  /** Puts the task back unfinished. Ends the claim. */
  release(why: string | null = null): Promise<Task> {
    return this.claims.release({ ...this.proof, why });
  }

  /** Records a blocker and puts the task back, in one commit. Returns the blocker's id. */
  block(description: string): Promise<string> {
    return this.claims.blockTask({ ...this.proof, description });
  }

  private get proof(): { task: string; token: number; by: Actor } {
    return { task: this.task, token: this.token, by: this.by };
  }
}

export class TaskClaims {
  private readonly core: GoalCore;
  private readonly leases: TaskLeases;
  private readonly held = new Map<string, { readonly claim: Claim; readonly lease: TaskLease }>();

  constructor(core: GoalCore) {
    this.core = core;
    this.leases = new TaskLeases(core.journal, core.id);
  }

  /** Puts back other tasks whose holders are gone on the way, so that a small setup needs no supervisor. */
  async claim(id: string, options: Attributed<ClaimOptions>): Promise<Claim> {
    const { core } = this;
    const by = core.identity(options.by, "claim");
    const { session = null, detached, waitMs, signal } = options;
    await core.log.refresh();
    checkRole(by, "claim", core.state.verification);
    const task = claims.checkClaimable(core.state, by, id).id;
    const ours = this.held.get(task)?.claim;
    const isSame = ours?.by.name === by.name && ours.session === session;
    if (isSame && !ours.lost.aborted && this.isUnder(task, ours.token)) return ours;
    await this.resetLost({ name: by.name, role: "supervisor" }, { staleAfterMs: null, except: task });
    const detachedMs =
      typeof detached === "object" ? detached.forMs : detached ? DEFAULT_DETACHED_MS : undefined;
    const lease = await this.leases.take(task, by, { session, waitMs, detachedMs, signal });
    const { guard } = lease;
    try {
      await core.act("claim", by, (state, who) => claims.claim(state, who, { task, session, guard }));
    } catch (error) {
      // A detached lease may be an earlier claim of the same agent, which stays valid.
      if (!this.isUnder(task, lease.guard.token)) await lease.release();
      throw error;
    }
    const claim = new Claim(this, lease, core.task(task), by, session);
    this.held.set(task, { claim, lease });
    return claim;
  }

  noteProgress(input: Attributed<claims.ClaimProof & { note?: string | null }>): Promise<Task> {
    const note = input.note ?? null;
    return this.work("progress", input, (state, who, proof) => claims.progress(state, who, proof, note));
  }

  async submit(input: Attributed<claims.ClaimProof & EvidenceInput>): Promise<Task> {
    const evidence = await this.evidence(input);
    return this.work("submit", input, (state, who, proof) => claims.submit(state, who, proof, evidence));
  }

  fail(input: Attributed<claims.ClaimProof & { error: string; retryable?: boolean }>): Promise<Task> {
    const failure = { error: input.error, retryable: input.retryable ?? true };
    return this.work("fail", input, (state, who, proof) => claims.fail(state, who, proof, failure));
  }

  release(input: Attributed<claims.ClaimProof & { why?: string | null }>): Promise<Task> {
    const why = input.why ?? null;
    return this.work("release", input, (state, who, proof) => claims.release(state, who, proof, why));
  }

  async blockTask(input: Attributed<claims.ClaimProof & { description: string }>): Promise<string> {
    const proof = this.proof(input);
    const { task, blocker } = await this.core.act("block", input.by, (state, who) =>
      blockClaim(state, who, proof, input.description),
    );
    await this.releaseLeases([task]);
    return blocker;
  }

  async reset(input: Attributed<{ task: string; why: string; force?: boolean }>): Promise<Task> {
    const { core } = this;
    const by = core.identity(input.by);
    checkRole(by, "reset", core.state.verification);
    await core.log.refresh();
    const { id } = core.task(input.task);
    const { leases } = this;
    const lease = await (input.force ? leases.seize(id, by) : leases.take(id, by, { session: null }));
    try {
      await core.act("reset", by, (state, who) => claims.reset(state, who, id, input.why, lease.guard));
    } finally {
      await lease.release();
    }
    return core.task(id);
  }

  /** Puts back the tasks whose holder is gone. Returns only those of this call: each death counts once. */
  async resetLost(by: Actor, options: LostOptions): Promise<LostClaim[]> {
    const { core } = this;
    const others = claimedTasks(core.state).filter(({ id }) => !this.held.has(id) && id !== options.except);
    if (others.length === 0) return [];
    const leases = await this.leases.list();
    const found = suspects(core.state, leases, core.journal.now(), options);
    const lost: LostClaim[] = [];
    for (const { token, isAlive, ...claim } of found) {
      if (this.held.get(claim.task)?.claim.token === token && !isAlive) continue;
      if (isAlive) {
        // It may have made progress since we looked, and taking its lease cannot be undone.
        await core.log.refresh();
        const now = suspects(core.state, leases, core.journal.now(), options);
        if (!now.some((each) => each.task === claim.task && each.token === token)) continue;
      }
      if (await this.resetSuspect(by, { token, isAlive, ...claim })) lost.push(claim);
    }
    return lost;
  }

  private async resetSuspect(by: Actor, { task, token, isAlive, why }: Suspect): Promise<boolean> {
    let lease: TaskLease;
    try {
      const { leases } = this;
      lease = await (isAlive ? leases.seize(task, by, token) : leases.take(task, by, { session: null }));
    } catch (error) {
      // The holder lives after all, or another process is resetting the task right now.
      if (isHoldfastError(error, "TASK_HELD")) return false;
      throw error;
    }
    try {
      return await this.core.act("reset", by, (state, who) => {
        const act = claims.reset(state, who, task, why, lease.guard, token);
        return { ...act, result: act.events.length > 0 };
      });
    } catch (error) {
      if (isHoldfastError(error, "LEASE_LOST")) return false;
      throw error;
    } finally {
      await lease.release();
    }
  }

  async close(): Promise<void> {
    for (const { claim } of [...this.held.values()]) {
      try {
        await claim.release("closed");
      } catch (error) {
        if (!isHoldfastError(error, "LEASE_LOST")) throw error;
        await this.releaseHeld(claim.task);
      }
    }
  }

  async releaseLeases(tasks: readonly Task[]): Promise<void> {
    const { core } = this;
    for (const { id, claim } of tasks) {
      const name = claim?.as ?? id;
      if (this.held.has(name)) await this.releaseHeld(name);
      else if (claim && !claims.isForeign(core.state, claim)) {
        await this.leases.release({ lease: leaseName(core.id, name), token: claim.token });
      }
    }
  }

  private async releaseHeld(task: string): Promise<void> {
    const held = this.held.get(task);
    this.held.delete(task);
    await held?.lease.release();
  }

  private isUnder(task: string, token: number): boolean {
    return claims.isUnder(this.core.state, this.core.task(task).claim, token);
  }

  private async work(
    operation: GoalOperation,
    input: Attributed<claims.ClaimProof>,
    decide: (state: GoalState, by: Actor, proof: claims.ClaimProof) => Act<Task>,
  ): Promise<Task> {
    const proof = this.proof(input);
    const before = await this.core.act(operation, input.by, (state, who) => decide(state, who, proof));
    const after = this.core.task(before.id);
    if (after.claim === null) await this.releaseLeases([before]);
    return after;
  }

  private proof({ task, token, session }: claims.ClaimProof): claims.ClaimProof {
    const ours = this.held.get(findTask(this.core.state, task)?.id ?? task);
    return { task, session, token: token ?? ours?.claim.token };
  }

  private async evidence(input: EvidenceInput): Promise<Evidence> {
    const { summary = null, commands = [], files = [] } = input;
    const hashed = files.map(async (file) =>
      typeof file === "string" ? { path: file, hash: await this.core.hash(file) } : file,
    );
    const run = commands.map((command) => ({ output: null, ...command }));
    return { summary, commands: run, files: await Promise.all(hashed) };
  }
}

export interface LostOptions {
  /** Also living holders that have made no progress for so long. Null: only dead ones. */
  readonly staleAfterMs: number | null;
  /** A task that the caller is about to claim: its take-over records the same. */
  readonly except?: string;
  /** Leaves tasks in progress that an import found in progress: no process ever held them. */
  readonly keepsImported?: boolean;
  /** Sessions whose own lease a living process keeps, and when each last wrote. */
  readonly living?: ReadonlyMap<string, number>;
}

export interface LostClaim {
  readonly task: string;
  readonly session: string | null;
  readonly agent: string;
  readonly note: string | null;
  readonly why: string;
}

interface Suspect extends LostClaim {
  readonly token: number;
  readonly isAlive: boolean;
}

type ClaimedTask = Task & { readonly claim: TaskClaim };

function claimedTasks(state: GoalState): ClaimedTask[] {
  return [...state.tasks.values()].filter((task): task is ClaimedTask => task.claim !== null);
}

type Leases = readonly LeaseRow[];

function suspects(state: GoalState, leases: Leases, now: number, options: LostOptions): Suspect[] {
  const rows = new Map(leases.map((row) => [row.name, row]));
  const claimed = claimedTasks(state);
  return claimed.flatMap((task) => {
    if (task.id === options.except) return [];
    const { claim } = task;
    if (options.keepsImported && claim.token === 0) return [];
    // The lease of a foreign claim is in another copy's store: whether its holder is gone is unknown here.
    const isForeign = claims.isForeign(state, claim);
    const hasLivingSession = claim.session !== null && options.living?.has(claim.session) === true;
    const isAlive =
      hasLivingSession || (!isForeign && isHeld(rows.get(leaseName(state.id, claim.as)), claim));
    const idleMs = now - lastProgress(claimed, claim, options);
    const isStale = options.staleAfterMs !== null && idleMs >= options.staleAfterMs;
    if ((isAlive || isForeign) && !isStale) return [];
    const reason = isAlive || isForeign ? `no progress for ${exactAge(idleMs)}` : "its process is gone";
    const note = claim.note === null ? "" : `; last note: ${claim.note}`;
    const why = `Agent unresponsive, task reset: ${reason} in ${task.id}${note}`.slice(0, 1_000);
    const { token, session, by } = claim;
    return [{ task: task.id, session, agent: by.name, note: claim.note, why, token, isAlive }];
  });
}

/** A session may be busy elsewhere: its own log, or another task that it holds, counts as progress too. */
function lastProgress(claimed: readonly ClaimedTask[], claim: TaskClaim, { living }: LostOptions): number {
  if (claim.session === null) return claim.progressAt;
  const own = claimed.filter((task) => task.claim.session === claim.session);
  return Math.max(...own.map((task) => task.claim.progressAt), living?.get(claim.session) ?? 0);
}

function isHeld(row: LeaseRow | undefined, claim: TaskClaim): boolean {
  if (!row?.holder || row.token !== claim.token) return false;
  return row.remainingMs > 0 && !seemsGone(row.holder);
}
