/**
 * Which goal a line is for. All worktrees of a repository share the folder in which hooks leave lines, and each worktree may
 * work on a goal of its own; so a session's start says where it began and which goal was chosen there, and whoever takes the
 * lines in goes by that, wherever it runs itself.
 */

import { currentGoal, knownGoals, type StorePlace } from "../operations/index.ts";
import type { StreamRow } from "../store.ts";
import type { Left } from "./spool.ts";

/** Where a session began. Earlier versions did not say: then it counts as begun where it is asked for. */
export interface Basis {
  readonly root: string | null;
  readonly goal: string | null;
}

/** Null as long as none is chosen there. */
export type GoalChoice = (basis: Basis) => string | null;

/** What a hook says of the place it runs in. */
export function chosenGoal(place: StorePlace): string | null {
  return process.env["HOLDFAST_GOAL"] || currentGoal(place);
}

export function goalChoice(place: StorePlace, rows: readonly StreamRow[]): GoalChoice {
  const known = new Map<string, string | null>();
  const choose = ({ root, goal }: Basis): string | null => {
    const chosen = goal ?? (root === null ? chosenGoal(place) : currentGoal({ ...place, root }));
    return knownGoals(rows, chosen).current;
  };
  return (basis) => {
    const key = JSON.stringify([basis.root, basis.goal]);
    const found = known.get(key);
    if (found !== undefined) return found;
    const chosen = choose(basis);
    known.set(key, chosen);
    return chosen;
  };
}

export interface Owned extends Left {
  readonly goal: string | null;
  readonly root: string | null;
}

/**
 * Each line with the goal of the session's start. Files that an agent touched meanwhile in a worktree of another goal are
 * left out: they are not that goal's, and the session is not the other's.
 */
export function owned(all: readonly Left[], choose: GoalChoice): Owned[] {
  let basis: Basis | null = null;
  return all.map(({ line, end }) => {
    const root = line.root ?? null;
    if (line.type === "start") basis = { root, goal: line.goal ?? null };
    basis ??= { root, goal: null };
    const goal = choose(basis);
    const isElsewhere = root !== basis.root && choose({ root, goal: null }) !== goal;
    const seen = line.type === "touched" && isElsewhere ? { ...line, files: [] } : line;
    return { line: seen, end, goal, root: basis.root };
  });
}
