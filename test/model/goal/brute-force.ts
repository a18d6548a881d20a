/** A second, naive implementation of the survey, to compare the fast one with. */

import { expect } from "vitest";
import {
  BAR_CELLS,
  type Blocker,
  displayStatus,
  findTask,
  type GoalState,
  type Impact,
  positionOf,
  progressOf,
  surveyGoal,
  type Task,
} from "../../../src/model/goal/index.ts";

export const isFinished = ({ status }: Task): boolean => status === "done" || status === "dropped";

/** Position, progress and bar as anyone would recount them by hand. */
export function expectNoContradiction(state: GoalState): void {
  const survey = surveyGoal(state);
  const position = positionOf(state, survey);
  const progress = progressOf(state, survey);
  const all = [...state.tasks.values()];
  const inPhase = all.filter(({ phase, status }) => phase === position.phase && status !== "dropped");
  const complete = state.phases.filter(({ number, closedAt }) => {
    const own = all.filter(({ phase }) => phase === number);
    return own.every(isFinished) && (own.length > 0 || closedAt !== null);
  });
  const isDone = state.phases.length > 0 && complete.length === state.phases.length;
  const [cells = "", percent] = progress.bar.split(" ");
  // At once: a call of `expect` takes longer than a survey, and this is done at every step of many walks.
  expect({
    ...progress,
    isWhole: progress.percent === 100,
    isDone: position.status === "done",
    percentShown: percent,
    cells: cells.length,
    cellsFilled: [...cells].filter((cell) => cell === "█").length,
  }).toEqual({
    ...progress,
    currentPhaseTasks: inPhase.length,
    currentPhaseCompleted: inPhase.filter(({ status }) => status === "done").length,
    tasksCompleted: all.filter(({ status }) => status === "done").length,
    tasksTotal: all.filter(({ status }) => status !== "dropped").length,
    phasesCompleted: complete.length,
    phasesTotal: state.phases.length,
    isWhole: isDone,
    isDone,
    percentShown: `${progress.percent}%`,
    cells: BAR_CELLS,
    cellsFilled: Math.floor((BAR_CELLS * progress.percent) / 100),
  });

  const task = position.task === null ? undefined : state.tasks.get(position.task);
  if (task) {
    const { phase, plan, wave, title } = task;
    expect(position).toMatchObject({ phase, plan, wave, taskTitle: title });
    expect(position.status).toBe(displayStatus(task, survey.blockedBy.has(task.id)));
    expect(isFinished(task)).toBe(false);
  }
  expect(survey.ready.filter(({ phase }) => phase !== position.phase)).toEqual([]);
  if (survey.ready.length > 0) expect(["open", "failed", "in_progress"]).toContain(position.status);
}

export interface BruteForce {
  readonly impact: Impact;
  readonly movable: ReadonlySet<string>;
  readonly startable: readonly string[];
}

/** Finishes on paper whatever can be finished, over and over, until nothing changes. */
export function bruteForce(state: GoalState, blockers: readonly Blocker[]): BruteForce {
  const all = [...state.tasks.values()];
  const isNamed = (task: Task): boolean =>
    blockers.some(({ affects }) => {
      const tasks = affects.tasks.map((id) => findTask(state, id)?.id);
      return affects.goal || affects.phases.includes(task.phase) || tasks.includes(task.id);
    });
  const isLost = ({ status, failure, failures }: Task): boolean =>
    status === "failed" && (!failure?.retryable || failures >= state.maxAttempts);
  const isUnderWay = ({ status }: Task): boolean => status === "in_progress" || status === "submitted";
  const finishable = (ignoreBlockers: boolean, rounds: number): Set<Task> => {
    const done = new Set<Task>();
    const isOver = (task: Task | undefined): boolean =>
      task !== undefined && (isFinished(task) || done.has(task));
    const canFinish = (task: Task): boolean => {
      if (isFinished(task) || isLost(task) || (!ignoreBlockers && isNamed(task))) return false;
      if (isUnderWay(task)) return true;
      const reviews = task.kind === "review" ? task.reviews.map((id) => findTask(state, id)) : [];
      const earlier = all.filter(
        ({ phase, plan, wave }) => phase === task.phase && plan === task.plan && wave < task.wave,
      );
      return (
        task.dependsOn.every((id) => isOver(findTask(state, id))) &&
        reviews.every((each) => isOver(each) || each?.status === "submitted") &&
        earlier.every(isOver)
      );
    };
    for (let round = 0; round < rounds; round++) {
      const now = all.filter(canFinish);
      for (const each of now) done.add(each);
    }
    return done;
  };
  const moving = finishable(false, all.length);
  const free = finishable(true, all.length);
  const paused = state.phases.filter(({ number, closedAt }) => {
    const own = all.filter(({ phase }) => phase === number);
    const isComplete = own.every(isFinished) && (own.length > 0 || closedAt !== null);
    if (isComplete || own.some((each) => moving.has(each))) return false;
    const isPhaseNamed = blockers.some(({ affects }) => affects.goal || affects.phases.includes(number));
    const isHeld = (each: Task): boolean =>
      !isFinished(each) && !isLost(each) && (isNamed(each) || (free.has(each) && !moving.has(each)));
    return isPhaseNamed || own.some(isHeld);
  });
  const tasks = all.filter((each) => !isFinished(each) && isNamed(each)).map(({ id }) => id);
  const isAllComplete =
    state.phases.length > 0 &&
    state.phases.every(({ number, closedAt }) => {
      const own = all.filter(({ phase }) => phase === number);
      return own.every(isFinished) && (own.length > 0 || closedAt !== null);
    });
  const isWhole = blockers.some(({ affects }) => affects.goal);
  const escalate = !isAllComplete && moving.size === 0 && (paused.length > 0 || isWhole);
  const level = escalate ? "goal" : paused.length > 0 ? "phase" : tasks.length > 0 ? "task" : "none";
  return {
    impact: { level, tasks, pausedPhases: paused.map(({ number }) => number), escalate },
    movable: new Set([...moving].map(({ id }) => id)),
    startable: [...finishable(false, 1)].filter((each) => !isUnderWay(each)).map(({ id }) => id),
  };
}
