import type { Json } from "../json.ts";
import { type GoalState, taskOf } from "./goal-state.ts";
import { confirmedFacts } from "./notes.ts";
import { compareTasks, type Survey, surveyGoal } from "./survey.ts";

/** A goal in the words of structured run state: every task is in exactly one of the three lists, or was dropped. */
export interface RunState {
  readonly runId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly originalGoal: string;
  readonly currentPhase: string | null;
  readonly completedTasks: readonly string[];
  readonly failedTasks: readonly {
    readonly task: string;
    readonly error: string;
    readonly retryable: boolean;
  }[];
  readonly remainingTasks: readonly string[];
  readonly confirmedFacts: Readonly<Record<string, Json>>;
  readonly decisionsMade: readonly string[];
  readonly filesExamined: readonly string[];
  readonly iterationCount: number;
  readonly errorCount: number;
  readonly lastSuccessfulOp: string | null;
}

/** `now` decides which facts have expired. */
export function runStateOf(state: GoalState, now: number, survey: Survey = surveyGoal(state)): RunState {
  const tasks = [...state.tasks.values()].sort(compareTasks);
  const failed = tasks.filter(({ status }) => status === "failed");
  const isRemaining = (status: string): boolean => !["done", "failed", "dropped"].includes(status);
  const facts = confirmedFacts(state.facts.values(), now).map(({ key, value }) => [key, value] as const);
  const current = [...state.decisions.values()].filter(({ supersededBy }) => supersededBy === null);
  return {
    runId: state.id,
    createdAt: state.createdAt,
    updatedAt: state.updatedAt,
    originalGoal: state.statement,
    currentPhase: survey.current?.name ?? null,
    completedTasks: tasks.filter(({ status }) => status === "done").map(({ id }) => id),
    failedTasks: failed.map(({ id, failure }) => ({
      task: id,
      error: failure?.error ?? "",
      retryable: failure?.retryable ?? false,
    })),
    remainingTasks: tasks.filter(({ status }) => isRemaining(status)).map(({ id }) => id),
    confirmedFacts: Object.fromEntries(facts),
    decisionsMade: current.map(({ decision }) => decision),
    filesExamined: [...state.files.keys()].sort(),
    iterationCount: state.counters.iterations,
    errorCount: state.counters.errors,
    lastSuccessfulOp: state.counters.lastSuccess?.operation ?? null,
  };
}

/** What to do next: what somebody said, as long as that is still to be done, else the first task that is ready. */
export function nextTaskOf(state: GoalState, survey: Survey = surveyGoal(state)): string | null {
  const said = state.next?.task ?? null;
  if (said !== null && survey.movable.has(taskOf(state, said).id)) return taskOf(state, said).id;
  return survey.ready[0]?.id ?? null;
}
