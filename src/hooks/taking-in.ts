/**
 * Takes what hooks left into the goal: sessions that began and ended, files that were touched, sessions that never said
 * that they ended.
 *
 *     start ──▶ the session is active ──files──▶ … ──end──▶ ended
 *                  │                                          └──start again──▶ active, the same entry
 *                  ├──start again without an end──▶ crashed, then active again
 *                  │──its process is gone, or no sign of life for an hour──▶ crashed, its tasks go back
 *                  └──start in a worktree of another goal──▶ crashed, its tasks go back; active there
 *
 * Whose goal a line is, is said by the start before it (`goal-choice.ts`). Files and ends are decided from the goal's
 * state, so that taking them in twice changes nothing; before all else it is noted what is about to be done, so that one
 * that was killed is not done twice. What one conversation left can keep no other out.
 */

import type { EndInput, Goal, NoteInput, StartInput } from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Actor, GoalState } from "../model/goal/index.ts";
import { isRelativePath } from "../model/goal/index.ts";
import { removeOldMarks } from "./brief-once.ts";
import { type GoalChoice, type Owned, owned } from "./goal-choice.ts";
import { processStatus } from "./process-above.ts";
import { type Left, Spool, type SpoolLine, type TouchedFile } from "./spool.ts";

/** Without the agent's process to look at, this long without a sign of life means that it is gone. */
const SILENT_MS = 60 * 60_000;

const WATCHER: Actor = { name: "holdfast", role: "supervisor" };

type Said<Input> = Input & { readonly by: Actor };

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

/** Where lines are taken in for good. */
export interface Goals {
  readonly choose: GoalChoice;
  /** `root` is the worktree that it is written from. */
  open(id: string, root: string | null): Promise<Recording & Pick<Goal, "seq" | "events">>;
  /** Told of each conversation that has to wait until a goal is chosen. */
  none(session: string): void;
}

type Warn = (error: unknown) => void;

export async function takeIn(goals: Goals, folder: string, now: number, warn: Warn): Promise<void> {
  await attempt(warn, "old marks", () => removeOldMarks(folder, now));
  for (const spool of Spool.all(folder)) {
    await attempt(warn, spool.name, () => takeSpool(goals, spool, now));
  }
}

/** The same for a picture of one goal: what was left stays where it is. */
export async function foresee(
  goal: Recording,
  choose: GoalChoice,
  folder: string,
  now: number,
  warn: Warn,
): Promise<void> {
  for (const spool of Spool.all(folder)) {
    await attempt(warn, spool.name, async () => {
      if (!mayTell(goal, spool)) return;
      const { all, untaken } = spool.read();
      const lines = owned(all, choose);
      const isUntaken = new Set(untaken.map(({ end }) => end));
      const ours = lines.filter((each) => each.goal === goal.state.id);
      await takeLines(
        goal,
        spool,
        ours.filter(({ end }) => isUntaken.has(end)),
        (_, act) => act(),
      );
      await noticeLoss(goal, spool, lines, now);
    });
  }
}

async function attempt(warn: Warn, what: string, act: () => unknown): Promise<void> {
  try {
    await act();
  } catch (error) {
    const why = `${what}: ${error instanceof Error ? error.message : String(error)}`;
    warn(
      isHoldfastError(error)
        ? new HoldfastError(error.code, why, { hint: error.hint, cause: error })
        : new Error(why, { cause: error }),
    );
  }
}

async function takeSpool(goals: Goals, spool: Spool, now: number): Promise<void> {
  const { all, untaken, bytes } = spool.read();
  const lines = owned(all, goals.choose);
  const first = untaken[0]?.end ?? Number.POSITIVE_INFINITY;
  let from = lines.findIndex(({ end }) => end >= first);
  while (from >= 0 && from < lines.length) {
    const { goal: id, root } = lines[from] as Owned;
    if (id === null) {
      goals.none(spool.name);
      return;
    }
    const next = lines.findIndex((each, index) => index > from && each.goal !== id);
    const run = lines.slice(from, next < 0 ? lines.length : next);
    const goal = await goals.open(id, root);
    await takeLines(goal, spool, run, (left, act) => once(goal, spool, left, act));
    spool.noteTaken(next < 0 ? bytes : (run.at(-1)?.end ?? 0));
    from = next;
  }
  const ids = new Set(lines.flatMap(({ goal }) => goal ?? []));
  let isOver = true;
  for (const id of ids) {
    const goal = await goals.open(id, lines.find((each) => each.goal === id)?.root ?? null);
    await noticeLoss(goal, spool, lines, now);
    isOver &&= !isActive(goal, spool);
  }
  if (isOver) spool.removeIfOver(all, now);
}

/** What the log says of an act that is not decided from the state. */
const RECORDED: Readonly<Partial<Record<SpoolLine["type"], string>>> = {
  start: "session.started",
  checkpoint: "session.noted",
  failed: "session.noted",
};

/** One that was killed after it acted, and before it noted so, has left what it was about to do. */
async function once(
  goal: Pick<Goal, "seq" | "events"> & Recording,
  spool: Spool,
  { line, end }: Left,
  act: () => Promise<void>,
): Promise<void> {
  const type = RECORDED[line.type];
  if (type === undefined) return act();
  const before = spool.taking();
  if (before?.end === end && before.goal === goal.state.id) {
    for await (const [, event] of goal.events(before.seq)) {
      const { session } = event.data as { session?: unknown };
      if (event.type === type && session === spool.name) return;
    }
  }
  spool.noteTaking({ end, goal: goal.state.id, seq: goal.seq });
  await act();
}

/** A conversation that is over and taken in has nothing more to say, and need not be read. */
function mayTell(goal: Recording, spool: Spool): boolean {
  return spool.hasUntaken || isActive(goal, spool);
}

async function takeLines(
  goal: Recording,
  spool: Spool,
  lines: readonly Left[],
  around: (left: Left, act: () => Promise<void>) => Promise<void>,
): Promise<void> {
  let files: TouchedFile[] = [];
  const flush = async (): Promise<void> => {
    await recordFiles(goal, spool, files);
    files = [];
  };
  for (const left of lines) {
    if (left.line.type === "touched") files.push(...left.line.files);
    else {
      await flush();
      await around(left, () => takeLine(goal, spool, left.line));
    }
  }
  await flush();
}

async function takeLine(goal: Recording, spool: Spool, line: SpoolLine): Promise<void> {
  if (line.type === "start") await begin(goal, spool, line.source !== "compact");
  if (line.type === "checkpoint")
    await note(goal, spool, { notes: "its context was compacted", contextUsage: line.contextUsage });
  if (line.type === "failed")
    await note(goal, spool, { issues: [`the agent stopped: ${line.reason}`.slice(0, 500)] });
  if (line.type === "end" && isActive(goal, spool))
    await goal.endSession({ session: spool.name, by: byOf(spool) });
}

function byOf({ name }: Spool): Actor {
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

/** It is gone from this goal: its agent is, or went on with another one. */
async function noticeLoss(
  goal: Recording,
  spool: Spool,
  lines: readonly Owned[],
  now: number,
): Promise<void> {
  const last = lines.at(-1);
  if (!last || !isActive(goal, spool)) return;
  if (last.goal !== goal.state.id) {
    if (last.goal !== null) await crash(goal, spool, `it went on with goal ${last.goal}`);
    return;
  }
  if (last.line.type === "end") return;
  const start = lines.findLast(({ line }) => line.type === "start")?.line;
  const above = start?.type === "start" ? start.process : null;
  const life = above === null ? "unknown" : processStatus(above);
  const isSilent = now - last.line.at > SILENT_MS;
  if (life === "alive" || (life === "unknown" && !isSilent)) return;
  await crash(goal, spool, `it never ended; last seen ${new Date(last.line.at).toISOString()}`);
}

async function crash(goal: Recording, spool: Spool, notes: string): Promise<void> {
  await goal.crashSession({ session: spool.name, notes, by: WATCHER });
  // What it had goes back; should it wake up after all, its token is old and it can hand in nothing.
  const held = [...goal.state.tasks.values()].filter(({ claim }) => claim?.session === spool.name);
  for (const { id } of held) {
    await goal.reset({ task: id, why: `session ${spool.name} crashed`, force: true, by: WATCHER });
  }
}
