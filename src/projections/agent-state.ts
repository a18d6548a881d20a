/** `agent_state.json`: what the next agent has to know, in the words of structured run state. */

import {
  FACT,
  type Fact,
  FILE,
  type GoalState,
  goalStatus,
  KEY_IMPLEMENTATION,
  NEXT_ACTION,
  positionOf,
  progressOf,
  QUESTION,
  runStateOf,
  type Survey,
} from "../model/goal/index.ts";
import { layoutJson } from "../state-files/index.ts";
import { rowMaker } from "./record-rows.ts";
import { type SealedText, sealJson } from "./seal.ts";
import { isoTime, oneLine, optionalTime } from "./written-text.ts";

export const AGENT_STATE_VERSION = 2;
const DECISION_CHARACTERS = 200;

const factRow = rowMaker(FACT, { sparse: true });
const fileRow = rowMaker(FILE, { sparse: true });
const implementationRow = rowMaker(KEY_IMPLEMENTATION);
const nextRow = rowMaker(NEXT_ACTION);
const questionRow = rowMaker(QUESTION, { sparse: true });

/** Everything but the seal. Nothing here depends on the clock: an expired fact is shown with its expiry. */
export function agentStateRows(state: GoalState, survey: Survey): Record<string, unknown> {
  const run = runStateOf(state, Number.NEGATIVE_INFINITY, survey);
  const position = positionOf(state, survey);
  const progress = progressOf(state, survey);
  const { counters, next, checkpoint } = state;
  return {
    title: state.title,
    original_goal: state.statement,
    status: goalStatus(survey),
    created_at: isoTime(state.createdAt),
    updated_at: isoTime(state.updatedAt),
    last_human_touch: optionalTime(state.humanAt),
    settings: {
      ttl_ms: state.ttlMs,
      verification: state.verification,
      max_attempts: state.maxAttempts,
    },
    current_phase: run.currentPhase,
    focus: state.focus,
    position: {
      phase: position.phase,
      phase_name: position.phaseName,
      plan: position.plan,
      plan_name: position.planName,
      task: position.task,
      task_title: position.taskTitle,
      wave: position.wave,
      status: position.status,
    },
    progress: {
      phases_total: progress.phasesTotal,
      phases_completed: progress.phasesCompleted,
      current_phase_tasks: progress.currentPhaseTasks,
      current_phase_completed: progress.currentPhaseCompleted,
      tasks_total: progress.tasksTotal,
      tasks_completed: progress.tasksCompleted,
      percent: progress.percent,
      bar: progress.bar,
    },
    active_task_id: position.task,
    next_action: next && nextRow(next),
    completed_tasks: run.completedTasks,
    failed_tasks: run.failedTasks,
    remaining_tasks: run.remainingTasks,
    confirmed_facts: factRows(state.facts.values()),
    decisions_made: currentDecisions(state),
    risks: [...state.blockers.values()].filter(({ status }) => status !== "resolved").map(({ id }) => id),
    questions: [...state.questions.values()].map(questionRow),
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

/** By key, so that a fact that is confirmed again changes its own lines only. */
function factRows(facts: Iterable<Fact>): Record<string, unknown> {
  const sorted = [...facts].sort((a, b) => (a.key < b.key ? -1 : 1));
  return Object.fromEntries(sorted.map((fact) => [fact.key, factRow(fact)]));
}
