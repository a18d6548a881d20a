/** Renders `agent_state.json` and `task_board.json`. */

import type { Fact, GoalState, Survey, Task } from "../model/goal/index.ts";
import {
  ASSUMPTION,
  BUILD_TASK,
  compareTasks,
  displayStatus,
  FACT,
  FILE,
  goalStatus,
  KEY_IMPLEMENTATION,
  NEXT_ACTION,
  positionOf,
  progressOf,
  QUESTION,
  REVIEW_TASK,
  runStateOf,
  TASK_PLAN,
  TASK_WORK,
} from "../model/goal/index.ts";
import { layoutJson } from "../state-files/index.ts";
import { type Row, rowMaker, snakeRow } from "./record-rows.ts";
import { type SealedText, sealJson } from "./seal.ts";
import { isoTime, oneLine, optionalTime } from "./written-text.ts";

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

export function boardRevision(state: GoalState): number {
  let revision = state.phasesRevision;
  for (const task of state.tasks.values()) if (task.revision > revision) revision = task.revision;
  for (const blocker of state.blockers.values()) if (blocker.revision > revision) revision = blocker.revision;
  return revision;
}

/** Renders a board repeatedly. Tasks are immutable, so the text of an unchanged task is reused. */
export class TaskBoardText {
  private readonly texts = new WeakMap<Task, { blockedBy: string; text: string }>();

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
    const head = `  "phases": ${layoutJson(phases, 1)},\n  "aliases": ${layoutJson(aliases, 1)},\n`;
    const rest = `${head}  "tasks": ${list}\n}\n`;
    return sealJson(state.id, TASK_BOARD_VERSION, boardRevision(state), rest);
  }

  private taskText(task: Task, blockers: readonly string[]): string {
    const blockedBy = blockers.join();
    const known = this.texts.get(task);
    if (known?.blockedBy === blockedBy) return known.text;
    const row = taskRow(task, blockers);
    const text = layoutJson(row, 2);
    this.texts.set(task, { blockedBy, text });
    this.fresh.push(row);
    return text;
  }
}

export const AGENT_STATE_VERSION = 2;
const DECISION_CHARACTERS = 200;

const factRow = rowMaker(FACT, { sparse: true });
const fileRow = rowMaker(FILE, { sparse: true });
const implementationRow = rowMaker(KEY_IMPLEMENTATION);
const nextRow = rowMaker(NEXT_ACTION);
const assumptionRow = rowMaker(ASSUMPTION, { sparse: true });
const questionRow = rowMaker(QUESTION, { sparse: true });

/** Everything but the seal. Independent of the clock: an expired fact is shown with its expiry. */
export function agentStateRows(state: GoalState, survey: Survey): Record<string, unknown> {
  const run = runStateOf(state, Number.NEGATIVE_INFINITY, survey);
  const position = positionOf(state, survey);
  const { counters, next, checkpoint, ttlMs, verification, maxAttempts } = state;
  return {
    title: state.title,
    original_goal: state.statement,
    status: goalStatus(survey),
    created_at: isoTime(state.createdAt),
    updated_at: isoTime(state.updatedAt),
    last_human_touch: optionalTime(state.humanAt),
    settings: snakeRow({ ttlMs, verification, maxAttempts }),
    current_phase: run.currentPhase,
    focus: state.focus,
    position: snakeRow(position),
    progress: snakeRow(progressOf(state, survey)),
    active_task_id: position.task,
    next_action: next && nextRow(next),
    completed_tasks: run.completedTasks,
    failed_tasks: run.failedTasks,
    remaining_tasks: run.remainingTasks,
    confirmed_facts: factRows(state.facts.values()),
    decisions_made: currentDecisions(state),
    risks: [...state.blockers.values()].filter(({ status }) => status !== "resolved").map(({ id }) => id),
    questions: [...state.questions.values()].map(questionRow),
    assumptions: [...state.assumptions.values()].map(assumptionRow),
    key_implementations: state.implementations.map(implementationRow),
    files_examined: run.filesExamined,
    files: [...state.files.values()].sort((a, b) => (a.path < b.path ? -1 : 1)).map(fileRow),
    iteration_count: run.iterationCount,
    error_count: run.errorCount,
    last_successful_op: run.lastSuccessfulOp,
    last_success: counters.lastSuccess && { ...counters.lastSuccess, at: isoTime(counters.lastSuccess.at) },
    checkpoint: checkpoint && { ...checkpoint, at: isoTime(checkpoint.at) },
    numbers_given: { ...state.given },
  };
}

export function renderAgentState(state: GoalState, seq: number, rows: Record<string, unknown>): SealedText {
  const rest = layoutJson(rows).replace(/^\{\n/, "");
  return sealJson(state.id, AGENT_STATE_VERSION, seq, `${rest}\n`);
}

function currentDecisions(state: GoalState): string[] {
  return [...state.decisions.values()]
    .filter(({ supersededBy }) => supersededBy === null)
    .map(({ id, decision }) => `${id} ${oneLine(decision, DECISION_CHARACTERS)}`);
}

/** Sorted by key, so that a fact that is confirmed again changes its own lines only. */
function factRows(facts: Iterable<Fact>): Record<string, unknown> {
  const sorted = [...facts].sort((a, b) => (a.key < b.key ? -1 : 1));
  return Object.fromEntries(sorted.map((fact) => [fact.key, factRow(fact)]));
}
