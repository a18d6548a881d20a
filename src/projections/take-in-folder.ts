import { resolve } from "node:path";
import {
  eventFileNames,
  type MergeReport,
  markEventFilesSeen,
  mergeGoal,
  unseenEventFiles,
} from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { readEventsFolder } from "./event-files.ts";

/**
 * Takes in what a folder of the repository holds of goals, whether or not this store has them: what a fresh clone begins
 * with, and what a pull brought. Files that were taken in before are not read again. Writes nothing into the folder. By
 * goal; those that had nothing new are left out. With `only`, no other goal is looked at.
 *
 * A file that cannot be believed, or a goal that cannot be made of its files, keeps no other out: `warn` is told, here and
 * whenever somebody looks again. Of the goal that `only` names it is thrown.
 */
export async function mergeEventFolder(
  journal: Journal,
  folder = ".planning",
  only?: string,
  warn: (error: unknown) => void = journal.warn,
): Promise<ReadonlyMap<string, MergeReport>> {
  return (await mergeFolder(journal, resolve(folder), only, warn)).reports;
}

/** What a merge of the events of all goals found. */
export interface FolderMerge {
  readonly reports: ReadonlyMap<string, MergeReport>;
  /** Names of all event files in the folder. */
  readonly names: readonly string[];
  /** Goals that could not be merged. `warn` was called with each error. */
  readonly failed: ReadonlyMap<string, unknown>;
}

/** Merges the events of every goal, and also tells which files there are. */
export function mergeAllEvents(
  journal: Journal,
  folder: string,
  warn: (error: unknown) => void,
): Promise<FolderMerge> {
  return mergeFolder(journal, resolve(folder), undefined, warn);
}

async function mergeFolder(
  journal: Journal,
  path: string,
  only: string | undefined,
  warn: (error: unknown) => void,
): Promise<FolderMerge> {
  const reports = new Map<string, MergeReport>();
  const failed = new Map<string, unknown>();
  const names = eventFileNames(path);
  const unseen = await unseenEventFiles(journal, path, only, names);
  if (unseen.length === 0) return { reports, names, failed };
  const goals = await readEventsFolder(path, unseen, warn);
  for (const [goal, { entries, files }] of goals) {
    if (only !== undefined && goal !== only) continue;
    try {
      const report = await mergeGoal(journal, goal, { name: "holdfast", role: "supervisor" }, entries);
      if (report) reports.set(goal, report);
      await markEventFilesSeen(journal, goal, { own: files, others: [] });
    } catch (error) {
      // What is wrong with the store is wrong with all goals.
      const isOfOneGoal = isHoldfastError(error) && !error.code.startsWith("STORE_");
      if (only !== undefined || !isOfOneGoal) throw error;
      failed.set(goal, error);
      warn(error);
    }
  }
  if (only !== undefined) {
    const others = [...goals].flatMap(([goal, { files }]) => (goal === only ? [] : files));
    if (others.length > 0) await markEventFilesSeen(journal, only, { own: [], others });
  }
  return { reports, names, failed };
}
