/**
 * A person's edit of STATE.md that git brought: from another branch, out of a stash, by a merge or a clone.
 *
 * It may be old, and what it says may have been taken in and undone since. So it counts for less than what a person saves
 * here: it is taken in where the page is known as it was before the edit, where the log has not seen this very page, and
 * where the goal has not touched the same thing since. What it adds is taken in only where the edit was committed in this
 * repository: the store of another clone takes it in too, and after the next merge everything would be there twice.
 */

import type { GoalState } from "../model/goal/index.ts";
import { sameJson } from "../model/json.ts";
import type { Change, Merged } from "./edit-changes.ts";
import type { Brought } from "./git-activity.ts";

/** `past` is the goal that the page was rendered from. */
export function cautiously(merged: Merged, past: GoalState, now: GoalState, brought: Brought): Merged {
  const mine: Change[] = [];
  const left = [...merged.left];
  for (const each of merged.mine) {
    const { key, what } = each;
    if (!sameJson(subjectOf(past, key), subjectOf(now, key)))
      left.push(`${what}: git brought it, and the goal has moved on since`);
    else if (brought === "elsewhere" && key.startsWith("new "))
      left.push(`${what}: git brought it from another clone, which may take it in as well`);
    else mine.push(each);
  }
  return { mine, conflicts: [], left };
}

/** What a change is about, as the goal has it. */
function subjectOf(state: GoalState, key: string): unknown {
  if (key === "next" || key === "title" || key === "statement") return state[key];
  const id = /:([TBQ]-\d{3,})$/.exec(key)?.[1] ?? "";
  return state.tasks.get(id) ?? state.blockers.get(id) ?? state.questions.get(id) ?? null;
}

const ITEM = /^\s*[-*+] +(?:\[[ xX]\] *)?([TDBQ]-\d{3,})\b/gm;

/** Git kept a line of each side, but the seal of only one of them had changed. */
export function hasItemTwice(page: string): boolean {
  const ids = [...page.matchAll(ITEM)].map(([, id]) => id);
  return new Set(ids).size < ids.length;
}
