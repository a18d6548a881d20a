/**
 * Where the items of a run stand among those of the conversation. A run that is resumed adds what it added before, and that is
 * there. It may have been killed, and others may have spoken since: what it did not come to add comes after theirs, and
 * theirs are not its past.
 */

import { type Json, sameJson } from "../../model/json.ts";
import type { ItemsChanged, StoredItem } from "./item-log.ts";

export type Change = Omit<ItemsChanged, "run" | "life">;

/** A run that is resumed as one: what it added before it was killed is not its own past. */
export interface RunUnderWay {
  readonly name: string;
  /** How many items there were when it first began; null where nobody has noted that. */
  readonly before: number | null;
  /** Until it adds something, it asks for what was there before it. */
  isBeginning: boolean;
  /** How many items it has added, of those that are stored perhaps; null before it has added any. */
  added: number | null;
}

export function pastOf(all: readonly StoredItem[], { name, before }: RunUnderWay): readonly StoredItem[] {
  const first = all.findIndex(({ run }) => run === name);
  return all.slice(0, before ?? (first < 0 ? all.length : first));
}

/**
 * Which of the run's items the first of these is. A run begins with its input; one that the SDK goes on with from its own
 * state begins behind what it had added by then.
 */
export function beginningOf(
  all: readonly StoredItem[],
  { name }: RunUnderWay,
  [first]: readonly Json[],
): number {
  const mine = all.filter(({ run }) => run === name);
  const known = mine.findIndex(({ item }) => sameJson(item, first));
  if (known >= 0) return known;
  return (first as { role?: Json } | undefined)?.role === "user" ? 0 : mine.length;
}

/** Where what is stored differs, what the run says now counts, unless others have spoken since. */
export function changeOfRun(
  all: readonly StoredItem[],
  { name }: RunUnderWay,
  from: number,
  added: readonly Json[],
): Change | null {
  const mine = all.flatMap(({ run, item }, at) => (run === name ? [{ item, at }] : []));
  let same = 0;
  while (same < added.length && sameJson(mine[from + same]?.item, added[same])) same += 1;
  if (same === added.length) return null;
  const other = mine[from + same];
  const add = added.slice(same);
  if (!other) return { keep: all.length, add };
  return all.slice(other.at).every(({ run }) => run === name) ? { keep: other.at, add } : null;
}
