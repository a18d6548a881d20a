/**
 * Keeps goals in step with the coding agents of this machine: ingests the lines that their hooks left, and
 * notices agents that are gone. The background process of a hook does it, and so does every command that
 * shows a goal, so that `status`, `brief` and `next` never call a dead agent active.
 *
 * A rendering of a goal goes to the worktree in which the session started. A session that only started or
 * ended changes no file: it left nothing that another clone needs.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { hasNews, ingestSpools, saveClaims, spoolFolder } from "../agent-sessions/index.ts";
import { type Goal, goalCore, openGoal, resetLostClaims } from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Actor } from "../model/goal/index.ts";
import { projectPlace } from "../project-place.ts";
import { withFileLock } from "../state-files/index.ts";
import type { StreamRow } from "../store.ts";
import { goalChoice, goalRows, knownGoals } from "./current-goal.ts";
import { syncPlanningFolder } from "./planning-folder.ts";
import type { StorePlace } from "./store-place.ts";

const WATCHER: Actor = { name: "holdfast", role: "supervisor" };

/** A command does not wait for the background process: what it ingests is shown by the next command. */
const SHORT_MS = 500;

interface IngestOptions {
  readonly warn: (error: unknown) => void;
  readonly say: (text: string) => void;
  readonly waitMs?: number;
}

/** Ingests all lines, under the lock of the spool folder. */
export async function ingestAgents(
  journal: Journal,
  place: StorePlace,
  { waitMs, ...reporter }: IngestOptions,
): Promise<void> {
  const folder = spoolFolder(place.home);
  if (!existsSync(folder)) return;
  const limit = waitMs === undefined ? {} : { waitMs };
  await withFileLock(join(folder, "ingest"), () => ingest(journal, place, reporter), limit);
}

/** For a command that shows goals. Cheap if there is nothing to ingest and every agent lives. */
export async function ingestNews(journal: Journal, place: StorePlace): Promise<void> {
  const { warn } = journal;
  try {
    if (!hasNews(spoolFolder(place.home), Date.now())) return;
    await ingestAgents(journal, place, { warn, say: () => undefined, waitMs: SHORT_MS });
  } catch (error) {
    // The background process has the lock, or the store cannot be written: the answer is a little older.
    if (!isHoldfastError(error)) throw error;
  }
}

/** For `status`, which only reads: ingests, and puts back the tasks whose holder is gone. */
export async function putBackAbandoned(journal: Journal, place: StorePlace): Promise<void> {
  if (!place.isNamed) await ingestNews(journal, place);
  const { open } = knownGoals(await goalRows(journal), null);
  for (const id of open) {
    const goal = await openGoal(journal, id, { by: WATCHER, root: place.root, stale: "use" });
    await resetLostClaims(goal, WATCHER, { staleAfterMs: null, keepsImported: true });
  }
}

interface OpenedGoal {
  readonly goal: Goal;
  readonly root: string;
  readonly seq: number;
  readonly sessions: Set<string>;
}

async function ingest(
  journal: Journal,
  place: StorePlace,
  { warn, say }: Omit<IngestOptions, "waitMs">,
): Promise<void> {
  const rows = await goalRows(journal);
  const opened = new Map<string, OpenedGoal>();
  const open = async (id: string, from: string | null, session: string): Promise<Goal> => {
    const root = ownWorktree(place, from);
    const key = JSON.stringify([id, root]);
    const known = opened.get(key);
    known?.sessions.add(session);
    if (known) return known.goal;
    const goal = await openGoal(journal, id, { by: WATCHER, root, stale: "use" });
    goalCore(goal).isObserver = true;
    opened.set(key, { goal, root, seq: goal.seq, sessions: new Set([session]) });
    return goal;
  };
  const none = (session: string): void => say(`session ${session}: not ingested (${whyNoGoal(rows)})`);
  await ingestSpools(
    { choose: goalChoice(place, rows), open, none },
    spoolFolder(place.home),
    Date.now(),
    warn,
  );
  if (place.isNamed) return;
  for (const { goal } of opened.values()) saveClaims(spoolFolder(place.home), goal.state);
  for (const each of opened.values())
    if (await hasWork(each)) await syncPlanningFolder(each.goal, each.root, { home: place.home });
}

/** The worktree of a session. A folder that was copied with its spools has roots of the original. */
function ownWorktree(place: StorePlace, root: string | null): string {
  if (root === null || !existsSync(root)) return place.root;
  return projectPlace(root).home === place.home ? root : place.root;
}

const IDLE = ["session.started", "session.ended"];

/** Whether the sessions of this worktree left more than a start and an end. */
async function hasWork({ goal, seq, sessions }: OpenedGoal): Promise<boolean> {
  for await (const [, { type, data }] of goal.events(seq)) {
    const { session } = data as { session?: unknown };
    if (sessions.has(String(session)) && !IDLE.includes(type)) return true;
  }
  return false;
}

function whyNoGoal(rows: readonly StreamRow[]): string {
  const { open } = knownGoals(rows, null);
  if (open.length === 0) return "there is no goal yet. Create one: holdfast goal new";
  return `several goals are open: ${open.slice(0, 20).join(", ")}. Choose one: holdfast goal use <goal>`;
}
