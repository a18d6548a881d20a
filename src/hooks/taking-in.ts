/**
 * Takes what hooks left into the goal: sessions that began and ended, files that were touched, sessions that never said
 * that they ended.
 *
 *     start ──▶ the session is active ──files──▶ … ──end──▶ ended
 *                  │                                          └──start again──▶ active, the same entry
 *                  ├──start again without an end──▶ crashed, then active again
 *                  └──its process is gone, or no sign of life for an hour──▶ crashed, its tasks go back
 *
 * Every act is decided from the goal's state, so taking the same lines in twice changes nothing.
 */

import type { EndInput, NoteInput, StartInput } from "../goal/index.ts";
import type { By, GoalState } from "../model/index.ts";
import { isRelativePath } from "../model/index.ts";
import { removeOldMarks } from "./brief-once.ts";
import { isGone } from "./process-above.ts";
import { Spool, type SpoolLine, type TouchedFile } from "./spool.ts";

/** Without the agent's process to look at, this long without a sign of life means that it is gone. */
const SILENT_MS = 60 * 60_000;

const WATCHER: By = { name: "holdfast", role: "supervisor" };

type Said<Input> = Input & { readonly by: By };

/** What is told of sessions: a goal, or the picture of one. Each act is durable, or part of the picture, when it is over. */
export interface Recording {
  readonly state: GoalState;
  startSession(input: Said<StartInput>): unknown;
  noteSession(input: Said<NoteInput>): unknown;
  endSession(input: Said<EndInput>): unknown;
  crashSession(input: Said<{ session: string; notes?: string | null }>): unknown;
  recordFiles(
    input: Said<{
      session: string;
      files: readonly { path: string; act: "modified" | "deleted"; hash?: string }[];
    }>,
  ): unknown;
  reset(input: Said<{ task: string; why: string; force: true }>): unknown;
}

export async function takeIn(goal: Recording, folder: string, now: number): Promise<void> {
  removeOldMarks(folder, now);
  for (const spool of Spool.all(folder)) {
    const { lines, untaken, bytes } = spool.read();
    if (untaken.length > 0) {
      await takeLines(goal, spool, untaken);
      spool.noteTaken(bytes);
    }
    await noticeCrash(goal, spool, lines, now);
    if (!isActive(goal, spool)) spool.removeIfOver(lines, now);
  }
}

/** The same for a picture: what was left stays where it is. */
export async function foresee(goal: Recording, folder: string, now: number): Promise<void> {
  for (const spool of Spool.all(folder)) {
    if (!mayTell(goal, spool)) continue;
    const { lines, untaken } = spool.read();
    await takeLines(goal, spool, untaken);
    await noticeCrash(goal, spool, lines, now);
  }
}

/** A conversation that is over and taken in has nothing more to say, and need not be read. */
function mayTell(goal: Recording, spool: Spool): boolean {
  return spool.hasUntaken || isActive(goal, spool);
}

async function takeLines(goal: Recording, spool: Spool, untaken: readonly SpoolLine[]): Promise<void> {
  let files: TouchedFile[] = [];
  const flush = async (): Promise<void> => {
    await recordFiles(goal, spool, files);
    files = [];
  };
  for (const line of untaken) {
    if (line.type === "touched") {
      files.push(...line.files);
      continue;
    }
    await flush();
    if (line.type === "start") await begin(goal, spool, line.source !== "compact");
    if (line.type === "checkpoint")
      await note(goal, spool, { notes: "its context was compacted", contextUsage: line.contextUsage });
    if (line.type === "failed")
      await note(goal, spool, { issues: [`the agent stopped: ${line.reason}`.slice(0, 500)] });
    if (line.type === "end" && isActive(goal, spool))
      await goal.endSession({ session: spool.name, by: byOf(spool) });
  }
  await flush();
}

function byOf({ name }: Spool): By {
  return { name, role: "worker" };
}

function isActive(goal: Recording, { name }: Spool): boolean {
  return goal.state.history.get(name)?.status === "active";
}

/** Beginning what is active already means that its end never came. */
async function begin(goal: Recording, spool: Spool, isFresh: boolean): Promise<void> {
  if (isActive(goal, spool)) {
    if (!isFresh) return;
    await goal.crashSession({ session: spool.name, notes: "it began again and had not ended", by: WATCHER });
  }
  await goal.startSession({ session: spool.name, agent: spool.agent, by: byOf(spool) });
}

/** A session that was first heard of in its middle is begun here. */
async function ensureActive(goal: Recording, spool: Spool): Promise<void> {
  if (!isActive(goal, spool)) await begin(goal, spool, false);
}

async function note(
  goal: Recording,
  spool: Spool,
  said: { notes?: string; issues?: string[]; contextUsage?: number | null },
): Promise<void> {
  await ensureActive(goal, spool);
  await goal.noteSession({ session: spool.name, by: byOf(spool), ...said });
}

/** The last look at each file counts; what the goal knows already is not said again. */
async function recordFiles(goal: Recording, spool: Spool, touched: readonly TouchedFile[]): Promise<void> {
  const last = new Map(touched.filter(({ path }) => isRelativePath(path)).map((each) => [each.path, each]));
  const news = [...last.values()].filter(({ path, hash }) => {
    const known = goal.state.files.get(path);
    return !known || known.hash !== hash || known.session !== spool.name;
  });
  if (news.length === 0) return;
  await ensureActive(goal, spool);
  const files = news.map(({ path, hash }) => {
    return hash === null ? { path, act: "deleted" as const } : { path, act: "modified" as const, hash };
  });
  await goal.recordFiles({ files, session: spool.name, by: byOf(spool) });
}

async function noticeCrash(
  goal: Recording,
  spool: Spool,
  lines: readonly SpoolLine[],
  now: number,
): Promise<void> {
  const last = lines.at(-1);
  if (!last || last.type === "end" || !isActive(goal, spool)) return;
  const start = lines.findLast((line) => line.type === "start");
  const above = start?.type === "start" ? start.process : null;
  const isSilent = now - last.at > SILENT_MS;
  const isDead = above === null ? isSilent : isGone(above);
  if (!isDead) return;
  const seen = new Date(last.at).toISOString();
  await goal.crashSession({ session: spool.name, notes: `it never ended; last seen ${seen}`, by: WATCHER });
  // What it had goes back; should it wake up after all, its token is old and it can hand in nothing.
  const held = [...goal.state.tasks.values()].filter(({ claim }) => claim?.session === spool.name);
  for (const { id } of held) {
    await goal.reset({ task: id, why: `session ${spool.name} crashed`, force: true, by: WATCHER });
  }
}
