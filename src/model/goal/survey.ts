/**
 * What follows from a goal's tasks and blockers, computed and never stored: which tasks are blocked or ready, where
 * each phase stands, which phase the work is in, how far the blockers reach.
 *
 * Position, progress, `next` and the impact of blockers all read one survey, so they cannot contradict each other.
 *
 *  - A task is blocked while an active blocker names it, its phase or the goal and it is not finished.
 *  - A phase is paused when it has work left, none of that work can move, and a blocker is why. A phase that a
 *    blocker names is also paused while nothing in it can move.
 *  - The goal is blocked, and a person has to be asked, when something is paused and nothing anywhere can move.
 *  - Phases are worked on one after another: the first (or the one asked for) in which something can be started or
 *    is under way. A paused phase does not hold up the next one. New tasks go where somebody moved all the same.
 */

import { findTask, type GoalPhase, type GoalState } from "./goal-state.ts";
import type { Blocker } from "./notes.ts";
import { findReadiness, isRemaining, isUnderWay } from "./readiness.ts";
import { type DisplayStatus, isFinished, type Task } from "./task.ts";

export type PhaseStatus = "unplanned" | "open" | "in_progress" | "paused" | "stuck" | "completed";

export interface PhaseSummary {
  readonly number: number;
  readonly name: string;
  readonly status: PhaseStatus;
  /** Tasks that count: all but the dropped. */
  readonly tasks: number;
  readonly completed: number;
}

export type ImpactLevel = "none" | "task" | "phase" | "goal";

export interface Impact {
  readonly level: ImpactLevel;
  /** Tasks that a blocker names, directly or by their phase. */
  readonly tasks: readonly string[];
  readonly pausedPhases: readonly number[];
  /** Nothing can move: ask a person. */
  readonly escalate: boolean;
}

export interface Survey {
  readonly phases: readonly PhaseSummary[];
  /** Where the work is; null only while there are no phases. */
  readonly current: PhaseSummary | null;
  /** Tasks to claim now, best first: all of the current phase. */
  readonly ready: readonly Task[];
  /** Ids of the active blockers that name each blocked task. */
  readonly blockedBy: ReadonlyMap<string, readonly string[]>;
  readonly movable: ReadonlySet<string>;
  readonly impact: Impact;
  readonly isDone: boolean;
}

export function activeBlockers(state: GoalState): Blocker[] {
  return [...state.blockers.values()].filter(({ status }) => status === "active");
}

/** In the order in which tasks are done: by phase, plan, wave and number. Tasks without a plan come first. */
export function compareTasks(a: Task, b: Task): number {
  return (
    a.phase - b.phase ||
    (a.plan ?? 0) - (b.plan ?? 0) ||
    a.wave - b.wave ||
    a.id.length - b.id.length ||
    (a.id < b.id ? -1 : Number(a.id > b.id))
  );
}

export function displayStatus(task: Task, isBlocked: boolean): DisplayStatus {
  return isBlocked && !isFinished(task) ? "blocked" : task.status;
}

/** Which active blockers name each unfinished task. */
export function blockedTasks(
  state: GoalState,
  blockers: readonly Blocker[] = activeBlockers(state),
): ReadonlyMap<string, readonly string[]> {
  const blockedBy = new Map<string, readonly string[]>();
  if (blockers.length === 0) return blockedBy;
  const reach = new BlockerIndex(state, blockers);
  for (const task of state.tasks.values()) {
    const by = isFinished(task) ? [] : reach.blockersOf(task);
    if (by.length > 0) blockedBy.set(task.id, by);
  }
  return blockedBy;
}

/** As if `blockers` were the active ones; by default they are. */
export function surveyGoal(state: GoalState, blockers: readonly Blocker[] = activeBlockers(state)): Survey {
  const reach = new BlockerIndex(state, blockers);
  const blockedBy = blockedTasks(state, blockers);
  const { movable, startable } = findReadiness(state, (task) => blockedBy.has(task.id));
  const without = blockers.length === 0 ? movable : findReadiness(state, () => false).movable;
  const isHeld = (task: Task): boolean =>
    isRemaining(state, task) && (blockedBy.has(task.id) || (without.has(task.id) && !movable.has(task.id)));

  const byPhase = new Map<number, Task[]>(state.phases.map(({ number }) => [number, []]));
  const working = new Set(startable.map((task) => task.phase));
  for (const task of state.tasks.values()) {
    byPhase.get(task.phase)?.push(task);
    if (isUnderWay(task) && movable.has(task.id)) working.add(task.phase);
  }
  const phases = state.phases.map((phase) => {
    const tasks = byPhase.get(phase.number) ?? [];
    const isPausable = blockers.length > 0 && (reach.names(phase) || tasks.some(isHeld));
    return outlook(phase, tasks, movable, isPausable);
  });
  const current = currentPhase(state, phases, working);
  const isDone = phases.length > 0 && phases.every(({ status }) => status === "completed");
  const impact = impactOf(phases, blockedBy, movable.size === 0 && !isDone, reach.isWhole);
  const ready = startable.filter((task) => task.phase === current?.number).sort(compareTasks);
  return { phases, current, ready, blockedBy, movable, impact, isDone };
}

/** The phase that somebody moved to while the work goes on in another; null: it is where they moved, or that is complete. */
export function focusElsewhere(state: GoalState, { phases, current }: Survey): PhaseSummary | null {
  const focus = phases.find(({ number }) => number === state.focus);
  return !focus || focus.status === "completed" || focus === current ? null : focus;
}

/** How far one blocker reaches by itself. One that is not active reaches nothing. */
export function blockerImpact(state: GoalState, blocker: Blocker): Impact {
  return surveyGoal(state, blocker.status === "active" ? [blocker] : []).impact;
}

/** Which blockers name a task or phase. */
class BlockerIndex {
  private readonly whole: string[] = [];
  private readonly phases = new Map<number, string[]>();
  private readonly tasks = new Map<string, string[]>();

  constructor(state: GoalState, blockers: readonly Blocker[]) {
    for (const { id, affects } of blockers) {
      if (affects.goal) this.whole.push(id);
      for (const phase of affects.phases) this.phases.set(phase, [...(this.phases.get(phase) ?? []), id]);
      for (const task of new Set(affects.tasks.map((each) => findTask(state, each)?.id ?? each))) {
        this.tasks.set(task, [...(this.tasks.get(task) ?? []), id]);
      }
    }
  }

  get isWhole(): boolean {
    return this.whole.length > 0;
  }

  names(phase: GoalPhase): boolean {
    return this.isWhole || this.phases.has(phase.number);
  }

  blockersOf(task: Task): string[] {
    const all = [...this.whole, ...(this.phases.get(task.phase) ?? []), ...(this.tasks.get(task.id) ?? [])];
    return [...new Set(all)].sort();
  }
}

function outlook(
  phase: GoalPhase,
  tasks: readonly Task[],
  movable: ReadonlySet<string>,
  isPausable: boolean,
): PhaseSummary {
  const counted = tasks.filter((task) => task.status !== "dropped");
  const completed = counted.filter((task) => task.status === "done").length;
  const numbers = { number: phase.number, name: phase.name, tasks: counted.length, completed };
  const left = counted.filter((task) => task.status !== "done");
  const isComplete = left.length === 0 && (tasks.length > 0 || phase.closedAt !== null);
  if (isComplete) return { ...numbers, status: "completed" };
  if (left.some((task) => movable.has(task.id))) {
    const isBegun = completed > 0 || left.some((task) => task.status !== "open");
    return { ...numbers, status: isBegun ? "in_progress" : "open" };
  }
  if (isPausable) return { ...numbers, status: "paused" };
  return { ...numbers, status: left.length === 0 ? "unplanned" : "stuck" };
}

function currentPhase(
  state: GoalState,
  phases: readonly PhaseSummary[],
  working: ReadonlySet<number>,
): PhaseSummary | null {
  const focus = phases.find(({ number }) => number === state.focus);
  const isUsable = focus && (focus.status === "unplanned" || working.has(focus.number));
  if (isUsable) return focus;
  return (
    phases.find(({ number }) => working.has(number)) ??
    (focus?.status === "completed" ? undefined : focus) ??
    phases.find(({ status }) => status !== "completed") ??
    phases.at(-1) ??
    null
  );
}

function impactOf(
  phases: readonly PhaseSummary[],
  blockedBy: ReadonlyMap<string, readonly string[]>,
  nothingMoves: boolean,
  isWhole: boolean,
): Impact {
  const tasks = [...blockedBy.keys()];
  const pausedPhases = phases.filter(({ status }) => status === "paused").map(({ number }) => number);
  const isStopped = nothingMoves && (pausedPhases.length > 0 || isWhole);
  const part: ImpactLevel = pausedPhases.length > 0 ? "phase" : tasks.length > 0 ? "task" : "none";
  return { level: isStopped ? "goal" : part, tasks, pausedPhases, escalate: isStopped };
}
