/**
 * Working on the tasks of a goal.
 *
 * A crash between taking a lease and the commit of the claim leaves a lease without a claim, which runs out; between
 * the commit that ends a claim and letting go of the lease, a lease on a task that nobody claims, which the next
 * claimant waits out or, if our process is provably dead, takes at once. Neither order loses work.
 */

import { isHoldfastError } from "../model/errors.ts";
import {
  type Actor,
  checkRole,
  type Evidence,
  findTask,
  type GoalOperation,
  type GoalState,
  type Task,
} from "../model/goal/index.ts";
import type { Act } from "./act.ts";
import { hashFile } from "./check-files.ts";
import { Claim, type ClaimedWork, type EvidenceInput } from "./claim.ts";
import * as claims from "./claim-acts.ts";
import { type Attributed, type GoalHandle, GoalView } from "./goal-view.ts";
import { leaseName } from "./lease-name.ts";
import { claimedTasks, type LostClaim, type LostOptions, type Suspect, suspects } from "./lost-claims.ts";
import { blockClaim } from "./note-acts.ts";
import { DEFAULT_DETACHED_MS, type TaskLease, TaskLeases } from "./task-leases.ts";

export interface ClaimOptions {
  readonly session?: string | null;
  /** How long to wait for a task that another holds. */
  readonly waitMs?: number;
  /** For callers whose process ends after the claim: the lease lasts this long after each write. */
  readonly detached?: boolean | { readonly forMs: number };
  readonly signal?: AbortSignal;
}

type ProvenAct = (state: GoalState, by: Actor, proof: claims.ClaimProof) => Act<Task>;

export class GoalTasks extends GoalView implements ClaimedWork {
  private readonly leases: TaskLeases;
  private readonly claimed = new Map<string, Claim>();

  constructor(handle: GoalHandle) {
    super(handle);
    this.leases = new TaskLeases(handle.journal, handle.id);
  }

  /**
   * Takes the task's lease, then records the claim under it. A task whose holder is gone is taken over, and other tasks
   * whose holders are gone are put back on the way, so that a small set-up needs no supervisor.
   */
  async claim(id: string, options: Attributed<ClaimOptions> = {}): Promise<Claim> {
    const by = this.identity(options.by);
    const { session = null, detached, waitMs, signal } = options;
    await this.refresh();
    checkRole(by, "claim", this.state.verification);
    const task = claims.checkClaimable(this.state, by, id).id;
    const ours = this.claimed.get(task);
    const isSame = ours?.by.name === by.name && ours.session === session;
    if (isSame && !ours.lost.aborted && this.isUnder(task, ours.token)) return ours;
    await this.resetLost({ name: by.name, role: "supervisor" }, { staleAfterMs: null, except: task });
    const detachedMs = typeof detached === "object" ? detached.forMs : detached ? DEFAULT_DETACHED_MS : null;
    const lease = await this.leases.take(task, by, {
      session,
      ...(waitMs !== undefined && { waitMs }),
      ...(detachedMs !== null && { detachedMs }),
      ...(signal && { signal }),
    });
    try {
      await this.act("claim", by, (state, who) =>
        claims.claim(state, who, { task, session, guard: lease.guard }),
      );
    } catch (error) {
      // A detached lease may be an earlier claim of the same agent, which stays good.
      if (!this.isUnder(task, lease.guard.token)) await lease.release();
      throw error;
    }
    const claim = new Claim(this, lease, this.task(task), by, session);
    this.claimed.set(task, claim);
    return claim;
  }

  private isUnder(task: string, token: number): boolean {
    return claims.isUnder(this.state, this.task(task).claim, token);
  }

  /** A sign of life that the log keeps: what was done, for whoever comes next. */
  noteProgress(input: Attributed<claims.ClaimProof & { note?: string | null }>): Promise<Task> {
    const note = input.note ?? null;
    return this.work("progress", input, (state, who, proof) => claims.progress(state, who, proof, note));
  }

  /**
   * Hands in what was claimed, with what shows that it is done. Finished at once where the goal asks for no
   * verifier.
   */
  async submit(input: Attributed<claims.ClaimProof & EvidenceInput>): Promise<Task> {
    const evidence = await this.evidence(input);
    return this.work("submit", input, (state, who, proof) => claims.submit(state, who, proof, evidence));
  }

  /** The attempt failed. Unless `retryable` is false it may be claimed again, as often as the goal allows. */
  fail(input: Attributed<claims.ClaimProof & { error: string; retryable?: boolean }>): Promise<Task> {
    const failure = { error: input.error, retryable: input.retryable ?? true };
    return this.work("fail", input, (state, who, proof) => claims.fail(state, who, proof, failure));
  }

  /** Puts a task back that is not done, for others to claim. */
  release(input: Attributed<claims.ClaimProof & { why?: string | null }>): Promise<Task> {
    const why = input.why ?? null;
    return this.work("release", input, (state, who, proof) => claims.release(state, who, proof, why));
  }

  /**
   * Accepts what was handed in, or sends it back with a reason. Not for one's own work, unless the goal says so.
   */
  verify(input: Attributed<claims.Verdict>): Promise<Task> {
    return this.doTask("verify", input, claims.verify);
  }

  /** Puts a task back whose holder is gone; with `force`, also one whose holder still renews its lease. */
  async reset(input: Attributed<{ task: string; why: string; force?: boolean }>): Promise<Task> {
    const by = this.identity(input.by);
    checkRole(by, "reset", this.state.verification);
    const { id } = (await this.refresh()).task(input.task);
    const lease = input.force
      ? await this.leases.seize(id, by)
      : await this.leases.take(id, by, { session: null });
    try {
      await this.act("reset", by, (state, who) => claims.reset(state, who, id, input.why, lease.guard));
    } finally {
      await lease.release();
    }
    return this.task(id);
  }

  /**
   * For the supervisor layer: puts back the tasks whose holder is gone, one commit each, and marks their sessions as
   * crashed. Returns what this call put back; what others were faster with is theirs to tell.
   */
  async resetLost(by: Actor, options: LostOptions): Promise<LostClaim[]> {
    const others = claimedTasks(this.state).filter(
      ({ id }) => !this.claimed.has(id) && id !== options.except,
    );
    if (others.length === 0) return [];
    const leases = await this.leases.list();
    const found = suspects(this.state, leases, this.journal.now(), options);
    const lost: LostClaim[] = [];
    for (const { token, isAlive, ...claim } of found) {
      if (this.claimed.get(claim.task)?.token === token && !isAlive) continue;
      if (isAlive) {
        // It may have got further since we looked, and taking its lease cannot be undone.
        await this.refresh();
        const now = suspects(this.state, leases, this.journal.now(), options);
        if (!now.some((each) => each.task === claim.task && each.token === token)) continue;
      }
      if (await this.resetSuspect(by, { token, isAlive, ...claim })) lost.push(claim);
    }
    return lost;
  }

  private async resetSuspect(by: Actor, { task, token, isAlive, why }: Suspect): Promise<boolean> {
    let lease: TaskLease;
    try {
      lease = isAlive
        ? await this.leases.seize(task, by, token)
        : await this.leases.take(task, by, { session: null });
    } catch (error) {
      // Somebody has it after all, or is at this very moment doing what we were about to do.
      if (isHoldfastError(error, "TASK_HELD")) return false;
      throw error;
    }
    try {
      return await this.act("reset", by, (state, who) => {
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

  /** From within a claim: the blocker is recorded and the task goes back. */
  async blockTask(input: Attributed<claims.ClaimProof & { description: string }>): Promise<string> {
    const proof = this.proof(input);
    const { task, blocker } = await this.act("block", input.by, (state, who) =>
      blockClaim(state, who, proof, input.description),
    );
    await this.letGoAll([task]);
    return blocker;
  }

  /** Puts back what this handle still holds. For an orderly end; after a crash the leases run out. */
  async close(): Promise<void> {
    for (const claim of [...this.claimed.values()]) {
      try {
        await claim.release("closed");
      } catch (error) {
        if (!isHoldfastError(error, "LEASE_LOST")) throw error;
        await this.letGo(claim.task);
      }
    }
  }

  /** Lets go of the leases of tasks that are no longer claimed. */
  protected async letGoAll(tasks: readonly Task[]): Promise<void> {
    for (const { id, claim } of tasks) {
      const name = claim?.as ?? id;
      if (this.claimed.has(name)) await this.letGo(name);
      else if (claim && !claims.isForeign(this.state, claim)) {
        await this.leases.release({ lease: leaseName(this.id, name), token: claim.token });
      }
    }
  }

  protected async doTask<Input extends { readonly by?: Actor }>(
    operation: GoalOperation,
    input: Input,
    decide: (state: GoalState, by: Actor, input: Omit<Input, "by">) => Act<string>,
  ): Promise<Task> {
    return this.task(await this.do(operation, input, decide));
  }

  /** SHA-256 of a file as it is on disk now. */
  protected hash(path: string): Promise<string> {
    return hashFile(this.rootFor(), path);
  }

  /** A write under a claim: proven by its token, or by being the one who claimed. */
  private async work(
    operation: GoalOperation,
    input: Attributed<claims.ClaimProof>,
    decide: ProvenAct,
  ): Promise<Task> {
    const proof = this.proof(input);
    const before = await this.act(operation, input.by, (state, who) => decide(state, who, proof));
    const after = this.task(before.id);
    if (after.claim === null) await this.letGoAll([before]);
    return after;
  }

  private proof({ task, token, session }: claims.ClaimProof): claims.ClaimProof {
    const ours = this.claimed.get(findTask(this.state, task)?.id ?? task);
    return { task, session, token: token ?? ours?.token };
  }

  private async letGo(task: string): Promise<void> {
    const claim = this.claimed.get(task);
    this.claimed.delete(task);
    await claim?.letGo();
  }

  private async evidence(input: EvidenceInput): Promise<Evidence> {
    const { summary = null, commands = [], files = [] } = input;
    const hashed = files.map(async (file) =>
      typeof file === "string" ? { path: file, hash: await this.hash(file) } : file,
    );
    return {
      summary,
      commands: commands.map((command) => ({ output: null, ...command })),
      files: await Promise.all(hashed),
    };
  }
}
