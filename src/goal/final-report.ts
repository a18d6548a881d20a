import {
  type GoalState,
  type Progress,
  progressOf,
  type RunState,
  runStateOf,
  surveyGoal,
} from "../model/goal/index.ts";
import { exactAge } from "../model/time.ts";
import { quoted } from "./briefing.ts";

/**
 * `done`: every phase is completed. `waiting`: others have to verify or finish something. `blocked`: a person has to
 * help. `failed`: tasks failed for good and nothing else is left. `unplanned`: there are no tasks left, but phases.
 * `stopped`: the caller asked to stop.
 */
export type RunStatus = "done" | "waiting" | "blocked" | "failed" | "unplanned" | "stopped";

/** How a run ended and where it left the goal, for programs and, as `text`, for people. */
export interface FinalReport {
  readonly status: RunStatus;
  readonly why: string;
  readonly goal: string;
  readonly session: string;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Attempts that this run made; earlier runs are in the state's own counts. */
  readonly attempts: number;
  readonly progress: Progress;
  readonly state: RunState;
  readonly blockers: readonly { readonly id: string; readonly description: string }[];
  /** The same for people. */
  readonly text: string;
}

export interface RunFacts {
  readonly status: RunStatus;
  readonly why: string;
  readonly session: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attempts: number;
}

export function finalReport(state: GoalState, facts: RunFacts): FinalReport {
  const survey = surveyGoal(state);
  const run = runStateOf(state, facts.endedAt, survey);
  const progress = progressOf(state, survey);
  const active = [...state.blockers.values()].filter(({ status }) => status === "active");
  const blockers = active.map(({ id, description }) => ({ id, description }));
  const lines = [
    `${state.id}: ${facts.status}, ${facts.why}`,
    `${progress.bar}  ${progress.tasksCompleted}/${progress.tasksTotal} tasks, ${progress.phasesCompleted}/${progress.phasesTotal} phases`,
    `${facts.attempts} attempts in ${exactAge(facts.endedAt - facts.startedAt)}, ${run.errorCount} errors in all`,
    ...run.failedTasks.map(({ task, error, retryable }) => {
      return `failed ${task}${retryable ? " (can be retried)" : ""}: ${quoted(error, 50)}`;
    }),
    ...blockers.map(({ id, description }) => `blocked ${id}: ${quoted(description, 50)}`),
    ...(run.remainingTasks.length > 0 ? [`remaining ${run.remainingTasks.join(", ")}`] : []),
  ];
  return { ...facts, goal: state.id, progress, state: run, blockers, text: `${lines.join("\n")}\n` };
}
