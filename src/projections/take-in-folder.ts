import { resolve } from "node:path";
import { type MergeReport, markEventFilesSeen, mergeGoal, unseenEventFiles } from "../goal/index.ts";
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
  const path = resolve(folder);
  const reports = new Map<string, MergeReport>();
  const names = await unseenEventFiles(journal, path, only);
  if (names.length === 0) return reports;
  const goals = await readEventsFolder(path, names, warn);
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
      warn(error);
    }
  }
  if (only !== undefined) {
    const others = [...goals].flatMap(([goal, { files }]) => (goal === only ? [] : files));
    if (others.length > 0) await markEventFilesSeen(journal, only, { own: [], others });
  }
  return reports;
}
