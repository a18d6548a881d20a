/** `task_board.json`: every task of the goal, in the order in which they are done. */

import {
  BUILD_TASK,
  compareTasks,
  displayStatus,
  type GoalState,
  REVIEW_TASK,
  type Survey,
  TASK_PLAN,
  TASK_WORK,
  type Task,
} from "../model/goal/index.ts";
import { layoutJson } from "../state-files/index.ts";
import { type Row, rowMaker } from "./record-rows.ts";
import { type SealedText, sealJson } from "./seal.ts";
import { isoTime } from "./written-text.ts";

export const TASK_BOARD_VERSION = 1;

const planRow = rowMaker(TASK_PLAN, { sparse: true });
const ownRow = { build: rowMaker(BUILD_TASK), review: rowMaker(REVIEW_TASK) };
const workRow = rowMaker(TASK_WORK, { sparse: true });

function taskRow(task: Task, blockers: readonly string[]): Row {
  const { id, kind } = task;
  const blockedBy = blockers.length > 0 ? blockers : null;
  const status = displayStatus(task, blockedBy !== null);
  const ownStatus = status === task.status ? null : task.status;
  const plan = planRow({ ...task, status, ownStatus, blockedBy });
  return { id, kind, ...plan, ...ownRow[kind](task), ...workRow(task) };
}

interface TaskText {
  readonly blockedBy: string;
  readonly text: string;
  readonly row: Row;
}

/** The last event that changed anything on the board: a task, a phase, or what a blocker blocks. */
export function boardRevision(state: GoalState): number {
  let revision = state.phasesRevision;
  for (const task of state.tasks.values()) if (task.revision > revision) revision = task.revision;
  for (const blocker of state.blockers.values()) if (blocker.revision > revision) revision = blocker.revision;
  return revision;
}

/**
 * Renders boards one after another. Tasks are immutable records, so the text of one that did not change is kept: an
 * update of a large board costs what changed and the joining of its lines.
 */
export class TaskBoardText {
  private readonly texts = new WeakMap<Task, TaskText>();

  /** The rows that have not been rendered before, for a check before they are written. */
  readonly fresh: Row[] = [];

  render(state: GoalState, survey: Survey): SealedText {
    const phases = state.phases.map(({ number, name, plans, closedAt }) => ({
      number,
      name,
      plans: plans.map((plan) => ({ number: plan.number, name: plan.name })),
      ...(closedAt !== null && { closed_at: isoTime(closedAt) }),
    }));
    const aliases = Object.fromEntries([...state.aliases].sort(([a], [b]) => (a < b ? -1 : 1)));
    const rows = [...state.tasks.values()].sort(compareTasks);
    const tasks = rows.map((task) => this.taskText(task, survey.blockedBy.get(task.id) ?? []));
    const list = tasks.length === 0 ? "[]" : `[\n    ${tasks.join(",\n    ")}\n  ]`;
    const rest = `  "phases": ${layoutJson(phases, 1)},\n  "aliases": ${layoutJson(aliases, 1)},\n  "tasks": ${list}\n}\n`;
    return sealJson(state.id, TASK_BOARD_VERSION, boardRevision(state), rest);
  }

  private taskText(task: Task, blockers: readonly string[]): string {
    const blockedBy = blockers.join();
    const known = this.texts.get(task);
    if (known?.blockedBy === blockedBy) return known.text;
    const row = taskRow(task, blockers);
    const text = layoutJson(row, 2);
    this.texts.set(task, { blockedBy, text, row });
    this.fresh.push(row);
    return text;
  }
}
