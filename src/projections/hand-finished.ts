/**
 * A person says that a task is done, or that it is not: whatever state it is in, the log gets the whole way there. And what
 * tasks mean that are no longer in a file.
 */

import { type Act, closingPhase, planningActs } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { type Actor, type GoalDraft, type GoalState, taskOf } from "../model/goal/index.ts";
import { type Change, change } from "./edit-changes.ts";

type EditAct = (state: GoalState, by: Actor) => Act<unknown>;

/** Whoever works on it hears of it at the next write: the claim is gone. */
export function finishTask(id: string, file: string): EditAct {
  return (state, by) => {
    const task = taskOf(state, id);
    if (task.status === "done") return { events: [], result: null };
    const token = task.claim?.token ?? 0;
    const events: GoalDraft[] = [];
    if (task.status !== "in_progress" && task.status !== "submitted") {
      events.push({ type: "task.claimed", data: { by, task: task.id, session: null, token } });
    }
    if (task.status !== "submitted") {
      const evidence = { summary: `Marked as done in ${file} by hand.`, commands: [], files: [] };
      events.push({ type: "task.submitted", data: { by, task: task.id, token, evidence } });
    }
    events.push({ type: "task.accepted", data: { by, task: task.id, why: null } });
    return { events: [...events, ...closingPhase(state, task, by)], result: null };
  };
}

export function reopenTask(id: string, file: string): EditAct {
  const why = `Marked as open in ${file} by hand.`;
  return (state, by) => {
    const { status } = taskOf(state, id);
    if (status === "open") return { events: [], result: null };
    if (status === "failed") return planningActs.retry(state, by, { task: id, why });
    return planningActs.reopen(state, by, { task: id, why });
  };
}

export function dropTask(id: string, file: string): EditAct {
  return (state, by) => {
    if (taskOf(state, id).status === "dropped") return { events: [], result: null };
    return planningActs.drop(state, by, { task: id, why: `Removed from ${file} by hand.` });
  };
}

/** Above that it was a slip, or a section that was cut out: nobody drops a plan by leaving it out. */
const REMOVED_AT_ONCE = 3;
const NAMED = 3;

/** `before` and `after` are the tasks of a file by their ids. */
export function removedTasks(
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
  file: string,
): Change[] {
  const gone = [...before.keys()].filter((id) => !after.has(id));
  const isAll = gone.length > 1 && gone.length === before.size;
  if (!isAll && gone.length <= REMOVED_AT_ONCE) {
    return gone.map((id) => change(`drop:${id}`, true, `${id} dropped`, dropUnlessHeld(id, file)));
  }
  const more = gone.length > NAMED ? ` and ${gone.length - NAMED} more` : "";
  const named = gone.slice(0, NAMED).join(", ") + more;
  const what = `${named} were removed at once, and stay: drop each with holdfast task drop ${gone[0]}`;
  return [change(`drop:${gone.join(" ")}`, true, what, null)];
}

/** A line that is gone may be a slip of the hand, and whoever works on the task would lose it. */
function dropUnlessHeld(id: string, file: string): EditAct {
  return (state, by) => {
    const { status, claim } = taskOf(state, id);
    if (status !== "in_progress" && status !== "submitted") return dropTask(id, file)(state, by);
    const who =
      status === "submitted" ? "it waits to be verified" : `${claim?.by.name ?? "somebody"} works on it`;
    throw new HoldfastError("TASK_HELD", `${who}, so it stays. If you mean it: holdfast task drop ${id}`, {
      hint: `Say it by a command: holdfast task drop ${id}`,
    });
  };
}
