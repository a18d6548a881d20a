/** A person says that a task is done, or that it is not: whatever state it is in, the log gets the whole way there. */

import { type Act, closingPhase, planningActs } from "../goal/index.ts";
import { type By, type GoalDraft, type GoalState, taskOf } from "../model/index.ts";

type EditAct = (state: GoalState, by: By) => Act<unknown>;

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
