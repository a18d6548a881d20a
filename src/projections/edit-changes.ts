/**
 * What a person changed in a rendered file, as changes to the goal.
 *
 * A change has a key, which says what it is about, and a value, which says what it makes of it. The same function finds
 * what the person changed since the base and what the goal itself changed since then; where both have a key, they met.
 * A change without an act is one that the goal computes: it can be noticed, not taken in.
 */

import type { Act } from "../goal/index.ts";
import type { Actor, GoalState } from "../model/goal/index.ts";
import { canonicalText } from "../model/json.ts";

export interface Change {
  readonly key: string;
  readonly value: string;
  /** For reports: what it is, in words. */
  readonly what: string;
  readonly act: ((state: GoalState, by: Actor) => Act<unknown>) | null;
}

export function change(key: string, value: unknown, what: string, act: Change["act"]): Change {
  return { key, value: canonicalText(value), what, act };
}

export interface Merged {
  /** To be taken in, in the order in which they stand in the file. */
  readonly mine: readonly Change[];
  /** Keys that both changed, to different ends: the person's word counts, the other is in the log. */
  readonly conflicts: readonly string[];
  readonly left: readonly string[];
}

/** `theirs` and `ours` are both counted from the same base. */
export function mergeChanges(theirs: readonly Change[], ours: readonly Change[]): Merged {
  const known = new Map(ours.map(({ key, value }) => [key, value]));
  const news = theirs.filter(({ key, value }) => known.get(key) !== value);
  return {
    mine: news.filter(({ act }) => act !== null),
    conflicts: news.filter(({ key, act }) => act !== null && known.has(key)).map(({ what }) => what),
    left: news.filter(({ act }) => act === null).map(({ what }) => what),
  };
}
