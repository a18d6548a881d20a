import { resolve } from "node:path";
import { type MergeReport, takeInGoal } from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { readEventsFolder } from "./event-files.ts";

/**
 * Takes in what a folder of the repository holds of goals, whether or not this store has them: what a fresh clone begins
 * with, and what a pull brought. Writes nothing into the folder. By goal; those that had nothing new are left out. With
 * `only`, no other goal is looked at.
 */
export async function takeInFolder(
  journal: Journal,
  folder = ".planning",
  only?: string,
): Promise<ReadonlyMap<string, MergeReport>> {
  const reports = new Map<string, MergeReport>();
  for (const [goal, entries] of await readEventsFolder(resolve(folder), journal.warn)) {
    if (only !== undefined && goal !== only) continue;
    const report = await takeInGoal(journal, goal, { name: "holdfast", role: "supervisor" }, entries);
    if (report) reports.set(goal, report);
  }
  return reports;
}
