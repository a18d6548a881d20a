/**
 * An act: the decision of one operation on a goal. It is a pure function of the state, and runs again after
 * another writer was faster. All events of an act are one commit. If they build on each other, a `DraftBatch`
 * applies each to a branch of the state, so that the next one sees its effect.
 */

import type { Decision } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Actor, GoalDraft, GoalState, Task } from "../model/goal/index.ts";
import {
  branchGoal,
  entryUid,
  findTask,
  goalKind,
  isFinished,
  madeName,
  nextId,
  refsOf,
  tick,
} from "../model/goal/index.ts";
import { copyJson, type Json } from "../model/json.ts";
import { quoteValue } from "../model/names.ts";
import { applyEvent, makeEvent } from "../model/stream/index.ts";

export interface Act<Result> extends Decision<Result> {
  readonly events: readonly GoalDraft[];
}

export class DraftBatch {
  readonly state: GoalState;
  readonly events: GoalDraft[] = [];

  constructor(state: GoalState) {
    this.state = branchGoal(state);
  }

  add(draft: GoalDraft): void {
    const { updatedAt } = this.state;
    applyEvent(goalKind, this.state, makeEvent(goalKind, draft, updatedAt), 0);
    this.events.push(draft);
  }
}

interface Stamp {
  readonly goal: string;
  readonly by: Actor;
  readonly at: number;
  /** Marks the events as notes of a hook. */
  readonly observed?: boolean;
  /** The clone that writes them; null outside a project. */
  readonly clone: string | null;
}

/**
 * Gives every event the uid by which all copies of the goal know it, and every verdict the uid of the
 * submission it judges. A merge may renumber items in memory; the first write after it records the new ids.
 * A uid is a hash of the whole entry, so the time of the events is decided here.
 */
export function stamped<Result>(state: GoalState, act: Act<Result>, stamp: Stamp): Act<Result> {
  if (act.events.length === 0) return act;
  const { by, at, observed = false, clone } = stamp;
  const renumbered: GoalDraft[] = state.unsettled.map(({ uid, name }) => {
    return { type: "item.renumbered", data: { by, item: uid, name } };
  });
  const submitted = new Map<string, string>();
  const made = new Map<string, string>();
  const aliases = new Map<string, string>();
  const uidOf = (name: string): string | undefined => made.get(name) ?? state.names.get(name);
  const uidOfItem = (name: string): string | undefined =>
    uidOf(name) ?? uidOf(aliases.get(name) ?? state.aliases.get(name) ?? "");
  let { clock } = state;
  const events = [...renumbered, ...act.events].map(({ type, data: given }) => {
    const task = "task" in given ? String(given.task) : "";
    const isVerdict = type === "task.accepted" || type === "task.rejected";
    const submission = isVerdict ? (submitted.get(task) ?? findTask(state, task)?.submission?.uid) : null;
    const marks = { ...(observed && { observed: true }), ...(clone !== null && { clone }) };
    const whole = { ...given, ...(submission && { submission }), ...marks };
    const data = copyJson(whole, `event ${type}`) as Readonly<Record<string, Json>>;
    clock = tick(clock, at);
    const refs = refsOf(data, uidOfItem);
    const uid = entryUid(stamp.goal, { ...clock, type, v: goalKind.events[type].version, at, refs, data });
    const name = madeName(type, data);
    if (name !== null) made.set(name, uid);
    if (type === "task.aliased") aliases.set(String(data["alias"]), task);
    if (type === "task.submitted") submitted.set(task, uid);
    return { type, data: { ...data, uid } } as unknown as GoalDraft;
  });
  return { ...act, events, at };
}

export function nextItemId({ given, names, aliases }: GoalState, series: keyof GoalState["given"]): string {
  return nextId(series, given[series], (id) => names.has(id) || aliases.has(id));
}

export function closingPhase(state: GoalState, task: Task, by: Actor): GoalDraft[] {
  for (const other of state.tasks.values()) {
    if (other.phase === task.phase && other.id !== task.id && !isFinished(other)) return [];
  }
  return [{ type: "phase.completed", data: { by, phase: task.phase } }];
}

export function phaseNumber(state: GoalState, phase: number | string): number {
  const name = String(phase).toLowerCase();
  const found = state.phases.find((each) => each.number === phase || each.name.toLowerCase() === name);
  if (found) return found.number;
  const phases = state.phases.map((each) => `${each.number} ${each.name}`).join(", ");
  throw new HoldfastError("GOAL_ITEM_NOT_FOUND", `goal ${state.id} has no phase ${quoteValue(phase)}`, {
    hint: `Its phases: ${phases || "none yet"}.`,
    data: { goal: state.id, what: "phase", id: phase },
  });
}

export function invalid(message: string, hint: string, data: object = {}): HoldfastError {
  return new HoldfastError("INPUT_INVALID", message, { hint, data: { ...data } });
}
