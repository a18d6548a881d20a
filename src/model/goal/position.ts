/**
 * Answers to "how far is it?" and "what comes next?", computed from one survey of the goal: position,
 * progress, next tasks and run state. None of them is stored, so none of them can contradict the tasks.
 */

import type { Json } from "../json.ts";
import { type GoalState, taskOf } from "./goal-state.ts";
import { confirmedFacts } from "./notes.ts";
import { isUnderWay } from "./readiness.ts";
import { activeBlockers, compareTasks, displayStatus, type Survey, surveyGoal } from "./survey.ts";
import { type DisplayStatus, isFailedForGood, isFinished, type Task } from "./task.ts";

export interface Position {
  readonly phase: number | null;
  readonly phaseName: string | null;
  readonly plan: number | null;
  readonly planName: string | null;
  readonly task: string | null;
  readonly taskTitle: string | null;
  readonly wave: number | null;
  /** The task's status; without a task, the phase's. */
  readonly status: DisplayStatus | "unplanned";
}

export function positionOf(state: GoalState, survey: Survey = surveyGoal(state)): Position {
  const { current } = survey;
  const noTask = { plan: null, planName: null, task: null, taskTitle: null, wave: null };
  if (!current) return { phase: null, phaseName: null, ...noTask, status: "unplanned" };
  const place = { phase: current.number, phaseName: current.name };
  const task = currentTask(state, survey);
  const statusWithoutTask = { completed: "done", paused: "blocked" } as Record<string, DisplayStatus>;
  if (!task) return { ...place, ...noTask, status: statusWithoutTask[current.status] ?? "unplanned" };
  const { plans } = state.phases.find(({ number }) => number === task.phase) ?? { plans: [] };
  return {
    ...place,
    plan: task.plan,
    planName: plans.find(({ number }) => number === task.plan)?.name ?? null,
    task: task.id,
    taskTitle: task.title,
    wave: task.wave,
    status: displayStatus(task, survey.blockedBy.has(task.id)),
  };
}

/** Rank: in progress, ready, submitted, waiting, blocked, stuck. */
function currentTask(state: GoalState, survey: Survey): Task | null {
  const ready = new Set(survey.ready);
  const rank = (task: Task): number => {
    if (survey.blockedBy.has(task.id)) return 4;
    if (isUnderWay(task)) return task.status === "in_progress" ? 0 : 2;
    if (ready.has(task)) return 1;
    return survey.movable.has(task.id) ? 3 : 5;
  };
  let best: Task | null = null;
  for (const task of state.tasks.values()) {
    if (task.phase !== survey.current?.number || isFinished(task)) continue;
    if (!best || (rank(task) - rank(best) || compareTasks(task, best)) < 0) best = task;
  }
  return best;
}

export interface Progress {
  readonly phasesTotal: number;
  readonly phasesCompleted: number;
  readonly currentPhaseTasks: number;
  readonly currentPhaseCompleted: number;
  readonly tasksTotal: number;
  readonly tasksCompleted: number;
  /** The mean over the phases, rounded down: 100 exactly when every phase is completed. */
  readonly percent: number;
  readonly bar: string;
}

export const BAR_CELLS = 16;

export function progressOf(state: GoalState, survey: Survey = surveyGoal(state)): Progress {
  const { phases, current, isDone } = survey;
  const shares = phases.map(({ status, tasks, completed }) => {
    if (status === "completed") return 1;
    return tasks === 0 ? 0 : completed / tasks;
  });
  const mean = shares.reduce((sum, share) => sum + share, 0) / Math.max(1, phases.length);
  const percent = isDone ? 100 : Math.min(99, Math.floor(100 * mean));
  return {
    phasesTotal: phases.length,
    phasesCompleted: phases.filter(({ status }) => status === "completed").length,
    currentPhaseTasks: current?.tasks ?? 0,
    currentPhaseCompleted: current?.completed ?? 0,
    tasksTotal: phases.reduce((sum, { tasks }) => sum + tasks, 0),
    tasksCompleted: phases.reduce((sum, { completed }) => sum + completed, 0),
    percent,
    bar: `${progressBar(percent, 100, BAR_CELLS)} ${percent}%`,
  };
}

/** `█████░░░`: a cell is filled once it is fully earned. */
export function progressBar(done: number, total: number, cells: number): string {
  const filled = total <= 0 ? 0 : Math.min(cells, Math.floor((cells * done) / total));
  return "█".repeat(filled) + "░".repeat(cells - filled);
}

/** The recorded next task while it can still be done, else the first ready one. */
export function nextTaskOf(state: GoalState, survey: Survey = surveyGoal(state)): string | null {
  const recorded = state.next?.task ?? null;
  if (recorded !== null && survey.movable.has(taskOf(state, recorded).id)) return taskOf(state, recorded).id;
  return survey.ready[0]?.id ?? null;
}

export interface NextTasks {
  readonly tasks: readonly Task[];
  /**
   * | outlook     | meaning                                                       |
   * |-------------|---------------------------------------------------------------|
   * | `ready`     | `tasks` can be claimed                                        |
   * | `waiting`   | other agents work on the first tasks, or a verifier is needed |
   * | `blocked`   | nothing can move, a person has to help                        |
   * | `stuck`     | failed tasks are in the way                                   |
   * | `unplanned` | there are no tasks to do yet                                  |
   * | `done`      | every phase is completed                                      |
   */
  readonly outlook: "ready" | "waiting" | "blocked" | "stuck" | "unplanned" | "done";
  readonly why: string;
}

export function nextTasks(state: GoalState): NextTasks {
  const survey = surveyGoal(state);
  if (survey.ready.length + unheldNext(state, survey).length > 0) {
    const first = nextTaskOf(state, survey);
    const rank = (task: Task): number => Number(task.id !== first);
    const tasks = [...unheldNext(state, survey), ...survey.ready].sort((a, b) => rank(a) - rank(b));
    return { tasks, outlook: "ready", why: `${tasks.length} ready in phase ${survey.current?.name}` };
  }
  const none = (outlook: NextTasks["outlook"], why: string): NextTasks => ({ tasks: [], outlook, why });
  if (survey.isDone) return none("done", "every phase is completed");
  if (survey.impact.escalate) {
    const named = new Set([...survey.blockedBy.values()].flat());
    // In a goal without tasks, blockers name no task but are the reason all the same.
    const blockers = named.size > 0 ? [...named] : activeBlockers(state).map(({ id }) => id);
    const are = blockers.length === 1 ? "is" : "are";
    return none("blocked", `nothing can move: ${shortList(blockers)} ${are} active`);
  }
  const all = [...state.tasks.values()];
  const inProgress = all.filter(({ status }) => status === "in_progress");
  const working = inProgress.map(({ id, claim }) => `${id} (${claim?.by.name})`);
  const submitted = all.filter(({ status }) => status === "submitted").map(({ id }) => id);
  if (working.length + submitted.length > 0) {
    const parts = [
      working.length > 0 ? `in progress: ${shortList(working)}` : "",
      submitted.length > 0 ? `waiting for a verifier: ${shortList(submitted)}` : "",
    ];
    return none("waiting", parts.filter(Boolean).join("; "));
  }
  const failed = all.filter((task) => isFailedForGood(task, state.maxAttempts)).map(({ id }) => id);
  if (failed.length > 0) return none("stuck", `failed for good: ${shortList(failed)}; retry or drop them`);
  const { current } = survey;
  return none("unplanned", current ? `phase ${current.name} has no task to do` : "the goal has no tasks yet");
}

/** The recorded next task, if it is in progress by a claim that an import made: no process holds it. */
function unheldNext(state: GoalState, survey: Survey): Task[] {
  const task = state.tasks.get(nextTaskOf(state, survey) ?? "");
  return task?.status === "in_progress" && task.claim?.token === 0 ? [task] : [];
}

function shortList(all: readonly string[]): string {
  const rest = all.length - 5;
  return all.slice(0, 5).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

/** The goal as structured run state. Every task that was not dropped is in exactly one of the three lists. */
export interface RunState {
  readonly runId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly originalGoal: string;
  readonly currentPhase: string | null;
  readonly completedTasks: readonly string[];
  readonly failedTasks: readonly { task: string; error: string; retryable: boolean }[];
  readonly remainingTasks: readonly string[];
  readonly confirmedFacts: Readonly<Record<string, Json>>;
  readonly decisionsMade: readonly string[];
  readonly filesExamined: readonly string[];
  readonly iterationCount: number;
  readonly errorCount: number;
  readonly lastSuccessfulOp: string | null;
}

export function runStateOf(state: GoalState, now: number, survey: Survey = surveyGoal(state)): RunState {
  const tasks = [...state.tasks.values()].sort(compareTasks);
  const failed = tasks.filter(({ status }) => status === "failed");
  const isRemaining = (status: string): boolean => !["done", "failed", "dropped"].includes(status);
  const facts = confirmedFacts(state.facts.values(), now).map(({ key, value }) => [key, value] as const);
  const current = [...state.decisions.values()].filter(({ supersededBy }) => supersededBy === null);
  return {
    runId: state.id,
    createdAt: state.createdAt,
    updatedAt: state.updatedAt,
    originalGoal: state.statement,
    currentPhase: survey.current?.name ?? null,
    completedTasks: tasks.filter(({ status }) => status === "done").map(({ id }) => id),
    failedTasks: failed.map(({ id: task, failure }) => {
      return { task, error: failure?.error ?? "", retryable: failure?.retryable ?? false };
    }),
    remainingTasks: tasks.filter(({ status }) => isRemaining(status)).map(({ id }) => id),
    confirmedFacts: Object.fromEntries(facts),
    decisionsMade: current.map(({ decision }) => decision),
    filesExamined: [...state.files.keys()].sort(),
    iterationCount: state.counters.iterations,
    errorCount: state.counters.errors,
    lastSuccessfulOp: state.counters.lastSuccess?.operation ?? null,
  };
}
