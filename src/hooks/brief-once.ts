/**
 * One briefing per start or compaction. An agent may run the same hook twice for one start, as Cursor does when it also
 * runs the hooks of Claude Code; both ask for this mark, and only the one that makes it answers.
 *
 * The mark is made exclusively. One that is older belongs to an earlier start and is moved away first; of two that do so
 * at once only one can make the new one.
 */

import { closeSync, mkdirSync, openSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

/** Longer than two hooks of one start are apart, shorter than two starts are. */
const SAME_START_MS = 10_000;

/** How long what lies there can be of use to anybody: a mark of a start, and what somebody is about to rename. */
const KEPT_MS = { briefed: 86_400_000, tmp: 60_000 };

/** Marks of starts long ago tell nobody anything, nor does what was left half written. */
export function removeOldMarks(folder: string, now: number): void {
  for (const name of readdirSync(folder)) {
    const kind = (["briefed", "tmp"] as const).find((each) => name.endsWith(`.${each}`));
    if (kind === undefined) continue;
    const file = join(folder, name);
    const made = statSync(file, { throwIfNoEntry: false });
    if (made && apart(now, made.mtimeMs) > KEPT_MS[kind]) rmSync(file, { force: true });
  }
}

/** A clock that was set back must not make a mark last until it has caught up. */
function apart(now: number, then: number): number {
  return Math.abs(now - then);
}

export function isFirstToBrief(folder: string, session: string, source: string, now: number): boolean {
  const mark = join(folder, `${session}.${source.replace(/[^a-z]/gi, "").slice(0, 20)}.briefed`);
  const old = statSync(mark, { throwIfNoEntry: false });
  if (old && apart(now, old.mtimeMs) < SAME_START_MS) return false;
  if (old) rmSync(mark, { force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    closeSync(openSync(mark, "wx", 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}
