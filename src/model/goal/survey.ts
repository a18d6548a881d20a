/**
 * The survey of a goal: which tasks are blocked or ready, the status of each phase, the current phase, and
 * the impact of blockers. Never stored. Everything that is derived from tasks and blockers reads one survey,
 * so that no two answers contradict each other.
 *
 * - A task is blocked while it is unfinished and an active blocker names it, its phase or the goal.
 * - A phase is paused when it has work left, none of that work can move, and a blocker is the reason. A phase
 *   that a blocker names is also paused while nothing in it can move.
 * - The goal is blocked, and needs a person, when something is paused and nothing anywhere can move.
 * - The current phase is the first one with a task that is ready or under way; the phase that was moved to
 *   comes before the others. A paused phase does not hold up the next one.
 */

import { findTask, type GoalPhase, type GoalState } from "./goal-state.ts";
import type { Blocker } from "./notes.ts";
import { findReadiness, isRemaining, isUnderWay } from "./readiness.ts";
import { type DisplayStatus, isFinished, type Task } from "./task.ts";

export interface PhaseSummary {
  readonly number: number;
  readonly name: string;
  readonly status: "unplanned" | "open" | "in_progress" | "paused" | "stuck" | "completed";
  readonly tasks: number;
  readonly completed: number;
}

export interface Impact {
  readonly level: "none" | "task" | "phase" | "goal";
  /** Tasks that a blocker names, directly or by phase or goal. */
  readonly tasks: readonly string[];
  readonly pausedPhases: readonly number[];
  readonly escalate: boolean;
}

export interface Survey {
  readonly phases: readonly PhaseSummary[];
  readonly current: PhaseSummary | null;
  /** The tasks of the current phase that can be claimed now, best first. */
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

/** The order of work: by phase, plan, wave and id. Tasks without a plan come first. */
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

export function blockedTasks(
  state: GoalState,
  blockers: readonly Blocker[] = activeBlockers(state),
): ReadonlyMap<string, readonly string[]> {
  const blockedBy = new Map<string, readonly string[]>();
  if (blockers.length === 0) return blockedBy;
  const index = new BlockerIndex(state, blockers);
  for (const task of state.tasks.values()) {
    const by = isFinished(task) ? [] : index.blockersOf(task);
    if (by.length > 0) blockedBy.set(task.id, by);
  }
  return blockedBy;
}

/** With `blockers`: as if these were the active ones. */
export function surveyGoal(state: GoalState, blockers: readonly Blocker[] = activeBlockers(state)): Survey {
  const index = new BlockerIndex(state, blockers);
  const blockedBy = blockedTasks(state, blockers);
  const { movable, startable } = findReadiness(state, (task) => blockedBy.has(task.id));
  const movableUnblocked = blockers.length === 0 ? movable : findReadiness(state, () => false).movable;
  const isHeld = (task: Task): boolean =>
    isRemaining(state, task) &&
    (blockedBy.has(task.id) || (movableUnblocked.has(task.id) && !movable.has(task.id)));

  const byPhase = new Map<number, Task[]>(state.phases.map(({ number }) => [number, []]));
  const working = new Set(startable.map((task) => task.phase));
  for (const task of state.tasks.values()) {
    byPhase.get(task.phase)?.push(task);
    if (isUnderWay(task) && movable.has(task.id)) working.add(task.phase);
  }
  const phases = state.phases.map((phase) => {
    const tasks = byPhase.get(phase.number) ?? [];
    const isPausable = blockers.length > 0 && (index.names(phase) || tasks.some(isHeld));
    return outlook(phase, tasks, movable, isPausable);
  });
  const current = currentPhase(state, phases, working);
  const isDone = phases.length > 0 && phases.every(({ status }) => status === "completed");
  const impact = impactOf(phases, blockedBy, movable.size === 0 && !isDone, index.isWhole);
  const ready = startable.filter((task) => task.phase === current?.number).sort(compareTasks);
  return { phases, current, ready, blockedBy, movable, impact, isDone };
}

/** The phase that was moved to, if the work is in another one and it is not completed. New tasks go there. */
export function focusElsewhere(state: GoalState, { phases, current }: Survey): PhaseSummary | null {
  const focus = phases.find(({ number }) => number === state.focus);
  return !focus || focus.status === "completed" || focus === current ? null : focus;
}

/** The impact of one blocker alone. A blocker that is not active has none. */
export function blockerImpact(state: GoalState, blocker: Blocker): Impact {
  return surveyGoal(state, blocker.status === "active" ? [blocker] : []).impact;
}

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
  if (focus && (focus.status === "unplanned" || working.has(focus.number))) return focus;
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
  const part = pausedPhases.length > 0 ? "phase" : tasks.length > 0 ? "task" : "none";
  return { level: isStopped ? "goal" : part, tasks, pausedPhases, escalate: isStopped };
}
