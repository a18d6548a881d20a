/**
 * `.planning/` of a project follows its goals: what the command line, an agent over MCP or a hook says is in the files when
 * it is over, and what a person wrote into them is taken in before. `init` makes the folder, and only where it is there is
 * anything written.
 *
 * It has the events of every goal, and shows one: the first that was written, until that is done and another is not; or the
 * one that `rebuild` was asked for. See `docs/decisions/017-*.md`.
 *
 * The store has what was said in any case: a folder that cannot be written is told, and stops nobody.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Goal, goalCore, openGoal } from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { GoalFolder, ProjectOptions } from "../projections/index.ts";
import { PLANNING } from "./store-place.ts";

/**
 * From here on every write through this handle is followed by the files. Loads what that takes only where it is needed.
 * `notShown` is told when the folder goes on showing another goal.
 */
export async function syncPlanningFolder(
  goal: Goal,
  root: string,
  notShown: (other: string) => void = () => undefined,
): Promise<void> {
  const folder = join(root, PLANNING);
  if (!existsSync(folder)) return;
  try {
    const { editNotes, keepEvents, projectGoal } = await import("../projections/index.ts");
    const onEdit: ProjectOptions["onEdit"] = (report) =>
      editNotes(report).forEach(goalCore(goal).journal.warn);
    const other = await takenBy(projectGoal(goal, { folder, onEdit }));
    if (other === null) return;
    const isLeft = (it: Goal) => it.survey().isDone;
    if (!goal.survey().isDone && (await turned(goal, other, { folder, onEdit }, isLeft))) return;
    await keepEvents(goal, folder);
    notShown(other);
  } catch (error) {
    // Whoever writes to a store that has moved is refused by the store itself, and nothing of it is to be in the files.
    if (!isHoldfastError(error, "STORE_MOVED")) goalCore(goal).journal.warn(notWritten(error));
  }
}

/** The folder shows this goal from now on, whichever it showed before. */
export async function showInFolder(goal: Goal, options: ProjectOptions): Promise<GoalFolder> {
  const { projectGoal } = await import("../projections/index.ts");
  try {
    return await projectGoal(goal, options);
  } catch (error) {
    if (!isHoldfastError(error, "FOLDER_TAKEN")) throw error;
    const folder = await turned(goal, String(error.data["other"]), options, () => true);
    if (folder) return folder;
    throw error;
  }
}

/** The goal whose folder it is; null: ours. */
async function takenBy(projecting: Promise<unknown>): Promise<string | null> {
  try {
    await projecting;
    return null;
  } catch (error) {
    if (isHoldfastError(error, "FOLDER_TAKEN")) return String(error.data["other"]);
    throw error;
  }
}

/**
 * What people wrote into the files of the other goal is taken in before they go, and may mean that it does not make way
 * after all. Null: it stays, or this store does not know it.
 */
async function turned(
  goal: Goal,
  other: string,
  options: ProjectOptions,
  makesWay: (other: Goal) => boolean,
): Promise<GoalFolder | null> {
  const { projectGoal } = await import("../projections/index.ts");
  const { by, root } = goal;
  const { journal } = goalCore(goal);
  const shown = await openGoal(journal, other, { by, stale: "use", ...(root !== null && { root }) }).catch(
    (error: unknown) => {
      if (isHoldfastError(error, "GOAL_NOT_FOUND")) return null;
      throw error;
    },
  );
  if (shown === null || !makesWay(shown)) return null;
  await (await projectGoal(shown, { ...options, auto: false })).close();
  return makesWay(shown) ? projectGoal(goal, { ...options, instead: other }) : null;
}

/** What the file system refuses is no fault of ours, and has to be said in words. */
export function explainFileError(error: unknown): unknown {
  const isRefusal = error instanceof Error && "syscall" in error && !isHoldfastError(error);
  return isRefusal ? notWritten(error) : error;
}

/** Whoever begins or chooses a goal is told that the folder shows another one. */
export function showsAnother(goal: string, other: string): HoldfastError {
  return new HoldfastError(
    "FOLDER_TAKEN",
    `${PLANNING}/ goes on showing goal ${other}, which is not done; ${PLANNING}/events/ has goal ${goal} too`,
    { hint: `Show it instead: holdfast rebuild --goal ${goal}`, data: { goal, other } },
  );
}

function notWritten(cause: unknown): HoldfastError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(
    cause instanceof HoldfastError ? cause.code : "STORE_IO",
    `${PLANNING}/ is not up to date: ${why}`,
    { hint: "The store has everything. See to that, then: holdfast rebuild", cause },
  );
}
