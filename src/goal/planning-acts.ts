/** Acts on the plan of a goal: its settings, phases, plans and tasks. */

import { HoldfastError } from "../model/errors.ts";
import type { Actor, GoalDraft, GoalState, InputOf, Task, Verification } from "../model/goal/index.ts";
import {
  activeBlockers,
  BUILD_TASK,
  contentOf,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_TTL_MS,
  findTask,
  focusElsewhere,
  hasDependencyCycle,
  isFinished,
  namesOfItems,
  phaseOf,
  REVIEW_TASK,
  surveyGoal,
  TASK_PLAN,
  taskOf,
  withInitials,
} from "../model/goal/index.ts";
import { quoteValue } from "../model/names.ts";
import { type Act, closingPhase, DraftBatch, invalid, nextItemId, phaseNumber } from "./act.ts";

const BUILD = { ...TASK_PLAN, ...BUILD_TASK };
const REVIEW = { ...TASK_PLAN, ...REVIEW_TASK };
const NAMES_OF_TASKS = namesOfItems(contentOf(REVIEW));

export interface GoalSettings {
  readonly statement: string;
  readonly title?: string | null;
  /** After this long without a change the goal is stale; by default 72 hours. Null: never. */
  readonly ttlMs?: number | null;
  /** `separate` (default): another agent has to accept submitted work. `self`: submitted work is done. */
  readonly verification?: Verification;
  /** Failures after which a task counts as failed for good; by default 3. */
  readonly maxAttempts?: number;
}

/** Example: `{ name: "build", plans: ["backend", "frontend"] }`. */
export interface PhaseInput {
  readonly name: string;
  readonly plans?: readonly string[];
}

interface AnyTaskInput extends Omit<InputOf<typeof TASK_PLAN>, "phase"> {
  /** Number or name; by default the current phase. */
  readonly phase?: number | string;
}

/** Example: `{ title: "Parse the cart", dependsOn: ["T-001"], acceptance: ["npm test passes"] }`. */
export interface BuildTaskInput extends AnyTaskInput, InputOf<typeof BUILD_TASK> {
  readonly kind?: "build";
}

/** Example: `{ kind: "review", title: "Review the parser", reviews: ["T-002"], checklist: ["no leaks"] }`. */
export interface ReviewTaskInput extends AnyTaskInput, InputOf<typeof REVIEW_TASK> {
  readonly kind: "review";
}

export type TaskInput = BuildTaskInput | ReviewTaskInput;

export interface NewGoal extends GoalSettings {
  readonly phases?: readonly (string | PhaseInput)[];
  readonly tasks?: readonly TaskInput[];
}

/** Creates the goal with its first phases and tasks in one commit. An existing goal stays as it is. */
export function create(state: GoalState, by: Actor, id: string, input: NewGoal): Act<boolean> {
  if (state.id !== "") return { events: [], result: false };
  const draft = new TaskBatch(state);
  const { phases = [], tasks = [], ...settings } = input;
  const limits = { ttlMs: DEFAULT_TTL_MS, maxAttempts: DEFAULT_MAX_ATTEMPTS };
  const data = { title: null, verification: "separate", ...limits, ...settings, id, by } as const;
  draft.add({ type: "goal.created", data });
  const inputs = phases.map((phase) => (typeof phase === "string" ? { name: phase } : phase));
  rejectDuplicates(id, inputs);
  for (const phase of inputs) draftPhase(draft, by, phase);
  for (const task of tasks) draftTask(draft, by, task);
  return { events: draft.events, result: true };
}

function rejectDuplicates(goal: string, phases: readonly PhaseInput[]): void {
  const names = phases.map(({ name }) => name.toLowerCase());
  const twice = phases.find((_, index) => names.indexOf(names[index] ?? "") < index);
  if (!twice) return;
  throw invalid(
    `goal ${goal}: phase ${quoteValue(twice.name)} is there twice`,
    "Give each phase a name of its own: tasks and moves refer to it by name.",
    { goal, phase: twice.name },
  );
}

export function describe(state: GoalState, by: Actor, change: Partial<GoalSettings>): Act<void> {
  if (Object.keys(change).length === 0) {
    throw invalid(`goal ${state.id}: nothing to describe`, "Pass the settings that should change.");
  }
  return { events: [{ type: "goal.described", data: { by, change } }], result: undefined };
}

export function addPhase(state: GoalState, by: Actor, input: PhaseInput): Act<number> {
  const name = String(input.name).toLowerCase();
  const existing = state.phases.find((each) => each.name.toLowerCase() === name);
  if (existing) {
    throw invalid(
      `goal ${state.id} already has a phase ${quoteValue(existing.name)}, number ${existing.number}`,
      "Add to that one, or give the new phase a name of its own: tasks and moves refer to it by name.",
      { goal: state.id, phase: existing.name, number: existing.number },
    );
  }
  const draft = new DraftBatch(state);
  draftPhase(draft, by, input);
  return { events: draft.events, result: draft.state.phases.length };
}

function draftPhase(draft: DraftBatch, by: Actor, { plans = [], ...phase }: PhaseInput): void {
  const number = draft.state.phases.length + 1;
  draft.add({ type: "phase.added", data: { ...phase, by, number } });
  plans.forEach((name, index) => {
    draft.add({ type: "plan.added", data: { by, phase: number, number: index + 1, name } });
  });
}

export interface PlanInput {
  readonly phase: number | string;
  readonly name: string;
}

export function addPlan(state: GoalState, by: Actor, input: PlanInput): Act<number> {
  const phase = phaseNumber(state, input.phase);
  const number = phaseOf(state, phase).plans.length + 1;
  return { events: [{ type: "plan.added", data: { ...input, by, phase, number } }], result: number };
}

export function addTasks(state: GoalState, by: Actor, inputs: readonly TaskInput[]): Act<string[]> {
  const draft = new TaskBatch(state);
  const ids = inputs.map((input) => draftTask(draft, by, input));
  return { events: draft.events, result: ids };
}

export function draftTask(draft: TaskBatch, by: Actor, input: TaskInput): string {
  if (draft.state.phases.length === 0 && input.phase === undefined) {
    draft.add({ type: "phase.added", data: { by, number: 1, name: "implementation" } });
  }
  const { state } = draft;
  const id = nextItemId(state, "T");
  const phase = input.phase === undefined ? draft.currentPhase() : phaseNumber(state, input.phase);
  // In errors the new task goes by its title: its id does not exist yet.
  const itself = `the new task ${quoteValue(input.title)}`;
  const content =
    input.kind === "review" ? withInitials(REVIEW, input) : withInitials(BUILD, { kind: "build", ...input });
  const data = { ...content, ...knownTasks(state, content, itself), phase, by, id };
  const mayBeInCycle = draft.addTask({ type: "task.added", data } as GoalDraft, id);
  if (mayBeInCycle) rejectCycle(draft.state, id);
  return id;
}

export type TaskChange = Partial<Omit<BuildTaskInput, "kind"> & Omit<ReviewTaskInput, "kind">>;

export interface EditInput {
  readonly task: string;
  readonly change: TaskChange;
}

export function editTask(state: GoalState, by: Actor, input: EditInput): Act<string> {
  const task = taskOf(state, input.task);
  const { phase, ...rest } = input.change;
  const foreign = task.kind === "build" ? REVIEW_TASK : BUILD_TASK;
  const wrong = Object.keys(input.change).find((key) => Object.hasOwn(foreign, key));
  if (wrong !== undefined) {
    throw invalid(`task ${task.id} is a ${task.kind} task: it has no ${wrong}`, "Leave that field out.");
  }
  const change = {
    ...rest,
    // The number of a plan says nothing without its phase.
    ...((phase !== undefined || typeof rest.plan === "number") && {
      phase: phase === undefined ? task.phase : phaseNumber(state, phase),
    }),
    ...knownTasks(state, rest, `task ${task.id}`),
  };
  const draft = new DraftBatch(state);
  draft.add({ type: "task.edited", data: { by, task: task.id, change } } as GoalDraft);
  rejectCycle(draft.state, task.id);
  return { events: draft.events, result: task.id };
}

/** The fields of `content` that name tasks, by the names that these have now. */
function knownTasks(state: GoalState, content: object, from: string): Record<string, string[]> {
  const knownTask = (id: string): string => {
    const task = findTask(state, id);
    if (task) return task.id;
    const message = `${from} names ${quoteValue(id)}, which this goal does not have`;
    throw invalid(message, "Add that task first.", { goal: state.id, task: id });
  };
  const lists = Object.entries(content).filter(
    ([name, ids]) => NAMES_OF_TASKS.includes(name) && Array.isArray(ids),
  );
  return Object.fromEntries(lists.map(([name, ids]) => [name, ids.map(knownTask)]));
}

function rejectCycle(state: GoalState, id: string): void {
  if (!hasDependencyCycle(state, taskOf(state, id))) return;
  throw invalid(
    `task ${id} would wait for itself`,
    "Remove the dependency that leads back to it, or put it into a later wave.",
    { task: id },
  );
}

export interface WhyInput {
  readonly task: string;
  readonly why: string;
}

const taskChange =
  (type: "task.retried" | "task.dropped" | "task.reopened") =>
  (state: GoalState, by: Actor, { task: id, why }: WhyInput): Act<string> => {
    const task = taskOf(state, id);
    const closing = type === "task.dropped" ? closingPhase(state, task, by) : [];
    return { events: [{ type, data: { by, task: task.id, why } }, ...closing], result: task.id };
  };

export const retry = taskChange("task.retried");
export const drop = taskChange("task.dropped");
export const reopen = taskChange("task.reopened");

export interface AliasInput {
  readonly alias: string;
  readonly task: string;
}

export function aliasTask(state: GoalState, by: Actor, input: AliasInput): Act<void> {
  const task = taskOf(state, input.task).id;
  return { events: [{ type: "task.aliased", data: { ...input, by, task } }], result: undefined };
}

/** Moving on from a phase without tasks completes it; moving back to such a phase opens it again. */
export function move(state: GoalState, by: Actor, to: number | string): Act<number> {
  const survey = surveyGoal(state);
  const phase = phaseNumber(state, to);
  const isCompleted = survey.phases.find(({ number }) => number === phase)?.status === "completed";
  if (isCompleted && [...state.tasks.values()].some((task) => task.phase === phase)) {
    throw invalid(
      `phase ${phase} of goal ${state.id} is completed`,
      "Move to a phase that has work left, or reopen or add a task there first.",
    );
  }
  const from = survey.current;
  if (from?.number === phase && state.focus === phase && !isCompleted) return { events: [], result: phase };
  const isLeftEmpty = from && from.number < phase && from.status === "unplanned";
  const events: GoalDraft[] = [{ type: "phase.entered", data: { by, phase } }];
  if (isLeftEmpty) events.unshift({ type: "phase.completed", data: { by, phase: from.number } });
  return { events, result: phase };
}

export function completePhase(state: GoalState, by: Actor, which: number | string): Act<number> {
  const phase = phaseNumber(state, which);
  const unfinished = [...state.tasks.values()].filter((task) => task.phase === phase && !isFinished(task));
  if (unfinished.length === 0)
    return { events: [{ type: "phase.completed", data: { by, phase } }], result: phase };
  const tasks = unfinished.map(({ id }) => id);
  const message = `phase ${phase} has ${tasks.length} unfinished tasks: ${quoteValue(tasks)}`;
  const hint = "Finish or drop them. A phase completes by itself with its last task.";
  throw new HoldfastError("PHASE_UNFINISHED", message, { hint, data: { phase, tasks } });
}

/**
 * A batch that may add thousands of tasks. Two checks of a new task need all other tasks, which would make
 * the act quadratic. So their answers are cached until an added task or another event could change them.
 */
export class TaskBatch extends DraftBatch {
  private current: { readonly phase: number; readonly hasReady: boolean } | null = null;
  private waits: Waits | null = null;

  override add(draft: GoalDraft): void {
    super.add(draft);
    this.current = null;
    this.waits = null;
  }

  /** The phase of a task that names none: the one that was moved to, else the one in which the work is. */
  currentPhase(): number {
    if (!this.current) {
      const survey = surveyGoal(this.state);
      const moved = focusElsewhere(this.state, survey);
      const phase = (moved ?? survey.current)?.number ?? 1;
      this.current = { phase, hasReady: moved === null && survey.ready.length > 0 };
    }
    return this.current.phase;
  }

  /** Returns false if the new task cannot be in a cycle: it waits for no task, or none waits for it. */
  addTask(draft: GoalDraft, id: string): boolean {
    const { current } = this;
    const waits = this.waits ?? this.findWaits();
    super.add(draft);
    const task = taskOf(this.state, id);
    const lane = laneOf(task);
    const last = waits.lastWaves.get(lane) ?? 0;
    const isAwaited = last > task.wave || waits.missing.has(id);
    waits.lastWaves.set(lane, Math.max(last, task.wave));
    this.waits = waits;
    const isWaiting = task.kind === "review" || task.dependsOn.length > 0 || task.wave > 1;
    // The new task is ready itself, or the ready tasks of the phase stay ready: none of them waits for it.
    const hasReady =
      (!isWaiting && activeBlockers(this.state).length === 0) || (current?.hasReady === true && !isAwaited);
    this.current = current?.phase === task.phase && hasReady ? { ...current, hasReady } : null;
    return isWaiting && isAwaited;
  }

  private findWaits(): Waits {
    const waits: Waits = { lastWaves: new Map(), missing: new Set() };
    for (const task of this.state.tasks.values()) {
      const lane = laneOf(task);
      waits.lastWaves.set(lane, Math.max(waits.lastWaves.get(lane) ?? 0, task.wave));
      const names = task.kind === "review" ? [...task.dependsOn, ...task.reviews] : task.dependsOn;
      for (const name of names) if (!findTask(this.state, name)) waits.missing.add(name);
    }
    return waits;
  }
}

interface Waits {
  /** The last wave of each plan: its tasks wait for all earlier waves. */
  readonly lastWaves: Map<string, number>;
  /** Dependencies on tasks that do not exist, which a merge can leave behind. */
  readonly missing: Set<string>;
}

const laneOf = ({ phase, plan }: Task): string => `${phase}/${plan ?? 0}`;
