import {
  activeBlockers,
  type GoalState,
  isFailedForGood,
  nextTaskOf,
  surveyGoal,
  type Task,
} from "../model/goal/index.ts";

export interface NextTasks {
  /** Tasks to claim now, best first. */
  readonly tasks: readonly Task[];
  /**
   * `waiting`: others work on what comes first, or a verifier has to look. `blocked`: nothing can move, a person
   * has to help. `stuck`: failed tasks are in the way. `unplanned`: there is nothing to do yet.
   */
  readonly outlook: "ready" | "waiting" | "blocked" | "stuck" | "unplanned" | "done";
  /** One sentence for whoever asked. */
  readonly why: string;
}

const SHOWN = 5;

export function nextTasks(state: GoalState): NextTasks {
  const survey = surveyGoal(state);
  if (survey.ready.length > 0) {
    const first = nextTaskOf(state, survey);
    const rank = (task: Task): number => Number(task.id !== first);
    const tasks = [...survey.ready].sort((a, b) => rank(a) - rank(b));
    return { tasks, outlook: "ready", why: `${tasks.length} ready in phase ${survey.current?.name}` };
  }
  const all = [...state.tasks.values()];
  const nothing = (outlook: NextTasks["outlook"], why: string): NextTasks => ({ tasks: [], outlook, why });
  if (survey.isDone) return nothing("done", "every phase is completed");
  if (survey.impact.escalate) {
    const named = new Set([...survey.blockedBy.values()].flat());
    // Where there are no tasks yet, a blocker names none and is the reason all the same.
    const blockers = named.size > 0 ? named : new Set(activeBlockers(state).map(({ id }) => id));
    return nothing(
      "blocked",
      `nothing can move: ${names([...blockers])} ${blockers.size === 1 ? "is" : "are"} active`,
    );
  }
  const working = all
    .filter(({ status }) => status === "in_progress")
    .map(({ id, claim }) => `${id} (${claim?.by.name})`);
  const submitted = all.filter(({ status }) => status === "submitted").map(({ id }) => id);
  if (working.length + submitted.length > 0) {
    const parts = [
      working.length > 0 ? `in progress: ${names(working)}` : "",
      submitted.length > 0 ? `waiting for a verifier: ${names(submitted)}` : "",
    ];
    return nothing("waiting", parts.filter(Boolean).join("; "));
  }
  const failed = all.filter((task) => isFailedForGood(task, state.maxAttempts)).map(({ id }) => id);
  if (failed.length > 0) return nothing("stuck", `failed for good: ${names(failed)}; retry or drop them`);
  const { current } = survey;
  return nothing(
    "unplanned",
    current ? `phase ${current.name} has no task to do` : "the goal has no tasks yet",
  );
}

function names(all: readonly string[]): string {
  const rest = all.length - SHOWN;
  return all.slice(0, SHOWN).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
