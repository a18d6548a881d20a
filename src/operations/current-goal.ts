/**
 * The goal of a worktree, chosen with `goal use`. A file beside the store maps worktree paths to goals, so
 * that each worktree of a repository has its own. Hooks and `status` load this file, so it needs no schemas.
 */

import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GoalChoice, SessionOrigin } from "../agent-sessions/index.ts";
import { allRows } from "../journal/index.ts";
import { streamId } from "../model/names.ts";
import type { Store, StreamRow } from "../store.ts";
import type { StorePlace } from "./store-place.ts";

export function currentGoal({ home, root }: StorePlace): string | null {
  return readChosen(home)[root] ?? null;
}

export function setCurrentGoal({ home, root }: StorePlace, goal: string | null): void {
  const { [root]: _old, ...others } = readChosen(home);
  const chosen = goal === null ? others : { ...others, [root]: goal };
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const file = join(home, "current-goals.json");
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, `${JSON.stringify(chosen, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, file);
}

/** A store and the namespace to read in it. A journal is one. */
export interface Source {
  readonly store: Store;
  readonly namespace: string;
}

export function goalRows({ store, namespace }: Source): Promise<StreamRow[]> {
  const request = { of: "streams", namespace, kind: "goal", limit: 500 } as const;
  return allRows((from) => store.list<"streams">({ ...request, ...from }));
}

export interface KnownGoals {
  readonly all: readonly string[];
  /** Goals that are not done, or all if every one is. */
  readonly open: readonly string[];
  /** The default: the chosen one, else the only open one. */
  readonly current: string | null;
}

export function knownGoals(rows: readonly StreamRow[], chosen: string | null): KnownGoals {
  const all = rows.map(({ stream }) => streamId(stream));
  const unfinished = rows.filter(({ facets }) => facets.status !== "done");
  const open = unfinished.length > 0 ? unfinished.map(({ stream }) => streamId(stream)) : all;
  if (chosen !== null && all.includes(chosen)) return { all, open, current: chosen };
  return { all, open, current: open.length === 1 ? (open[0] ?? null) : null };
}

export function chosenGoal(place: StorePlace): string | null {
  return process.env["HOLDFAST_GOAL"] || currentGoal(place);
}

/** The goal of a session: the one that its start recorded, else that of its worktree. */
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

function readChosen(home: string): Record<string, string> {
  try {
    return JSON.parse(readFileSync(join(home, "current-goals.json"), "utf8")) as Record<string, string>;
  } catch (error) {
    // No file yet, or a broken one: no goal is chosen.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}
