/**
 * The files of claimed tasks, in a file that the hook before an edit can read without the store:
 * `.holdfast/hooks/claims.json`. Every operation that writes a goal renews it. It only serves a warning: if
 * it is missing, damaged or old, an edit goes ahead without one.
 */

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GoalState } from "../model/goal/index.ts";
import { isAgentGone, SILENT_MS, Spool } from "./spool.ts";

export interface ClaimedTask {
  readonly task: string;
  readonly title: string;
  readonly by: string;
  readonly session: string | null;
  /** The last sign of life. */
  readonly at: number;
  readonly files: readonly string[];
}

type Claims = Readonly<Record<string, readonly ClaimedTask[]>>;

/** For a project whose agents have hooks. */
export function saveClaims(folder: string, state: GoalState): void {
  if (!existsSync(folder)) return;
  const before = readClaims(folder);
  const claims = claimedTasks(state);
  if (JSON.stringify(before[state.id] ?? []) === JSON.stringify(claims)) return;
  const file = join(folder, "claims.json");
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify({ ...before, [state.id]: claims }), { mode: 0o600 });
  renameSync(temporary, file);
}

function claimedTasks(state: GoalState): ClaimedTask[] {
  return [...state.tasks.values()].flatMap(({ id, title, claim, files }) => {
    if (claim === null) return [];
    const recorded = [...state.files.values()].filter(({ task }) => task === id).map(({ path }) => path);
    const { by, session, progressAt } = claim;
    const all = [...new Set([...files, ...recorded])];
    return [{ task: id, title, by: by.name, session, at: progressAt, files: all }];
  });
}

/** The claimed task of another live agent that has this file: by its path, or by a folder above it. */
export function claimedByOther(
  folder: string,
  session: string,
  path: string,
  now: number,
): ClaimedTask | null {
  const isInside = (each: string): boolean =>
    path === each || path.startsWith(`${each.replace(/\/+$/, "")}/`);
  const all = Object.values(readClaims(folder)).flat();
  const found = all.find(
    (each) => each.by !== session && each.session !== session && each.files.some(isInside),
  );
  return found && isAlive(folder, found, now) ? found : null;
}

/** Without a spool there is no process to look for, so a claim counts for an hour. */
function isAlive(folder: string, { session, at }: ClaimedTask, now: number): boolean {
  const spool = Spool.all(folder).find(({ name }) => name === session);
  if (!spool) return now - at < SILENT_MS;
  const { all } = spool.read();
  const last = all.at(-1)?.line.type;
  return last !== "end" && last !== "crashed" && !isAgentGone(all, now);
}

function readClaims(folder: string): Claims {
  try {
    const value: unknown = JSON.parse(readFileSync(join(folder, "claims.json"), "utf8"));
    if (typeof value !== "object" || value === null) return {};
    const lists = Object.entries(value).filter(([, list]) => Array.isArray(list) && list.every(isClaimed));
    return Object.fromEntries(lists);
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}

function isClaimed(value: unknown): value is ClaimedTask {
  const { task, title, by, at, files } = (value ?? {}) as Record<string, unknown>;
  const isNamed = [task, title, by].every((each) => typeof each === "string");
  return isNamed && typeof at === "number" && Array.isArray(files);
}
