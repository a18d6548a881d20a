/**
 * Keeps `.planning/` and the store in step.
 *
 *     before a command decides    event files that git brought are merged into the store
 *     before an agent writes      edits by people are applied (an edit in the last 5 s refuses the agent's write)
 *     after each write            the goal is rendered into the files
 *
 * A command that writes makes one pass: it merges, opens the goal, decides, appends, and renders once. Only if
 * somebody else has written in the files does it sync them before the decision as well.
 *
 * `init` creates the folder; without it nothing is written. `events/` holds the events of every goal, but the
 * rendered files show one: the first goal, until it is done and another is not, or the goal of the last `rebuild`.
 * See `docs/decisions/017-*.md`.
 *
 * The store is the truth. A folder that cannot be read or written causes a warning and stops no command. A store
 * that the caller named is not tied to this folder: opening a goal in it merges that goal's event files only.
 *
 * `status` and hooks load this file, so everything heavy is imported where it is used.
 */

import { existsSync, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type Goal, unseenEventFiles } from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Holdfast } from "../open.ts";
import type { GoalFolder, ProjectOptions } from "../projections/index.ts";
import type { Store } from "../store.ts";
import { PLANNING, type StorePlace } from "./store-place.ts";

const NAMESPACE = "default";

const folderOf = ({ root }: StorePlace): string => join(root, PLANNING);

/** True also for a folder that cannot be read: the attempt to merge it reports why. */
export async function hasUnmergedEvents(place: StorePlace, store: Store): Promise<boolean> {
  try {
    return (await unseenEventFiles({ store, namespace: NAMESPACE }, folderOf(place))).length > 0;
  } catch (error) {
    if (isHoldfastError(error, "STORE_IO")) return true;
    throw error;
  }
}

/** The outcome of merging `.planning/events/` into the store. */
export interface EventMerge {
  /** Problems, one line each, for answers that are read without their warnings. */
  readonly problems: readonly string[];
  /** Names of all event files at that time; null if the folder could not be listed. */
  readonly names: readonly string[] | null;
  /** The error that keeps a goal from being merged, if any. Writing to that goal is refused with it. */
  failureOf(goal: string): unknown;
}

const NO_EVENTS: EventMerge = { problems: [], names: null, failureOf: () => null };

/** Merges new event files. Warns of what cannot be merged; the store then answers as it is. */
export async function mergeNewEvents(place: StorePlace, { journal }: Holdfast): Promise<EventMerge> {
  if (!existsEvenBroken(join(folderOf(place), "events"))) return NO_EVENTS;
  const problems: string[] = [];
  const report = (error: unknown): void => {
    journal.warn(notMerged(error));
    problems.push(oneLineError(error));
  };
  try {
    const { mergeAllEvents } = await import("../projections/index.ts");
    const { names, failed } = await mergeAllEvents(journal, folderOf(place), report);
    return { problems, names, failureOf: (goal) => failed.get(goal) ?? null };
  } catch (error) {
    report(error);
    // A read-only store, or an unreadable folder, still has everything that was merged before.
    const isHarmless = isHoldfastError(error, "STORE_READONLY") || isHoldfastError(error, "STORE_IO");
    return { problems, names: null, failureOf: () => (isHarmless ? null : error) };
  }
}

/** True also for a link to itself: the merge reports what is wrong with it. */
function existsEvenBroken(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/** The same for a caller that has the store open read-only. Throws if the store cannot be opened for writing. */
export async function openAndMergeEvents(
  place: StorePlace,
  warn?: (error: unknown) => void,
): Promise<readonly string[]> {
  const { open } = await import("../open.ts");
  const holdfast = await open(place.address, warn ? { warn } : {});
  try {
    return (await mergeNewEvents(place, holdfast)).problems;
  } finally {
    await holdfast.close();
  }
}

export function oneLineError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function notMerged(cause: unknown): HoldfastError {
  if (isHoldfastError(cause, "EVENT_FILE_REFUSED")) return cause;
  const hint = isHoldfastError(cause) ? `${cause.hint} ` : "";
  return new HoldfastError(
    cause instanceof HoldfastError ? cause.code : "STORE_IO",
    `.planning/events/ is not merged into the store: ${oneLineError(cause)}`,
    { hint: `${hint}Fix that and run the command again. Until then the store answers without it.`, cause },
  );
}

const FOLDERS = ["", "decisions", "blockers", "sessions"];
/** Only names that Holdfast made: no other file name gets into an answer. */
const UNPARSED = /^[\w.-]{1,200}\.unread-[0-9a-f]{12}$/;
const NAMED = 5;

/**
 * Edits that could not be parsed: Holdfast keeps them beside the file, as `STATE.md.unread-…`.
 * A hook usually finds them, and nobody reads its output. So every status names them until they are removed.
 */
export function unparsedEdits({ root }: Pick<StorePlace, "root">): string[] {
  const files = FOLDERS.flatMap((folder) =>
    namesIn(join(root, PLANNING, folder))
      .filter((name) => UNPARSED.test(name))
      .sort()
      .map((name) => [PLANNING, folder, name].filter(Boolean).join("/")),
  );
  const more = files.length - NAMED;
  return [
    ...files.slice(0, NAMED).map((file) => `${file}: read it, redo what is missing, then remove the file`),
    ...(more > 0 ? [`${more} more *.unread-… in ${PLANNING}/`] : []),
  ];
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Missing or unreadable: the next write into the folder reports it.
    return [];
  }
}

export interface SyncOptions {
  /** Called with the other goal if the folder keeps showing that one. */
  readonly onOtherGoal?: (other: string) => void;
  /** The event files that this command has merged, so that the sync need not look for them again. */
  readonly eventFiles?: readonly string[] | null;
}

/** Syncs the folder now, and after every write through this handle. */
export function syncPlanningFolder(goal: Goal, root: string, options: SyncOptions = {}): Promise<void> {
  return keepInStep(goal, root, options, "now");
}

/** Syncs the folder after every write through this handle, and now only if somebody else wrote in it. */
export function followWrites(goal: Goal, root: string, options: SyncOptions = {}): Promise<void> {
  return keepInStep(goal, root, options, "if edited");
}

async function keepInStep(
  goal: Goal,
  root: string,
  { onOtherGoal = () => undefined, eventFiles = null }: SyncOptions,
  first: "now" | "if edited",
): Promise<void> {
  const folder = join(root, PLANNING);
  if (!existsSync(folder)) return;
  const { goalCore } = await import("../goal/index.ts");
  const { warn } = goalCore(goal).journal;
  try {
    const { editNotes, followGoal, keepEvents, projectGoal } = await import("../projections/index.ts");
    const onEdit: ProjectOptions["onEdit"] = (report) => editNotes(report).forEach(warn);
    const onFailure = (error: unknown): void => warn(folderOutdated(error));
    const showing =
      first === "now"
        ? projectGoal(goal, { folder, onEdit })
        : followGoal(goal, { folder, onEdit, onFailure, eventFiles });
    const other = await otherGoalShown(showing);
    if (other === null) return;
    const isDone = (it: Goal) => it.survey().isDone;
    if (!goal.survey().isDone && (await switchFolder(goal, other, { folder, onEdit }, isDone))) return;
    await keepEvents(goal, folder);
    onOtherGoal(other);
  } catch (error) {
    // A store that has moved refuses the write itself, so the files need not change.
    if (!isHoldfastError(error, "STORE_MOVED")) warn(folderOutdated(error));
  }
}

/** Makes the folder show this goal, whichever goal it shows now. */
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

/** The other goal that the folder shows; null if it shows ours. */
async function otherGoalShown(showing: Promise<unknown>): Promise<string | null> {
  try {
    await showing;
    return null;
  } catch (error) {
    if (isHoldfastError(error, "FOLDER_TAKEN")) return String(error.data["other"]);
    throw error;
  }
}

/**
 * Syncs the other goal's files a last time, then shows ours. That sync applies people's edits, after which the
 * other goal may no longer give way. Null if it stays, or if this store does not have it.
 */
async function switchFolder(
  goal: Goal,
  other: string,
  options: ProjectOptions,
  givesWay: (other: Goal) => boolean,
): Promise<GoalFolder | null> {
  const { projectGoal } = await import("../projections/index.ts");
  const { goalCore, openGoal } = await import("../goal/index.ts");
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

/** Turns an error of the file system into one with a hint. */
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
