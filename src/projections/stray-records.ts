/**
 * Stray record files: sealed files in `decisions/`, `blockers/` and `sessions/` that are no record of a goal.
 *
 * Agents read these folders, so a stale or garbled file would count as a record. A file without a seal is a
 * person's own and is never touched.
 *
 * | a sealed file | becomes |
 * |---|---|
 * | whole, of this goal or of one that it replaces | removed: the log renders it again if it is needed |
 * | mixed by a git merge from such files | removed, as above |
 * | changed in another way | kept beside as `*.unread-…`: it may hold an edit |
 * | of a later revision, or of another goal | left alone, and named by `check` |
 */

import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../model/digest.ts";
import type { GoalState } from "../model/goal/index.ts";
import { readBounded, UnreadableText } from "../state-files/index.ts";
import { EditSources } from "./git-authors.ts";
import { recordPaths } from "./record-files.ts";
import { STATE_PAGE } from "./render.ts";
import { hasTwoSeals, normalText, readSeal } from "./seal.ts";

export const RECORD_FOLDERS = ["decisions", "blockers", "sessions"] as const;
const PAGE_BYTES = 256 * 1024;
/** Each question starts processes of git. More garbled files than this are no merge, and all set aside. */
const ASKED_OF_GIT = 50;

interface Stray {
  readonly path: string;
  readonly is: "outdated" | "garbled" | "ahead" | "of another goal";
  readonly beside: string;
}

/** `mayReplace`: tells whether files of another goal may be replaced in this folder. */
export async function findStrays(
  folder: string,
  state: GoalState,
  mayReplace: (goal: string) => boolean,
): Promise<Stray[]> {
  const wanted = new Set(recordPaths(state).values());
  const strays: Stray[] = [];
  for (const name of RECORD_FOLDERS) {
    for (const file of await markdownIn(join(folder, name))) {
      const path = `${name}/${file}`;
      if (wanted.has(path)) continue;
      const stray = judge(path, await textOf(join(folder, path)), state, mayReplace);
      if (stray) strays.push(stray);
    }
  }
  return strays;
}

/** Sets aside or removes what may go. Only the holder of the folder's lease calls it. */
export async function removeStrays(folder: string, strays: readonly Stray[]): Promise<void> {
  const sources = new EditSources(folder);
  let asked = 0;
  for (const { path, is, beside } of strays) {
    const isAsked = is === "garbled" && asked++ < ASKED_OF_GIT;
    const text = isAsked ? await textOf(join(folder, path)) : null;
    const isRendered = is === "outdated" || (text !== null && (await sources.isMixedByGit(path, text)));
    if (isRendered) await rm(join(folder, path), { force: true });
    else if (is === "garbled") await rename(join(folder, path), join(folder, beside));
  }
}

/** The strays in a folder that shows this goal, in words for `check`. Empty if it shows another one. */
export async function describeStrays(folder: string, state: GoalState): Promise<string[]> {
  const page = await textOf(join(folder, STATE_PAGE));
  if (page === null || readSeal(page).goal !== state.id) return [];
  const strays = await findStrays(folder, state, () => false);
  return strays.map(({ path, is }) => `${SHOWN.test(path) ? path : JSON.stringify(path)}: ${WORDS[is]}`);
}

/** A name of another shape came from elsewhere, and may hold line breaks. */
const SHOWN = /^[\w./-]{1,200}$/;
const WORDS: Readonly<Record<Stray["is"], string>> = {
  outdated: "an outdated rendering. Remove it: holdfast rebuild",
  garbled: "a changed or merged rendering of no current record. Set it aside: holdfast rebuild",
  ahead: "a record of events that this store does not have. Fetch .planning/events/, or remove the file",
  "of another goal": "a record of a goal that this folder does not show. Remove the file",
};

function judge(
  path: string,
  text: string | null,
  state: GoalState,
  mayReplace: (goal: string) => boolean,
): Stray | null {
  if (text === null) return null;
  const { goal, revision, digest, isIntact } = readSeal(text);
  if (goal === null || (digest === null && !hasTwoSeals(text))) return null;
  const beside = `${path}.unread-${sha256(normalText(text)).slice(0, 12)}`;
  const isOurs = goal === state.id;
  if (!isOurs && !mayReplace(goal)) return { path, is: "of another goal", beside };
  if (!isIntact) return { path, is: "garbled", beside };
  const isAhead = isOurs && (revision ?? 0) > state.revision;
  return { path, is: isAhead ? "ahead" : "outdated", beside };
}

async function markdownIn(folder: string): Promise<string[]> {
  return (await namesIn(folder)).filter((name) => name.endsWith(".md")).sort();
}

/** The names in a folder; none if there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw error;
  }
}

/** Null: no file, or none that we wrote. */
export async function textOf(path: string, limit = PAGE_BYTES): Promise<string | null> {
  try {
    return await readBounded(path, limit);
  } catch (error) {
    if (error instanceof UnreadableText) return null;
    throw error;
  }
}
