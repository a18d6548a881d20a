/**
 * Drives an agent over the tasks of a goal until nothing is left that it can do.
 *
 *     claim ──▶ execute ──▶ submit ──▶ verify ──▶ next
 *                  └──throw──▶ fail ──back-off──▶ claim again, while it is retryable
 *
 * Every arrow is one durable commit, so the run can be killed anywhere and started again:
 *  - before the claim: nothing happened. After it: the next run takes the task over, because its lease runs out or
 *    its process is provably dead, and the agent is told what the last attempt noted;
 *  - between execute and submit: the task is executed again (effects inside it belong into a session's ledger), but
 *    it is handed in once: a late submit of the old process is fenced;
 *  - between submit and verify: the next run verifies what it finds submitted.
 * A task that is done is never claimed again. Completed tasks, changed phases, findings and errors are the goal's
 * checkpoints; `onCheckpoint` hears of each once it is durable.
 */

import { isHoldfastError } from "../model/errors.ts";
import { type Actor, checkpointOf, type GoalCheckpoint, type Task } from "../model/goal/index.ts";
import { type FinalReport, finalReport, type RunStatus } from "./final-report.ts";
import { type Goal, goalCore } from "./goal.ts";
import { nextTasks } from "./next-tasks.ts";
import { nextChange } from "./run-pauses.ts";
import { RunSession } from "./run-session.ts";
import {
  errorText,
  isRetryable,
  type RetryPolicy,
  retryAt,
  type TaskAgent,
  type TaskContext,
} from "./task-agent.ts";
import type { Claim, EvidenceInput } from "./task-claims.ts";

/** How a run behaves; everything has a default that a first run can keep. */
export interface RunOptions {
  readonly by?: Actor;
  /** Name of this run in the history of the goal. */
  readonly session?: string;
  readonly retry?: RetryPolicy;
  readonly briefingTokens?: number;
  /** How long to wait for others when only they can go on; by default two leases. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
  readonly onCheckpoint?: (checkpoint: GoalCheckpoint) => void;
}

/**
 * Works through a goal's tasks with one agent until nothing is left that it can do. Killed, run it again: what is
 * done is not done twice, and the agent hears what the last attempt was at.
 */
export async function runWithCheckpoints(
  agent: TaskAgent,
  goal: Goal,
  options: RunOptions = {},
): Promise<FinalReport> {
  const by = options.by ?? { name: agent.name ?? "agent", role: "worker" };
  const session = await RunSession.start(goal, by, options.session);
  const run = new Run(agent, goal, by, session, options);
  try {
    const end = await run.untilNothingIsLeft();
    await session.end(`${end.status}: ${end.why}`);
    await goal.refresh();
    const { attempts, startedAt } = run;
    const endedAt = goalCore(goal).journal.now();
    return finalReport(goal.state, { ...end, session: session.id, startedAt, endedAt, attempts });
  } finally {
    await session.close();
  }
}

interface End {
  readonly status: RunStatus;
  readonly why: string;
}

class Run {
  readonly startedAt: number;
  attempts = 0;
  private readonly agent: TaskAgent;
  private readonly goal: Goal;
  private readonly by: Actor;
  private readonly session: RunSession;
  private readonly options: RunOptions;
  private readonly retry: RetryPolicy;
  private readonly unverifiable = new Set<string>();
  private seen: number;
  private idleMs = 0;

  constructor(agent: TaskAgent, goal: Goal, by: Actor, session: RunSession, options: RunOptions) {
    this.agent = agent;
    this.goal = goal;
    this.by = by;
    this.session = session;
    this.options = options;
    this.retry = options.retry ?? {};
    this.startedAt = goalCore(goal).journal.now();
    this.seen = goal.seq;
  }

  async untilNothingIsLeft(): Promise<End> {
    for (;;) {
      if (this.options.signal?.aborted) return { status: "stopped", why: "the caller asked to stop" };
      await this.goal.refresh();
      await this.tellCheckpoints();
      const did = (await this.verifyOne()) || (await this.workOnOne());
      await this.tellCheckpoints();
      if (did) {
        this.idleMs = 0;
        continue;
      }
      const end = this.ended();
      if (end) return end;
      if (!(await this.pause())) return { status: "waiting", why: nextTasks(this.goal.state).why };
    }
  }

  /** Nothing to claim: is it over, or only not our turn? */
  private ended(): End | null {
    const { outlook, why } = nextTasks(this.goal.state);
    if (outlook === "done" || outlook === "blocked" || outlook === "unplanned")
      return { status: outlook, why };
    if (outlook === "stuck") return { status: "failed", why };
    if (outlook === "ready") return this.isGivenUp() ? { status: "failed", why: "rejected too often" } : null;
    const isOthers = [...this.goal.state.tasks.values()].some(({ status }) => status === "in_progress");
    return isOthers ? null : { status: "waiting", why };
  }

  /** Whether all that is ready has been rejected as often as the goal lets tasks fail. */
  private isGivenUp(): boolean {
    return this.goal.survey().ready.every((task) => this.isRejectedTooOften(task));
  }

  private isRejectedTooOften(task: Task): boolean {
    return task.rejections >= this.goal.state.maxAttempts;
  }

  /** Until a back-off ends or another writer did something. False when waiting any longer is pointless. */
  private async pause(): Promise<boolean> {
    const now = goalCore(this.goal).journal.now();
    const retries = this.goal
      .survey()
      .ready.map((task) => retryAt(task, this.retry))
      .filter((at) => at > now);
    const limit = this.options.waitMs ?? 2 * goalCore(this.goal).journal.leases.ttlMs;
    const untilRetry = retries.length > 0 ? Math.min(...retries) - now : null;
    if (untilRetry === null && this.idleMs >= limit) return false;
    const waited = await nextChange(this.goal, untilRetry, this.options.signal);
    if (untilRetry === null) this.idleMs += waited;
    return true;
  }

  private async workOnOne(): Promise<boolean> {
    const now = goalCore(this.goal).journal.now();
    const ready = nextTasks(this.goal.state).tasks.filter((task) => !this.isRejectedTooOften(task));
    const due = ready.filter((task) => retryAt(task, this.retry) <= now);
    // What is in progress may have been left by a process that is gone: its lease tells.
    const left = [...this.goal.state.tasks.values()].filter(({ status }) => status === "in_progress");
    const isOurs = ({ kind }: Task): boolean => this.by.role !== "verifier" || kind === "review";
    for (const task of [...left, ...due].filter(isOurs)) {
      const claim = await this.tryClaim(task);
      if (claim) {
        await this.workOn(claim);
        return true;
      }
    }
    return false;
  }

  private async tryClaim(task: Task): Promise<Claim | null> {
    try {
      return await this.goal.claim(task.id, { by: this.by, session: this.session.id });
    } catch (error) {
      const isRace = ["TASK_HELD", "TASK_NOT_READY", "TASK_TRANSITION", "LEASE_LOST"].some((code) =>
        isHoldfastError(error, code as "TASK_HELD"),
      );
      if (isRace) return null;
      throw error;
    }
  }

  private async workOn(claim: Claim): Promise<void> {
    this.attempts += 1;
    try {
      const evidence = await this.execute(claim);
      await claim.submit(evidence);
    } catch (error) {
      await this.afterThrow(claim, error);
    }
  }

  private async execute(claim: Claim): Promise<EvidenceInput> {
    const task = this.goal.task(claim.task);
    const { signal, briefingTokens: tokens } = this.options;
    const context: TaskContext = {
      goal: this.goal,
      briefing: this.goal.briefing({
        task: task.id,
        session: this.session.id,
        ...(tokens !== undefined && { tokens }),
      }),
      attempt: task.attempts,
      previous: claim.previous,
      signal: signal ? AbortSignal.any([signal, claim.lost]) : claim.lost,
      progress: async (note) => {
        await claim.progress(note);
      },
      finding: (key, value, source = `found in ${task.id}`) =>
        this.goal.fact({ key, value, source, by: this.by }),
    };
    return (await this.agent.executeTask(task, context)) ?? {};
  }

  /** A store that fails ends the run, to be started again; a lost task is another's; the rest is the task's failure. */
  private async afterThrow(claim: Claim, error: unknown): Promise<void> {
    if (isHoldfastError(error) && /^(STORE|STREAM)_/.test(error.code)) throw error;
    try {
      if (this.options.signal?.aborted) await claim.release("the run was stopped");
      else await claim.fail(errorText(error), { retryable: isRetryable(error, this.retry) });
    } catch (second) {
      if (!isHoldfastError(second, "LEASE_LOST")) throw second;
    }
  }

  private async verifyOne(): Promise<boolean> {
    if (!this.agent.verifyTask) return false;
    const waiting = [...this.goal.state.tasks.values()].find(
      ({ id, status }) => status === "submitted" && !this.unverifiable.has(id),
    );
    if (!waiting?.submission) return false;
    const by: Actor = { name: `${this.by.name}-verifier`, role: "verifier" };
    try {
      const verdict = await this.agent.verifyTask(waiting, waiting.submission.evidence);
      const { accept, why = null } = typeof verdict === "boolean" ? { accept: verdict } : verdict;
      await this.goal.verify({ task: waiting.id, accept, why, attempt: waiting.attempts, by });
    } catch (error) {
      if (isHoldfastError(error, "TASK_TRANSITION")) return true;
      if (isHoldfastError(error) && /^(STORE|STREAM)_/.test(error.code)) throw error;
      this.unverifiable.add(waiting.id);
      await this.goal.recordError({
        message: `verify ${waiting.id}: ${errorText(error)}`,
        task: waiting.id,
        by,
      });
    }
    return true;
  }

  /** Those of other writers too: whoever listens hears of every one, in order. */
  private async tellCheckpoints(): Promise<void> {
    const { onCheckpoint } = this.options;
    if (!onCheckpoint || this.goal.seq === this.seen) return;
    for await (const [seq, event] of this.goal.events(this.seen)) {
      const checkpoint = checkpointOf(event, seq);
      if (checkpoint) onCheckpoint(checkpoint);
      this.seen = seq;
    }
  }
}
