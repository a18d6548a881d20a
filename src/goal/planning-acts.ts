/** Acts on the structure of a goal: what is to be done, in which order. */

import { HoldfastError } from "../model/errors.ts";
import {
  type Actor,
  BUILD_TASK,
  contentOf,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_TTL_MS,
  findTask,
  formatId,
  type GoalDraft,
  type GoalState,
  hasDependencyCycle,
  type InputOf,
  isFinished,
  namesOfItems,
  phaseOf,
  REVIEW_TASK,
  surveyGoal,
  TASK_PLAN,
  type Task,
  taskOf,
  type Verification,
  withInitials,
} from "../model/goal/index.ts";
import { quoteValue } from "../model/names.ts";
import { type Act, closingPhase, DraftBatch, invalid, phaseNumber } from "./act.ts";
import { TaskDrafting } from "./task-drafting.ts";

const BUILD = { ...TASK_PLAN, ...BUILD_TASK };
const REVIEW = { ...TASK_PLAN, ...REVIEW_TASK };
const NAMES_OF_TASKS = namesOfItems(contentOf(REVIEW));

/** What the first phase is called when a task is added before any phase. */
const FIRST_PHASE = "implementation";

export interface GoalSettings {
  readonly statement: string;
  readonly title?: string | null;
  /** Null: never stale. */
  readonly ttlMs?: number | null;
  readonly verification?: Verification;
  readonly maxAttempts?: number;
}

export interface PhaseInput {
  readonly name: string;
  readonly plans?: readonly string[];
}

interface AnyTaskInput extends Omit<InputOf<typeof TASK_PLAN>, "phase"> {
  /** Number or name; the current one by default. */
  readonly phase?: number | string;
}

export interface BuildTaskInput extends AnyTaskInput, InputOf<typeof BUILD_TASK> {
  readonly kind?: "build";
}

export interface ReviewTaskInput extends AnyTaskInput, InputOf<typeof REVIEW_TASK> {
  readonly kind: "review";
}

export type TaskInput = BuildTaskInput | ReviewTaskInput;

export interface NewGoal extends GoalSettings {
  readonly phases?: readonly (string | PhaseInput)[];
  readonly tasks?: readonly TaskInput[];
}

/** Everything a goal begins with is one commit; a goal that is there already is left as it is. */
export function create(state: GoalState, by: Actor, id: string, input: NewGoal): Act<boolean> {
  if (state.id !== "") return { events: [], result: false };
  const draft = new TaskDrafting(state);
  const { phases = [], tasks = [], ...settings } = input;
  draft.add({
    type: "goal.created",
    data: {
      title: null,
      ttlMs: DEFAULT_TTL_MS,
      verification: "separate",
      maxAttempts: DEFAULT_MAX_ATTEMPTS,
      ...settings,
      id,
      by,
    },
  });
  const made = phases.map((phase) => (typeof phase === "string" ? { name: phase } : phase));
  refuseTwice(id, made);
  for (const phase of made) draftPhase(draft, by, phase);
  for (const task of tasks) draftTask(draft, by, task);
  return { events: draft.events, result: true };
}

/** By its name a phase is meant, whichever case it is typed in. */
function refuseTwice(goal: string, phases: readonly PhaseInput[]): void {
  const names = phases.map(({ name }) => name.toLowerCase());
  const twice = phases.find((_, index) => names.indexOf(names[index] ?? "") < index);
  if (!twice) return;
  throw invalid(
    `goal ${goal}: phase ${quoteValue(twice.name)} is there twice`,
    "Give each phase a name of its own: tasks and moves ask for it by name.",
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
  const there = state.phases.find((each) => each.name.toLowerCase() === name);
  if (there) {
    throw invalid(
      `goal ${state.id} has a phase ${quoteValue(there.name)} already, its number ${there.number}`,
      "Add to that one, or give the new phase a name of its own: tasks and moves ask for it by name.",
      { goal: state.id, phase: there.name, number: there.number },
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
  const draft = new TaskDrafting(state);
  const ids = inputs.map((input) => draftTask(draft, by, input));
  return { events: draft.events, result: ids };
}

/** Drafts one task, and the first phase if there is none to put it into. Returns its id. */
export function draftTask(draft: TaskDrafting, by: Actor, input: TaskInput): string {
  if (draft.state.phases.length === 0 && input.phase === undefined) {
    draft.add({ type: "phase.added", data: { by, number: 1, name: FIRST_PHASE } });
  }
  const { state } = draft;
  const id = formatId("T", state.given.T + 1);
  const phase = input.phase === undefined ? draft.currentPhase() : phaseNumber(state, input.phase);
  // Its number is nobody's yet, and would be taken for a task that is there.
  const itself = `the new task ${quoteValue(input.title)}`;
  const content =
    input.kind === "review" ? withInitials(REVIEW, input) : withInitials(BUILD, { kind: "build", ...input });
  const data = { ...content, ...knownTasks(state, content, itself), phase, by, id };
  const { isBetween } = draft.addTask({ type: "task.added", data } as GoalDraft, id);
  if (isBetween) refuseCircle(draft.state, id);
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
  refuseCircle(draft.state, task.id);
  return { events: draft.events, result: task.id };
}

/** The fields of `content` that name tasks, by the names that these have now. */
function knownTasks(
  state: GoalState,
  content: Readonly<Record<string, unknown>>,
  from: string,
): Record<string, string[]> {
  const lists = NAMES_OF_TASKS.map((name) => [name, content[name]] as const);
  const given = lists.filter((each): each is readonly [string, string[]] => Array.isArray(each[1]));
  return Object.fromEntries(given.map(([name, ids]) => [name, ids.map((id) => knownTask(state, id, from))]));
}

function knownTask(state: GoalState, id: string, from: string): string {
  const task = findTask(state, id);
  if (task) return task.id;
  throw invalid(`${from} names ${quoteValue(id)}, which this goal does not have`, "Add that task first.", {
    goal: state.id,
    task: id,
  });
}

function refuseCircle(state: GoalState, id: string): void {
  const task = taskOf(state, id);
  if (!hasDependencyCycle(state, task)) return;
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

export function retry(state: GoalState, by: Actor, { task, why }: WhyInput): Act<string> {
  const { id } = taskOf(state, task);
  return { events: [{ type: "task.retried", data: { by, task: id, why } }], result: id };
}

export function drop(state: GoalState, by: Actor, { task, why }: WhyInput): Act<string> {
  const found = taskOf(state, task);
  const events: GoalDraft[] = [{ type: "task.dropped", data: { by, task: found.id, why } }];
  return { events: [...events, ...closingPhase(state, found, by)], result: found.id };
}

export function reopen(state: GoalState, by: Actor, { task, why }: WhyInput): Act<string> {
  const { id } = taskOf(state, task);
  return { events: [{ type: "task.reopened", data: { by, task: id, why } }], result: id };
}

export interface AliasInput {
  readonly alias: string;
  readonly task: string;
}

export function aliasTask(state: GoalState, by: Actor, input: AliasInput): Act<void> {
  const task = taskOf(state, input.task).id;
  return { events: [{ type: "task.aliased", data: { ...input, by, task } }], result: undefined };
}

/**
 * To another phase. The one that is left counts as complete if nothing in it is unfinished; one that never had a task can
 * be gone back to, and is open again then.
 */
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
  const leaving: GoalDraft[] = isLeftEmpty
    ? [{ type: "phase.completed", data: { by, phase: from.number } }]
    : [];
  return { events: [...leaving, { type: "phase.entered", data: { by, phase } }], result: phase };
}

export function completePhase(state: GoalState, by: Actor, which: number | string): Act<number> {
  const phase = phaseNumber(state, which);
  const left: Task[] = [...state.tasks.values()].filter((task) => task.phase === phase && !isFinished(task));
  if (left.length === 0) return { events: [{ type: "phase.completed", data: { by, phase } }], result: phase };
  const ids = left.map(({ id }) => id);
  throw new HoldfastError(
    "PHASE_UNFINISHED",
    `phase ${phase} has ${left.length} unfinished tasks: ${quoteValue(ids)}`,
    {
      hint: "Finish them, or drop those that are no longer wanted. A phase completes by itself with its last task.",
      data: { phase, tasks: ids },
    },
  );
}
