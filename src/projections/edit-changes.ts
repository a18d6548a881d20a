/**
 * What a person changed in a rendered file, as changes to the goal.
 *
 * A change has a key, which says what it is about, and a value, which says what it makes of it. The same function finds
 * what the person changed since the base and what the goal itself changed since then; where both have a key, they met.
 * A change without an act is one that the goal computes: it can be noticed, not taken in.
 */

import { type Act, closingPhase, planningActs } from "../goal/index.ts";
import { type Actor, type GoalState, type GoalDraft, taskOf } from "../model/goal/index.ts";
import { canonicalText } from "../model/json.ts";
import { HoldfastError } from "../model/errors.ts";

/**
 * A person says that a task is done, or that it is not: whatever state it is in, the log gets the whole way there. And what
 * tasks mean that are no longer in a file.
 */



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



export interface Change {
  readonly key: string;
  readonly value: string;
  /** For reports: what it is, in words. */
  readonly what: string;
  readonly act: ((state: GoalState, by: Actor) => Act<unknown>) | null;
}

export function change(key: string, value: unknown, what: string, act: Change["act"]): Change {
  return { key, value: canonicalText(value), what, act };
}

export interface Merged {
  /** To be taken in, in the order in which they stand in the file. */
  readonly mine: readonly Change[];
  /** Keys that both changed, to different ends: the person's word counts, the other is in the log. */
  readonly conflicts: readonly string[];
  readonly left: readonly string[];
}

/** `theirs` and `ours` are both counted from the same base. */
export function mergeChanges(theirs: readonly Change[], ours: readonly Change[]): Merged {
  const known = new Map(ours.map(({ key, value }) => [key, value]));
  const news = theirs.filter(({ key, value }) => known.get(key) !== value);
  return {
    mine: news.filter(({ act }) => act !== null),
    conflicts: news.filter(({ key, act }) => act !== null && known.has(key)).map(({ what }) => what),
    left: news.filter(({ act }) => act === null).map(({ what }) => what),
  };
}
