/** Deletes the files of one goal from a folder, before the goal is removed from the store. */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { leavesProject } from "../project-place.ts";
import { syncFolder } from "../state-files/index.ts";
import { EVENT_FILE, goalOfEvents } from "./event-file-format.ts";
import { EVENTS } from "./event-files.ts";
import { unsafeFolder } from "./refusals.ts";
import { AGENT_STATE, STATE_PAGE, TASK_BOARD } from "./render.ts";
import { readSeal } from "./seal.ts";
import { namesIn, RECORD_FOLDERS, textOf } from "./stray-records.ts";

const FILE_BYTES = 16 * 1024 * 1024;

/** Event files that name the goal, and rendered files with its seal. Files of other goals and people stay. */
export async function removeGoalFiles(folder: string, goal: string): Promise<void> {
  if (leavesProject(folder)) throw unsafeFolder(folder, "it is a link that leaves the project");
  const events = (await namesIn(join(folder, EVENTS))).filter((name) => EVENT_FILE.test(name));
  for (const name of events) {
    const path = join(folder, EVENTS, name);
    const raw = await textOf(path, FILE_BYTES);
    if (raw !== null && goalOfEvents(name, raw) === goal) await rm(path, { force: true });
  }
  const records = RECORD_FOLDERS.map(async (sub) =>
    (await namesIn(join(folder, sub))).filter((name) => name.endsWith(".md")).map((name) => join(sub, name)),
  );
  // STATE.md comes last: it names the goal that the folder shows.
  for (const name of [...(await Promise.all(records)).flat(), TASK_BOARD, AGENT_STATE, STATE_PAGE]) {
    const raw = await textOf(join(folder, name), FILE_BYTES);
    if (raw !== null && readSeal(raw).goal === goal) await rm(join(folder, name), { force: true });
  }
  if (events.length > 0) await syncFolder(join(folder, EVENTS));
}
