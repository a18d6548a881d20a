/**
 * Drives an agent over the tasks of a goal until nothing is left that it can do.
 *
 *     claim ──▶ execute ──▶ submit ──▶ verify ──▶ next
 *                  └──throw──▶ fail ──backoff──▶ claim again, while it is retryable
 *
 * Every arrow is one durable commit, so the run can be killed anywhere and started again:
 *
 * | killed                     | what the next run does                                                    |
 * |----------------------------|---------------------------------------------------------------------------|
 * | before the claim           | starts over: nothing has happened                                         |
 * | after the claim            | takes the task over once its lease expires or its process is dead;        |
 * |                            | the agent gets the last note of the dead attempt                          |
 * | between execute and submit | executes the task again (put its effects into a session's ledger);        |
 * |                            | a late submit of the old process is fenced                                |
 * | between submit and verify  | verifies the submitted task                                               |
 *
 * A task that is done is never claimed again. Completed tasks, changed phases, findings and errors are the
 * goal's checkpoints; `onCheckpoint` gets each one when it is durable.
 *
 * A run holds a lease of its own while it lives. The next run looks for sessions that are still active
 * although their lease is free: those runs died between two tasks, and are marked as crashed.
 */

import { Lease } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type {
  Actor,
  EndedClaim,
  Evidence,
  GoalCheckpoint,
  GoalState,
  Progress,
  RunState,
  Task,
} from "../model/goal/index.ts";
import { checkpointOf, nextTasks, progressOf, runStateOf, surveyGoal } from "../model/goal/index.ts";
import type { Json } from "../model/json.ts";
import { quoteValue } from "../model/names.ts";
import { exactAge } from "../model/time.ts";
import { quoted, tasksIn } from "./briefing.ts";
import { type Goal, goalCore } from "./goal.ts";
import type { Claim, EvidenceInput } from "./task-claims.ts";
import { leaseName } from "./task-leases.ts";

/** The worker behind a run: a model with tools, a script, a person behind a form. */
export interface TaskAgent {
  readonly name?: string;
  /**
   * Does the task and returns the proof. A throw is a failure, retried unless the error says `retryable:
   * false`. After a kill the task runs again.
   */
  executeTask(task: Task, context: TaskContext): Promise<EvidenceInput | undefined> | Promise<void>;
  /** Judges submitted work. Without it, submitted tasks wait for another verifier. */
  verifyTask?(task: Task, evidence: Evidence): Promise<boolean | { accept: boolean; why?: string }>;
}

/** The second argument of `executeTask`: what is known about the task, and how to report progress. */
export interface TaskContext {
  readonly goal: Goal;
  readonly briefing: string;
  readonly attempt: number;
  /** The claim before this one, with its last note; null for the first attempt. */
  readonly previous: EndedClaim | null;
  /** Aborts when another agent has taken the task over, or the run is to stop. */
  readonly signal: AbortSignal;
  /** Records how far the work is: `await context.progress("3 of 5 files converted")`. */
  progress(note: string): Promise<void>;
  /** Records a finding as a fact of the goal: `await context.finding("db", "postgres 16")`. */
  finding(key: string, value: Json, source?: string): Promise<void>;
}

/** When a failed task is tried again. The goal's `maxAttempts` limits how often. */
export interface RetryPolicy {
  /** The wait before the second attempt, by default 1 s; it doubles with every failure. */
  readonly backoffMs?: number;
  /** The longest wait, by default 60 s. */
  readonly maxBackoffMs?: number;
  /** Whether a retry can help. By default the error's own `retryable` decides, otherwise yes. */
  readonly retryable?: (error: unknown) => boolean;
}

/**
 * Options of `runWithCheckpoints`.
 *
 * @example
 * await runWithCheckpoints(agent, goal, { session: "nightly", retry: { backoffMs: 5_000 }, signal });
 */
export interface RunOptions {
  /** The agent that claims the tasks: `{ name: "claude", role: "worker" }`. Default: the goal's `by`. */
  readonly by?: Actor;
  /** The name of this run in the goal's history, e.g. `"nightly"`. Two live runs cannot share one. */
  readonly session?: string;
  /** Example: `{ backoffMs: 5_000 }`. */
  readonly retry?: RetryPolicy;
  /** Length of each task's briefing; by default 2,000. */
  readonly briefingTokens?: number;
  /** How long to wait when only other agents can continue; by default two leases. */
  readonly waitMs?: number;
  /** Stops the run: the current task is released, the report says `stopped`. */
  readonly signal?: AbortSignal;
  /** Gets every checkpoint of the goal in order, those of other writers too. */
  readonly onCheckpoint?: (checkpoint: GoalCheckpoint) => void;
}

/**
 * How a run ended:
 *
 * | status      | meaning                                             |
 * |-------------|-----------------------------------------------------|
 * | `done`      | every phase is completed                            |
 * | `waiting`   | others have to verify or finish something           |
 * | `blocked`   | a person has to help                                |
 * | `failed`    | tasks failed for good, and nothing else is left     |
 * | `unplanned` | no tasks are left, but phases are                   |
 * | `stopped`   | the caller asked to stop                            |
 */
export type RunStatus = "done" | "waiting" | "blocked" | "failed" | "unplanned" | "stopped";

/** The result of `runWithCheckpoints`. `text` is the report for people, and `why` says why the run ended. */
export interface FinalReport {
  readonly status: RunStatus;
  readonly why: string;
  readonly goal: string;
  readonly session: string;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Attempts of this run; `state` counts those of earlier runs too. */
  readonly attempts: number;
  readonly progress: Progress;
  readonly state: RunState;
  readonly blockers: readonly { readonly id: string; readonly description: string }[];
  readonly text: string;
}

/**
 * Works through a goal's tasks with one agent until nothing is left that it can do. After a kill, run it
 * again: tasks that are done are not repeated.
 *
 * @example
 * const report = await runWithCheckpoints(
 *   { executeTask: async (task) => ({ summary: await work(task.title) }) },
 *   await holdfast.goal("checkout"),
 * );
 * console.log(report.text);
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

type RunEnd = Pick<FinalReport, "status" | "why">;

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
  private reportedSeq: number;
  private idleMs = 0;

  constructor(agent: TaskAgent, goal: Goal, by: Actor, session: RunSession, options: RunOptions) {
    this.agent = agent;
    this.goal = goal;
    this.by = by;
    this.session = session;
    this.options = options;
    this.retry = options.retry ?? {};
    this.startedAt = this.now();
    this.reportedSeq = goal.seq;
  }

  async untilNothingIsLeft(): Promise<RunEnd> {
    for (;;) {
      if (this.options.signal?.aborted) return { status: "stopped", why: "the caller asked to stop" };
      await this.goal.refresh();
      await this.reportCheckpoints();
      const hasWorked = (await this.verifyOne()) || (await this.workOnOne());
      await this.reportCheckpoints();
      if (hasWorked) {
        this.idleMs = 0;
        continue;
      }
      const end = this.endOfRun();
      if (end) return end;
      if (!(await this.pause())) return { status: "waiting", why: nextTasks(this.goal.state).why };
    }
  }

  private now(): number {
    return goalCore(this.goal).journal.now();
  }

  /** Nothing could be claimed. Null: a backoff or another agent is worth waiting for. */
  private endOfRun(): RunEnd | null {
    const { outlook, why } = nextTasks(this.goal.state);
    if (outlook === "done" || outlook === "blocked" || outlook === "unplanned")
      return { status: outlook, why };
    if (outlook === "stuck") return { status: "failed", why };
    if (outlook === "ready") {
      const isGivenUp = this.goal.survey().ready.every((task) => this.isRejectedTooOften(task));
      return isGivenUp ? { status: "failed", why: "rejected too often" } : null;
    }
    return tasksIn(this.goal.state, "in_progress").length > 0 ? null : { status: "waiting", why };
  }

  private isRejectedTooOften(task: Task): boolean {
    return task.rejections >= this.goal.state.maxAttempts;
  }

  /** Waits for the end of a backoff or for a change. False when the wait has used up `waitMs`. */
  private async pause(): Promise<boolean> {
    const now = this.now();
    const { ready } = this.goal.survey();
    const retries = ready.map((task) => retryAt(task, this.retry)).filter((at) => at > now);
    const limit = this.options.waitMs ?? 2 * goalCore(this.goal).journal.leases.ttlMs;
    const untilRetry = retries.length > 0 ? Math.min(...retries) - now : null;
    if (untilRetry === null && this.idleMs >= limit) return false;
    const waited = await nextChange(this.goal, untilRetry, this.options.signal);
    if (untilRetry === null) this.idleMs += waited;
    return true;
  }

  private async workOnOne(): Promise<boolean> {
    const now = this.now();
    const ready = nextTasks(this.goal.state).tasks.filter((task) => !this.isRejectedTooOften(task));
    const due = ready.filter((task) => retryAt(task, this.retry) <= now);
    const isOurs = ({ kind }: Task): boolean => this.by.role !== "verifier" || kind === "review";
    // A task in progress may have lost its process; whether it can be claimed is up to its lease.
    for (const task of [...tasksIn(this.goal.state, "in_progress"), ...due].filter(isOurs)) {
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
      const lostRace = ["TASK_HELD", "TASK_NOT_READY", "TASK_TRANSITION", "LEASE_LOST"];
      if (isHoldfastError(error) && lostRace.includes(error.code)) return null;
      throw error;
    }
  }

  private async workOn(claim: Claim): Promise<void> {
    this.attempts += 1;
    try {
      await claim.submit(await this.execute(claim));
    } catch (error) {
      await this.afterThrow(claim, error);
    }
  }

  private async execute(claim: Claim): Promise<EvidenceInput> {
    const task = this.goal.task(claim.task);
    const { signal, briefingTokens: tokens } = this.options;
    const reader = { task: task.id, session: this.session.id };
    const context: TaskContext = {
      goal: this.goal,
      briefing: this.goal.briefing({ ...reader, ...(tokens !== undefined && { tokens }) }),
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

  /** A failing store ends the run. A lost claim is left to its new holder. Any other error fails the task. */
  private async afterThrow(claim: Claim, error: unknown): Promise<void> {
    if (isStoreFailure(error)) throw error;
    try {
      if (this.options.signal?.aborted) await claim.release("the run was stopped");
      else await claim.fail(errorText(error), { retryable: isRetryable(error, this.retry) });
    } catch (second) {
      if (!isHoldfastError(second, "LEASE_LOST")) throw second;
    }
  }

  private async verifyOne(): Promise<boolean> {
    if (!this.agent.verifyTask) return false;
    const task = tasksIn(this.goal.state, "submitted").find(({ id }) => !this.unverifiable.has(id));
    if (!task?.submission) return false;
    const by: Actor = { name: `${this.by.name}-verifier`, role: "verifier" };
    try {
      const verdict = await this.agent.verifyTask(task, task.submission.evidence);
      const { accept, why = null } = typeof verdict === "boolean" ? { accept: verdict } : verdict;
      await this.goal.verify({ task: task.id, accept, why, attempt: task.attempts, by });
    } catch (error) {
      if (isHoldfastError(error, "TASK_TRANSITION")) return true;
      if (isStoreFailure(error)) throw error;
      this.unverifiable.add(task.id);
      const message = `verify ${task.id}: ${errorText(error)}`;
      await this.goal.recordError({ message, task: task.id, by });
    }
    return true;
  }

  private async reportCheckpoints(): Promise<void> {
    const { onCheckpoint } = this.options;
    if (!onCheckpoint || this.goal.seq === this.reportedSeq) return;
    for await (const [seq, event] of this.goal.events(this.reportedSeq)) {
      const checkpoint = checkpointOf(event, seq);
      if (checkpoint) onCheckpoint(checkpoint);
      this.reportedSeq = seq;
    }
  }
}

// ── Retries and errors ──

/** Computed from the log's wall clock, so that a restart does not shorten the wait. */
function retryAt(task: Task, policy: RetryPolicy): number {
  if (task.status !== "failed" || !task.failure) return 0;
  const { backoffMs = 1_000, maxBackoffMs = 60_000 } = policy;
  return task.failure.at + Math.min(maxBackoffMs, backoffMs * 2 ** Math.max(0, task.failures - 1));
}

function isRetryable(error: unknown, policy: RetryPolicy): boolean {
  if (policy.retryable) return policy.retryable(error);
  const own = (error as { retryable?: unknown } | null)?.retryable;
  return typeof own === "boolean" ? own : true;
}

function isStoreFailure(error: unknown): boolean {
  return isHoldfastError(error) && /^(STORE|STREAM)_/.test(error.code);
}

function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return (text || "failed without a message").slice(0, 4_000);
}

/** The store's change hints may get lost, so a wait is never longer than this. */
const POLL_MS = 250;

/** Resolves when the goal may have changed, at the latest after `ms` or `POLL_MS`, to the time it took. */
function nextChange(goal: Goal, ms: number | null, signal: AbortSignal | undefined): Promise<number> {
  const started = performance.now();
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      stopWatching();
      signal?.removeEventListener("abort", finish);
      resolve(performance.now() - started);
    };
    const timer = setTimeout(finish, Math.max(1, Math.min(ms ?? POLL_MS, POLL_MS)));
    const stopWatching = goal.watch(finish);
    signal?.addEventListener("abort", finish, { once: true });
  });
}

// ── The run in the goal's history ──

const RUN_PREFIX = "run-";

class RunSession {
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

  static async start(goal: Goal, by: Actor, name: string | undefined): Promise<RunSession> {
    const id = name ?? `${RUN_PREFIX}${goalCore(goal).journal.newId()}`;
    const lease = await takeRunLease(goal, by, id);
    if (!lease) throw nameInUse(goal, id);
    try {
      await goal.refresh();
      const crashed = await markCrashedRuns(goal, by, id);
      // If a supervisor has marked the last run as crashed, `startSession` finds it by itself.
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
      // Another process has just marked it as crashed: the report is valid all the same.
      if (!isHoldfastError(error, "SESSION_ENDED")) throw error;
    }
  }

  close(): Promise<void> {
    return this.lease.release();
  }
}

function nameInUse({ id: goal }: Goal, session: string): HoldfastError {
  const message = `another run of goal ${goal} has the name ${quoteValue(session)}`;
  const hint = "Wait until it ends, or give this run a name of its own.";
  return new HoldfastError("SESSION_HELD", message, { hint, data: { goal, session } });
}

async function takeRunLease(goal: Goal, by: Actor, id: string): Promise<Lease | null> {
  const { journal } = goalCore(goal);
  const options = { label: by.name, waitMs: 0 };
  const lease = await journal.leases.take(leaseName(goal.id, id), journal.newId(), options);
  return lease instanceof Lease ? lease : null;
}

async function markCrashedRuns(goal: Goal, by: Actor, own: string): Promise<string | null> {
  const supervisor: Actor = { name: by.name, role: "supervisor" };
  let latest: string | null = null;
  for (const { id, status } of [...goal.state.history.values()]) {
    if (id === own || status !== "active" || !id.startsWith(RUN_PREFIX)) continue;
    const lease = await takeRunLease(goal, by, id);
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

// ── The report ──

function finalReport(
  state: GoalState,
  facts: Pick<FinalReport, "status" | "why" | "session" | "startedAt" | "endedAt" | "attempts">,
): FinalReport {
  const survey = surveyGoal(state);
  const run = runStateOf(state, facts.endedAt, survey);
  const progress = progressOf(state, survey);
  const { bar, tasksCompleted, tasksTotal, phasesCompleted, phasesTotal } = progress;
  const active = [...state.blockers.values()].filter(({ status }) => status === "active");
  const blockers = active.map(({ id, description }) => ({ id, description }));
  const duration = exactAge(facts.endedAt - facts.startedAt);
  const lines = [
    `${state.id}: ${facts.status}, ${facts.why}`,
    `${bar}  ${tasksCompleted}/${tasksTotal} tasks, ${phasesCompleted}/${phasesTotal} phases`,
    `${facts.attempts} attempts in ${duration}, ${run.errorCount} errors in all`,
    ...run.failedTasks.map(({ task, error, retryable }) => {
      return `failed ${task}${retryable ? " (can be retried)" : ""}: ${quoted(error, 50)}`;
    }),
    ...blockers.map(({ id, description }) => `blocked ${id}: ${quoted(description, 50)}`),
    ...(run.remainingTasks.length > 0 ? [`remaining ${run.remainingTasks.join(", ")}`] : []),
  ];
  return { ...facts, goal: state.id, progress, state: run, blockers, text: `${lines.join("\n")}\n` };
}
