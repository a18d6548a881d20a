/** The warning before an edit of a file that another agent works on. The edit goes ahead all the same. */

import { claimedByOther } from "../agent-sessions/index.ts";
import { dataElement } from "../goal/index.ts";

const WARNING =
  "Holdfast: another agent has claimed the task of this file and works on it now. " +
  "The data below names both. Leave the file to it, or agree on it first: " +
  "its edit and yours may overwrite each other.";

export function claimWarning(folder: string, session: string, paths: readonly string[]): string | null {
  for (const path of paths) {
    const found = claimedByOther(folder, session, path, Date.now());
    if (found === null) continue;
    const { task, title, by } = found;
    return WARNING + dataElement({ FILE: [path], TASK: [`${task}: ${title}`], AGENT: [by] });
  }
  return null;
}
