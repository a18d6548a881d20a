/**
 * Keeps `.planning/` in step with the store.
 *
 *     before a command decides    event files that git brought are merged (`unmerged-changes.ts`)
 *     before an agent writes      people's edits are applied (one in the last 5 s refuses the agent's write)
 *     after each write            the goal is rendered into the files
 *
 * A command that writes makes one pass: it merges, opens the goal, decides, appends, and renders once. If a
 * person or git has written in the files, it also syncs them before the decision.
 *
 * `init` creates the folder; without it nothing is written. `events/` holds the events of every goal. The
 * rendered files show one: the first goal, until it is done and another is not, or the goal of the last
 * `rebuild`. See `docs/decisions/017-*.md`.
 *
 * The store is the truth: a folder that cannot be written causes a warning and stops no command.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Goal, goalCore, openGoal } from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { GoalFolder, ProjectOptions } from "../projections/index.ts";
import { agentEditsIn } from "./agent-edits.ts";
import { PLANNING } from "./store-place.ts";
import { oneLineError } from "./unmerged-changes.ts";

interface SyncOptions {
  /** `if edited`: before the next write, only if a person or git wrote in the folder. */
  readonly first?: "now" | "if edited";
  readonly onOtherGoal?: (other: string) => void;
  /** The folder of the store, which has the record of what agents edited. */
  readonly home?: string;
  /** The event files that this command has merged, so that the sync need not look for them again. */
  readonly eventFiles?: readonly string[] | null;
}

/** Syncs the folder, now and after every write through this handle. */
export async function syncPlanningFolder(
  goal: Goal,
  root: string,
  { first = "now", onOtherGoal = () => undefined, eventFiles = null, home }: SyncOptions = {},
): Promise<void> {
  const folder = join(root, PLANNING);
  if (!existsSync(folder)) return;
  const { warn } = goalCore(goal).journal;
  try {
    const { editNotes, followGoal, keepEvents, projectGoal } = await import("../projections/index.ts");
    const onEdit: ProjectOptions["onEdit"] = (report) => editNotes(report).forEach(warn);
    const editing = { folder, onEdit, ...(home !== undefined && { agentEdit: await agentEditsIn(home) }) };
    const onFailure = (error: unknown): void => warn(folderOutdated(error));
    const showing =
      first === "now" ? projectGoal(goal, editing) : followGoal(goal, { ...editing, onFailure, eventFiles });
    const other = await otherGoalShown(showing);
    if (other === null) return;
    const isDone = (it: Goal) => it.survey().isDone;
    if (!goal.survey().isDone && (await switchFolder(goal, other, editing, isDone))) return;
    await keepEvents(goal, folder);
    onOtherGoal(other);
  } catch (error) {
    // A store that has moved refuses the write itself, so the files need not change.
    if (!isHoldfastError(error, "STORE_MOVED")) warn(folderOutdated(error));
  }
}

export async function showInFolder(goal: Goal, options: ProjectOptions): Promise<GoalFolder> {
  const { projectGoal } = await import("../projections/index.ts");
  try {
    return await projectGoal(goal, options);
  } catch (error) {
    if (!isHoldfastError(error, "FOLDER_TAKEN")) throw error;
    const folder = await switchFolder(goal, String(error.data["other"]), options, () => true);
    if (folder) return folder;
    throw error;
  }
}

function otherGoalShown(showing: Promise<unknown>): Promise<string | null> {
  const other = (error: unknown): string => {
    if (isHoldfastError(error, "FOLDER_TAKEN")) return String(error.data["other"]);
    throw error;
  };
  return showing.then(() => null, other);
}

/**
 * Syncs the other goal's files a last time, then shows ours. The sync applies people's edits, after which the
 * other goal may no longer give way. Null if it stays, or if this store does not have it.
 */
async function switchFolder(
  goal: Goal,
  other: string,
  options: ProjectOptions,
  givesWay: (other: Goal) => boolean,
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
  if (shown === null || !givesWay(shown)) return null;
  await (await projectGoal(shown, { ...options, auto: false })).close();
  return givesWay(shown) ? projectGoal(goal, { ...options, instead: other }) : null;
}

export function explainFileError(error: unknown): unknown {
  const isSystemError = error instanceof Error && "syscall" in error && !isHoldfastError(error);
  return isSystemError ? folderOutdated(error) : error;
}

/** The warning for `goal new` and `goal use` when the folder keeps showing another goal. */
export function showsAnother(goal: string, other: string): HoldfastError {
  return new HoldfastError(
    "FOLDER_TAKEN",
    `${PLANNING}/ still shows goal ${other}, which is not done; ${PLANNING}/events/ also has goal ${goal}`,
    { hint: `Show it instead: holdfast rebuild --goal ${goal}`, data: { goal, other } },
  );
}

function folderOutdated(cause: unknown): HoldfastError {
  return new HoldfastError(
    cause instanceof HoldfastError ? cause.code : "STORE_IO",
    `${PLANNING}/ is not up to date: ${oneLineError(cause)}`,
    { hint: "The store has everything. Fix that, then run: holdfast rebuild", cause },
  );
}
