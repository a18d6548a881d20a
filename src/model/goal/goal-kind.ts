/**
 * Goals as a kind of stream.
 *
 * What lists and views show is found by applying the events to a branch of the state before they are appended. An
 * event that the tables of transitions refuse therefore throws here, while nothing is durable yet.
 */

import type { DraftOf, Event, FacetChange, StreamKind } from "../event.ts";
import { applyEvent } from "../event.ts";
import type { Item, StreamFacets } from "../facets.ts";
import { type GoalEvents, goalEvents } from "./goal-events.ts";
import { goalFold } from "./goal-fold.ts";
import { branchGoal, encodeGoal, type GoalState } from "./goal-state.ts";
import { blockedTasks, shownStatus, surveyGoal } from "./survey.ts";
import type { ShownStatus, Task } from "./task.ts";

/** Any event before it is written, or that of one type. */
export type GoalDraft<Type extends keyof GoalEvents = keyof GoalEvents> = Extract<
  DraftOf<GoalEvents>,
  { readonly type: Type }
>;

export const goalKind: StreamKind<GoalState, GoalEvents> = {
  ...goalFold,
  events: goalEvents,
  encode: encodeGoal,
  facets: goalFacets,
};

export type GoalStatus = "active" | "blocked" | "done";

export function goalStatus(survey: { isDone: boolean; impact: { escalate: boolean } }): GoalStatus {
  if (survey.isDone) return "done";
  return survey.impact.escalate ? "blocked" : "active";
}

const NAME_LIMIT = 200;

function goalFacets(state: GoalState, events: readonly Event[], firstSeq: number): FacetChange {
  const next = branchGoal(state);
  events.forEach((each, index) => {
    applyEvent(goalKind, next, each, firstSeq + index);
  });
  const facets: { -readonly [Key in keyof StreamFacets]: StreamFacets[Key] } = {
    expiresAt: next.ttlMs === null ? null : next.updatedAt + next.ttlMs,
  };
  const title = next.title ?? next.statement;
  if (state.id === "" || title !== (state.title ?? state.statement)) facets.title = short(title);
  // Only these change what is blocked or done; a fact or a note leaves the tasks alone.
  const movesWork = events.some(({ type }) => /^(goal|phase|task|blocker)\./.test(type));
  if (!movesWork) return { facets, items: changedItems(state, next, new Map()) };
  const survey = surveyGoal(next);
  facets.status = goalStatus(survey);
  const statuses = new Map<string, ShownStatus>();
  const before = blockedTasks(state);
  for (const task of next.tasks.values()) {
    const shown = shownStatus(task, survey.blockedBy.has(task.id));
    const old = state.tasks.get(task.id);
    const wasShown = old && shownStatus(old, before.has(task.id));
    if (old !== task || shown !== wasShown) statuses.set(task.id, shown);
  }
  return { facets, items: changedItems(state, next, statuses) };
}

function changedItems(state: GoalState, next: GoalState, statuses: ReadonlyMap<string, ShownStatus>): Item[] {
  const items: Item[] = [];
  for (const [id, status] of statuses) {
    const task = next.tasks.get(id);
    if (task) items.push(taskItem(task, status));
  }
  for (const row of changed(state.decisions, next.decisions)) {
    const isCurrent = row.supersededBy === null;
    items.push({
      kind: "decision",
      id: row.id,
      name: short(row.decision),
      status: isCurrent ? "current" : "superseded",
      seq: row.seq,
      at: row.at,
      doneAt: isCurrent ? null : next.updatedAt,
    });
  }
  for (const row of changed(state.blockers, next.blockers)) {
    const { id, status, seq, reportedAt, resolvedAt } = row;
    items.push({
      kind: "blocker",
      id,
      name: short(row.description),
      status,
      seq,
      at: reportedAt,
      doneAt: resolvedAt,
    });
  }
  for (const row of changed(state.history, next.history)) {
    const { id, status, seq, startedAt, endedAt } = row;
    items.push({ kind: "history", id, name: short(row.agent), status, seq, at: startedAt, doneAt: endedAt });
  }
  return items;
}

/** `key` says where it stands: phase, plan and wave. */
function taskItem(task: Task, status: ShownStatus): Item {
  const { id, seq, endSeq, createdAt, doneAt, phase, plan, wave } = task;
  const key = `${phase}.${plan ?? "-"}.${wave}`;
  const end = endSeq === null ? {} : { endSeq };
  return { kind: "task", id, name: short(task.title), status, key, seq, at: createdAt, doneAt, ...end };
}

function* changed<Row>(old: ReadonlyMap<string, Row>, now: ReadonlyMap<string, Row>): Generator<Row> {
  for (const [id, row] of now) if (old.get(id) !== row) yield row;
}

function short(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > NAME_LIMIT ? `${line.slice(0, NAME_LIMIT - 1)}…` : line;
}
