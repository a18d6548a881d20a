/**
 * Edits of rendered files as changes to the goal. The same function finds the changes of the person and those
 * of the goal since the base; the same key (`title:T-001`) in both is a conflict.
 */

import { type Act, closingPhase, planningActs } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { type Actor, type GoalDraft, type GoalState, taskOf } from "../model/goal/index.ts";
import { canonicalText } from "../model/json.ts";

export type EditAct = (state: GoalState, by: Actor) => Act<unknown>;

export interface Change {
  readonly key: string;
  readonly value: string;
  readonly what: string;
  /** Null: the goal computes this value, so the change can only be reported. */
  readonly act: EditAct | null;
}

export function change(key: string, value: unknown, what: string, act: Change["act"]): Change {
  return { key, value: canonicalText(value), what, act };
}

export interface Merged {
  readonly mine: readonly Change[];
  /** The goal has changed these, too: the person wins, the other value is in the log. */
  readonly conflicts: readonly string[];
  readonly left: readonly string[];
}

export function mergeChanges(theirs: readonly Change[], ours: readonly Change[]): Merged {
  const known = new Map(ours.map(({ key, value }) => [key, value]));
  const news = theirs.filter(({ key, value }) => known.get(key) !== value);
  return {
    mine: news.filter(({ act }) => act !== null),
    conflicts: news.filter(({ key, act }) => act !== null && known.has(key)).map(({ what }) => what),
    left: news.filter(({ act }) => act === null).map(({ what }) => what),
  };
}

const NOTHING: Act<unknown> = { events: [], result: null };

/** An act that does nothing if the goal says so already, as after a second save from an old editor buffer. */
export function unless(isDone: (state: GoalState) => boolean, act: EditAct): EditAct {
  return (state, by) => (isDone(state) ? NOTHING : act(state, by));
}

/** Finishes a task from any status. An agent that works on it finds its claim gone at its next write. */
export function finishTask(id: string, file: string): EditAct {
  return (state, by) => {
    const task = taskOf(state, id);
    if (task.status === "done") return NOTHING;
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
    if (status === "open") return NOTHING;
    if (status === "failed") return planningActs.retry(state, by, { task: id, why });
    return planningActs.reopen(state, by, { task: id, why });
  };
}

export function dropTask(id: string, file: string): EditAct {
  const why = `Removed from ${file} by hand.`;
  return unless(
    (state) => taskOf(state, id).status === "dropped",
    (state, by) => planningActs.drop(state, by, { task: id, why }),
  );
}

/** More tasks that vanish at once are taken for a slip, such as a section that was cut out. */
const REMOVED_AT_ONCE = 3;
const NAMED = 3;

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

/** A removed line may be a slip, and an agent that works on the task would lose it. */
function dropUnlessHeld(id: string, file: string): EditAct {
  return (state, by) => {
    const { status, claim } = taskOf(state, id);
    if (status !== "in_progress" && status !== "submitted") return dropTask(id, file)(state, by);
    const who =
      status === "submitted" ? "it waits to be verified" : `${claim?.by.name ?? "an agent"} works on it`;
    throw new HoldfastError("TASK_HELD", `${who}, so it stays. If you mean it: holdfast task drop ${id}`, {
      hint: `Drop it by a command: holdfast task drop ${id}`,
    });
  };
}
