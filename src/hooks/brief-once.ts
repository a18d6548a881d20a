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

const KEPT_MS = 86_400_000;

/** Marks of starts long ago tell nobody anything. */
export function removeOldMarks(folder: string, now: number): void {
  for (const name of readdirSync(folder).filter((each) => each.endsWith(".briefed"))) {
    const mark = join(folder, name);
    const made = statSync(mark, { throwIfNoEntry: false });
    if (made && now - made.mtimeMs > KEPT_MS) rmSync(mark, { force: true });
  }
}

export function isFirstToBrief(folder: string, session: string, source: string, now: number): boolean {
  const mark = join(folder, `${session}.${source.replace(/[^a-z]/gi, "").slice(0, 20)}.briefed`);
  const old = statSync(mark, { throwIfNoEntry: false });
  if (old && now - old.mtimeMs < SAME_START_MS) return false;
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
