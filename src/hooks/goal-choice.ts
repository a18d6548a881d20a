/**
 * Which goal a spooled line belongs to. All worktrees of a repository share one spool folder, and each may
 * work on its own goal. So the start line of a session records its worktree and the goal chosen there.
 */

import { currentGoal, knownGoals, type StorePlace } from "../operations/index.ts";
import type { StreamRow } from "../store.ts";
import type { SpooledLine } from "./spool.ts";

/** Without a recorded root, the folder of the current process counts. */
export interface SessionOrigin {
  readonly root: string | null;
  readonly goal: string | null;
}

export type GoalChoice = (origin: SessionOrigin) => string | null;

export function chosenGoal(place: StorePlace): string | null {
  return process.env["HOLDFAST_GOAL"] || currentGoal(place);
}

export function goalChoice(place: StorePlace, rows: readonly StreamRow[]): GoalChoice {
  const cache = new Map<string, string | null>();
  const choose = ({ root, goal }: SessionOrigin): string | null => {
    const chosen = goal ?? (root === null ? chosenGoal(place) : currentGoal({ ...place, root }));
    return knownGoals(rows, chosen).current;
  };
  return (origin) => {
    const key = JSON.stringify([origin.root, origin.goal]);
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    const chosen = choose(origin);
    cache.set(key, chosen);
    return chosen;
  };
}

export interface AssignedLine extends SpooledLine {
  readonly goal: string | null;
  readonly root: string | null;
}

/** Drops files that the agent touched in a worktree of another goal: they belong to neither. */
export function assignGoals(all: readonly SpooledLine[], choose: GoalChoice): AssignedLine[] {
  let origin: SessionOrigin | null = null;
  return all.map(({ line, end }) => {
    const root = line.root ?? null;
    if (line.type === "start") origin = { root, goal: line.goal ?? null };
    origin ??= { root, goal: null };
    const goal = choose(origin);
    const isElsewhere = root !== origin.root && choose({ root, goal: null }) !== goal;
    const kept = line.type === "touched" && isElsewhere ? { ...line, files: [] } : line;
    return { line: kept, end, goal, root: origin.root };
  });
}
