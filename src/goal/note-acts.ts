/** Acts on the records of a goal: decisions, blockers, facts, files, questions, assumptions, errors. */

import type { Actor, FACT, FileAct, GoalDraft, GoalState, InputOf, Task } from "../model/goal/index.ts";
import {
  assumptionOf,
  blockedTasks,
  blockerOf,
  checkResolving,
  DECISION,
  decisionOf,
  findTask,
  questionOf,
  taskOf,
  withInitials,
} from "../model/goal/index.ts";
import { quoteValue } from "../model/names.ts";
import { type Act, DraftBatch, invalid, nextItemId, phaseNumber } from "./act.ts";
import { type ClaimProof, release } from "./claim-acts.ts";
import { draftTask, TaskBatch, type TaskInput } from "./planning-acts.ts";

/**
 * A decision with its reason.
 *
 * @example
 * const session = { type: "technology", context: "session store", decision: "use Redis" } as const;
 * await goal.decide({ ...session, reason: "sessions must expire by themselves" });
 */
export interface DecisionInput extends Omit<InputOf<typeof DECISION>, "date"> {
  /** Calendar day, `2024-01-15`; by default today. */
  readonly date?: string;
}

export function decide(
  state: GoalState,
  by: Actor,
  input: DecisionInput,
  today: string,
  supersedes: string | null,
): Act<string> {
  const id = nextItemId(state, "D");
  const replaced = supersedes === null ? null : decisionOf(state, supersedes);
  if (replaced && replaced.supersededBy !== null) {
    const { id: old, supersededBy: now } = replaced;
    throw invalid(`decision ${old} is already superseded by ${now}`, `Supersede ${now} instead.`);
  }
  const content = withInitials(DECISION, { ...input, date: input.date ?? today });
  const data = { ...content, by, id, supersedes: replaced?.id ?? null } as GoalDraft<"decision.made">["data"];
  return { events: [{ type: "decision.made", data }], result: id };
}

/** Example: `{ description: "no API key", affects: { tasks: ["T-014"] } }`. */
export interface BlockerInput {
  readonly description: string;
  /** Tasks by id, phases by number or name, the whole goal; or a list of names: `["T-014", "phase 3"]`. */
  readonly affects:
    | readonly string[]
    | {
        readonly tasks?: readonly string[];
        readonly phases?: readonly (number | string)[];
        readonly goal?: boolean;
        readonly other?: readonly string[];
      };
  /** The way around it for now, e.g. `"email sign-in first"`. The blocker still blocks what it affects. */
  readonly workaround?: string | null;
  /** False: only reported; it blocks nothing until `identify`. By default true. */
  readonly identified?: boolean;
}

export function block(state: GoalState, by: Actor, input: BlockerInput): Act<string> {
  const { affects, identified = true, ...rest } = input;
  const id = nextItemId(state, "B");
  const data = { ...rest, by, id, affects: resolveAffects(state, affects) };
  const events: GoalDraft[] = [{ type: "blocker.reported", data } as GoalDraft<"blocker.reported">];
  if (identified) events.push({ type: "blocker.identified", data: { by, blocker: id } });
  return { events, result: id };
}

export function blockClaim(
  state: GoalState,
  by: Actor,
  proof: ClaimProof,
  description: string,
): Act<{ task: Task; blocker: string }> {
  const released = release(state, by, proof, `blocked: ${description}`.slice(0, 1_000));
  const task = released.result;
  const blocked = block(state, by, { description, affects: { tasks: [task.id] } });
  const events = [...released.events, ...blocked.events];
  return { ...released, events, result: { task, blocker: blocked.result } };
}

function resolveAffects(state: GoalState, affects: BlockerInput["affects"]): Record<string, unknown> {
  if (Array.isArray(affects)) return resolveNames(state, affects as readonly string[]);
  const named = affects as Exclude<typeof affects, readonly string[]>;
  const { tasks = [], phases = [], goal = false, other = [], ...unknown } = named;
  return {
    ...unknown,
    goal,
    other,
    tasks: tasks.map((id) => taskOf(state, id).id),
    phases: phases.map((phase) => phaseNumber(state, phase)),
  };
}

/** `T-014`, `Phase 3: OAuth Integration`, `phase 3`, the name of a phase, `goal`; others block nothing. */
function resolveNames(state: GoalState, names: readonly string[]): Record<string, unknown> {
  const found = { tasks: [] as string[], phases: [] as number[], goal: false, other: [] as string[] };
  for (const name of names) {
    const task = findTask(state, name);
    const number = Number(/^phase (\d+)\b/i.exec(name)?.[1]);
    const phase = state.phases.find(
      (each) => each.number === number || each.name.toLowerCase() === name.toLowerCase(),
    );
    if (task) found.tasks.push(task.id);
    else if (phase) found.phases.push(phase.number);
    else if (name === "goal") found.goal = true;
    else found.other.push(name);
  }
  return found;
}

export function identify(state: GoalState, by: Actor, blocker: string): Act<string> {
  const { id } = blockerOf(state, blocker);
  return { events: [{ type: "blocker.identified", data: { by, blocker: id } }], result: id };
}

/** Example: `{ blocker: "B-001", workaround: "mock the API", followUps: [{ title: "Remove the mock" }] }`. */
export interface BypassInput {
  readonly blocker: string;
  readonly workaround: string;
  readonly followUps?: readonly TaskInput[];
}

export function bypass(state: GoalState, by: Actor, input: BypassInput): Act<string> {
  const { id } = blockerOf(state, input.blocker);
  const draft = new TaskBatch(state);
  const followUps = (input.followUps ?? []).map((task) => draftTask(draft, by, task));
  draft.add({ type: "blocker.bypassed", data: { ...input, by, blocker: id, followUps } });
  return { events: draft.events, result: id };
}

export interface Resolved {
  readonly blocker: string;
  readonly unblocked: readonly string[];
}

export function resolve(
  state: GoalState,
  by: Actor,
  input: { blocker: string; resolution: string },
): Act<Resolved> {
  const blocker = blockerOf(state, input.blocker);
  checkResolving(by, blocker);
  const draft = new DraftBatch(state);
  draft.add({ type: "blocker.resolved", data: { ...input, by, blocker: blocker.id } });
  const after = blockedTasks(draft.state);
  const unblocked = [...blockedTasks(state).keys()].filter((id) => !after.has(id));
  return { events: draft.events, result: { blocker: blocker.id, unblocked } };
}

/** Example: `{ key: "db", value: "postgres 16", source: "docker-compose.yml" }`. */
export interface FactInput extends InputOf<typeof FACT> {}

export function fact(_state: GoalState, by: Actor, input: FactInput): Act<void> {
  return { events: [{ type: "fact.set", data: { expiresAt: null, ...input, by } }], result: undefined };
}

export function forget(state: GoalState, by: Actor, input: { key: string; why: string }): Act<void> {
  if (!state.facts.has(input.key)) {
    const message = `goal ${state.id} has no fact ${quoteValue(input.key)}`;
    throw invalid(message, "List the facts to see their keys.");
  }
  return { events: [{ type: "fact.forgotten", data: { ...input, by } }], result: undefined };
}

export interface FilesInput<File = { path: string; hash: string | null; act: FileAct }> {
  readonly files: readonly File[];
  readonly task?: string | null;
  readonly session?: string | null;
}

export function recordFiles(state: GoalState, by: Actor, input: FilesInput): Act<void> {
  const task = input.task ? taskOf(state, input.task).id : null;
  const data = { session: null, ...input, by, task } as GoalDraft<"files.recorded">["data"];
  return { events: [{ type: "files.recorded", data }], result: undefined };
}

export interface ImplementationInput {
  readonly text: string;
  readonly files?: readonly string[];
}

export function implementation(_state: GoalState, by: Actor, input: ImplementationInput): Act<void> {
  const data = { files: [], ...input, by } as GoalDraft<"implementation.noted">["data"];
  return { events: [{ type: "implementation.noted", data }], result: undefined };
}

export interface ErrorInput {
  readonly message: string;
  readonly task?: string | null;
}

export function ask(state: GoalState, by: Actor, text: string): Act<string> {
  const id = nextItemId(state, "Q");
  return { events: [{ type: "question.asked", data: { by, id, text } }], result: id };
}

export function answer(state: GoalState, by: Actor, input: { question: string; answer: string }): Act<void> {
  const question = questionOf(state, input.question);
  if (question.answer !== null) {
    throw invalid(`question ${question.id} is already answered`, "Ask a new question, or record a decision.");
  }
  return { events: [{ type: "question.answered", data: { ...input, by } }], result: undefined };
}

export function assume(state: GoalState, by: Actor, text: string): Act<string> {
  const id = nextItemId(state, "A");
  return { events: [{ type: "assumption.made", data: { by, id, text } }], result: id };
}

/** The end of an assumption: `{ assumption: "A-001", status: "refuted", evidence: "12.5 came back" }`. */
export interface SettlingInput {
  readonly assumption: string;
  readonly status: "confirmed" | "refuted";
  readonly evidence: string;
}

/** A confirmed assumption may be refuted later, and the other way round. */
export function settle(state: GoalState, by: Actor, input: SettlingInput): Act<void> {
  const { id, status } = assumptionOf(state, input.assumption);
  if (status === input.status)
    throw invalid(`assumption ${id} is already ${status}`, "Record a new assumption, or a fact.");
  return {
    events: [{ type: "assumption.settled", data: { ...input, assumption: id, by } }],
    result: undefined,
  };
}

export function recordError(state: GoalState, by: Actor, input: ErrorInput): Act<void> {
  const task = input.task ? taskOf(state, input.task).id : null;
  return { events: [{ type: "error.recorded", data: { ...input, by, task } }], result: undefined };
}
