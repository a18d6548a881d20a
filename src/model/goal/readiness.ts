/**
 * Readiness: which tasks can start now, and which can ever be finished while the blockers stay.
 *
 * - A task is startable when its dependencies are finished, the tasks it reviews are at least submitted, and
 *   all earlier waves of its plan are finished.
 * - A task is movable when it can be finished. `findReadiness` finishes whatever can be finished until
 *   nothing more can. The rest is stuck: blocked, failed for good, behind such a task, or in a cycle.
 *
 * Linear in tasks and dependencies.
 */

import { findTask, type GoalState } from "./goal-state.ts";
import { isFailedForGood, isFinished, type Task } from "./task.ts";

const NOTHING: readonly never[] = [];

export function isUnderWay(task: Task): boolean {
  return task.status === "in_progress" || task.status === "submitted";
}

export function isRemaining(state: GoalState, task: Task): boolean {
  return !isFinished(task) && !isFailedForGood(task, state.maxAttempts);
}

/** The ids that a task waits for: unfinished dependencies, and for a review the work not yet submitted. */
function prerequisites(state: GoalState, task: Task): readonly string[] {
  if (task.dependsOn.length === 0 && task.kind !== "review") return NOTHING;
  const isUnfinished = (id: string): boolean => {
    const other = findTask(state, id);
    return !other || !isFinished(other);
  };
  const waits = task.dependsOn.filter(isUnfinished);
  if (task.kind !== "review") return waits;
  const isSubmitted = (id: string): boolean => findTask(state, id)?.status === "submitted";
  return [...waits, ...task.reviews.filter((id) => isUnfinished(id) && !isSubmitted(id))];
}

interface Lane {
  readonly waves: readonly number[];
  readonly byWave: ReadonlyMap<number, readonly Task[]>;
  readonly unfinished: Map<number, number>;
  /** Index of the first wave that has unfinished tasks. */
  reached: number;
}

class Waves {
  private readonly lanes = new Map<number, Lane>();

  constructor(state: GoalState) {
    for (const [key, tasks] of groupTasks(state.tasks.values(), laneOf)) {
      const byWave = groupTasks(tasks, (task) => task.wave);
      const waves = [...byWave.keys()].sort((a, b) => a - b);
      const unfinished = new Map(waves.map((wave) => [wave, 0]));
      for (const task of tasks) if (!isFinished(task)) raise(unfinished, task.wave, 1);
      const lane = { waves, byWave, unfinished, reached: 0 };
      this.lanes.set(key, lane);
      this.advance(lane);
    }
  }

  hasReached(task: Task): boolean {
    const lane = this.lanes.get(laneOf(task));
    const current = lane?.waves[lane.reached];
    return current === undefined || task.wave <= current;
  }

  /** Counts a task as finished. Returns the tasks whose wave that starts. */
  finish(task: Task): readonly Task[] {
    const lane = this.lanes.get(laneOf(task));
    if (!lane) return NOTHING;
    raise(lane.unfinished, task.wave, -1);
    return this.advance(lane);
  }

  private advance(lane: Lane): Task[] {
    const started: Task[] = [];
    for (;;) {
      const wave = lane.waves[lane.reached];
      if (wave === undefined || lane.unfinished.get(wave) !== 0) return started;
      lane.reached += 1;
      const next = lane.waves[lane.reached];
      if (next !== undefined) started.push(...(lane.byWave.get(next) ?? []));
    }
  }
}

/** The reason why a task cannot start, apart from blockers and its phase; null: it can. */
export function startBlockedBy(state: GoalState, task: Task): string | null {
  if (isFailedForGood(task, state.maxAttempts)) return `failed for good: ${task.failure?.error}`;
  const needs = prerequisites(state, task);
  if (needs.length > 0) return `waits for ${needs.join(", ")}`;
  if (!new Waves(state).hasReached(task)) return `waits for the waves before wave ${task.wave}`;
  return null;
}

/** Whether a task waits for itself, over dependencies, reviewed tasks and earlier waves. */
export function hasDependencyCycle(state: GoalState, task: Task): boolean {
  const lanes = groupTasks(state.tasks.values(), laneOf);
  const below = new Map<number, number>();
  const seen = new Set<string>();
  const stack: Task[] = [task];
  for (let each = stack.pop(); each; each = stack.pop()) {
    const names = each.kind === "review" ? [...each.dependsOn, ...each.reviews] : each.dependsOn;
    const reached = names.flatMap((id) => findTask(state, id) ?? []);
    const lane = laneOf(each);
    if (each.wave > (below.get(lane) ?? 1)) {
      below.set(lane, each.wave);
      for (const other of lanes.get(lane) ?? []) if (other.wave < each.wave) reached.push(other);
    }
    for (const other of reached) {
      if (other.id === task.id) return true;
      if (!seen.has(other.id) && !isFinished(other)) stack.push(other);
      seen.add(other.id);
    }
  }
  return false;
}

/**
 * Both lists hold remaining tasks only. `startable`: not under way, not blocked, nothing to wait for.
 * `isBlocked` tells which tasks stay blocked.
 */
export function findReadiness(
  state: GoalState,
  isBlocked: (task: Task) => boolean,
): { readonly startable: readonly Task[]; readonly movable: ReadonlySet<string> } {
  const waves = new Waves(state);
  const missing = new Map<string, number>();
  const waiters = new Map<string, Task[]>();
  const ready: Task[] = [];
  for (const task of state.tasks.values()) {
    if (!isRemaining(state, task)) continue;
    const hasStarted = isUnderWay(task);
    const needs = hasStarted ? NOTHING : prerequisites(state, task);
    const count = needs.length + (hasStarted || waves.hasReached(task) ? 0 : 1);
    missing.set(task.id, count);
    for (const id of needs) {
      addTo(waiters, findTask(state, id)?.id ?? id, task);
    }
    if (count === 0) ready.push(task);
  }

  const startable = ready.filter((task) => !isUnderWay(task) && !isBlocked(task));
  const movable = new Set<string>();
  const meetOne = (task: Task): void => {
    const left = (missing.get(task.id) ?? Number.NaN) - 1;
    missing.set(task.id, left);
    if (left === 0) ready.push(task);
  };
  for (let task = ready.pop(); task; task = ready.pop()) {
    if (isBlocked(task)) continue;
    movable.add(task.id);
    for (const waiter of waiters.get(task.id) ?? NOTHING) meetOne(waiter);
    for (const next of waves.finish(task)) if (!isUnderWay(next)) meetOne(next);
  }
  return { startable, movable };
}

/** A number for each plan: strings made for every task would cost more than the rest of a survey. */
function laneOf(task: Task): number {
  return task.phase * 1_000_000 + (task.plan ?? 0);
}

function raise(counts: Map<number, number>, key: number, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by);
}

function groupTasks<Key>(tasks: Iterable<Task>, key: (task: Task) => Key): Map<Key, Task[]> {
  const groups = new Map<Key, Task[]>();
  for (const task of tasks) addTo(groups, key(task), task);
  return groups;
}

function addTo<Key>(groups: Map<Key, Task[]>, key: Key, task: Task): void {
  const group = groups.get(key);
  if (group) group.push(task);
  else groups.set(key, [task]);
}
