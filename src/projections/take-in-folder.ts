import { resolve } from "node:path";
import { type MergeReport, noteSeen, takeInGoal, unseenEventFiles } from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { readEventsFolder } from "./event-files.ts";

/**
 * Takes in what a folder of the repository holds of goals, whether or not this store has them: what a fresh clone begins
 * with, and what a pull brought. Files that were taken in before are not read again. Writes nothing into the folder. By
 * goal; those that had nothing new are left out. With `only`, no other goal is looked at.
 */
export async function takeInFolder(
  journal: Journal,
  folder = ".planning",
  only?: string,
): Promise<ReadonlyMap<string, MergeReport>> {
  const path = resolve(folder);
  const reports = new Map<string, MergeReport>();
  const names = await unseenEventFiles(journal, path, only);
  if (names.length === 0) return reports;
  const goals = await readEventsFolder(path, names, journal.warn);
  for (const [goal, { entries, files }] of goals) {
    if (only !== undefined && goal !== only) continue;
    const report = await takeInGoal(journal, goal, { name: "holdfast", role: "supervisor" }, entries);
    if (report) reports.set(goal, report);
    await noteSeen(journal, goal, { own: files, others: [] });
  }
  if (only !== undefined) {
    const others = [...goals].flatMap(([goal, { files }]) => (goal === only ? [] : files));
    if (others.length > 0) await noteSeen(journal, only, { own: [], others });
  }
  return reports;
}
