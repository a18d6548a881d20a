/**
 * An act: the decision of one operation on a goal. It is a pure function of the state, and runs again after
 * another writer was faster. All events of an act are one commit. If they build on each other, a `DraftBatch`
 * applies each to a branch of the state, so that the next one sees its effect.
 */

import { randomBytes } from "node:crypto";
import type { Decision } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Actor, GoalDraft, GoalState, Task } from "../model/goal/index.ts";
import { branchGoal, findTask, goalKind, isFinished } from "../model/goal/index.ts";
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

/**
 * Gives every event the uid by which all copies of the goal know it, and every verdict the uid of the
 * submission it judges. A merge may renumber items in memory; the first write after it records
 * the new ids. `observed` marks all of them as notes of a hook.
 */
export function stamped<Result>(
  state: GoalState,
  by: Actor,
  act: Act<Result>,
  observed = false,
): Act<Result> {
  if (act.events.length === 0) return act;
  const renumbered: GoalDraft[] = state.unsettled.map(({ uid, name }) => {
    return { type: "item.renumbered", data: { by, item: uid, name } };
  });
  const submitted = new Map<string, string>();
  const events = [...renumbered, ...act.events].map((draft) => {
    const stamp = { uid: randomBytes(10).toString("hex"), ...(observed && { observed: true as const }) };
    if (draft.type === "task.submitted") submitted.set(draft.data.task, stamp.uid);
    if (draft.type !== "task.accepted" && draft.type !== "task.rejected")
      return { ...draft, data: { ...draft.data, ...stamp } } as GoalDraft;
    const { task } = draft.data;
    const submission = submitted.get(task) ?? findTask(state, task)?.submission?.uid;
    return { ...draft, data: { ...draft.data, ...(submission && { submission }), ...stamp } };
  });
  return { ...act, events };
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
