/** Where a goal stands and how far it has come: pure functions of its tasks, so neither can be wrong. */

import type { GoalState } from "./goal-state.ts";
import { isUnderWay } from "./readiness.ts";
import { compareTasks, displayStatus, type Survey, surveyGoal } from "./survey.ts";
import { type DisplayStatus, isFinished, type Task } from "./task.ts";

export interface Position {
  readonly phase: number | null;
  readonly phaseName: string | null;
  readonly plan: number | null;
  readonly planName: string | null;
  readonly task: string | null;
  readonly taskTitle: string | null;
  readonly wave: number | null;
  /** Of the task; without one, of the phase. */
  readonly status: DisplayStatus | "unplanned";
}

const NOWHERE: Position = {
  phase: null,
  phaseName: null,
  plan: null,
  planName: null,
  task: null,
  taskTitle: null,
  wave: null,
  status: "unplanned",
};

export function positionOf(state: GoalState, survey: Survey = surveyGoal(state)): Position {
  const { current } = survey;
  if (!current) return NOWHERE;
  const place = { ...NOWHERE, phase: current.number, phaseName: current.name };
  const task = currentTask(state, survey);
  if (!task)
    return { ...place, status: current.status === "completed" ? "done" : emptyStatus(current.status) };
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

/** A phase without tasks waits for its plan, unless a blocker holds it. */
function emptyStatus(status: string): Position["status"] {
  return status === "paused" ? "blocked" : "unplanned";
}

/** What is worked on, else what could be started, else what waits, blocked and failed ones last. */
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
  /** Mean over the phases, rounded down: 100 exactly when every phase is completed. */
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
