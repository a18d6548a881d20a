/**
 * Ingests spooled lines into the goal: sessions that started, ended or crashed, and touched files.
 *
 *     start ──▶ active ──files──▶ … ──end──▶ ended
 *                 │                            └──start again──▶ active, the same entry
 *                 ├──start again without an end──▶ crashed, then active again
 *                 ├──process gone, or no line for an hour──▶ crashed, its tasks are released
 *                 └──start in a worktree of another goal──▶ crashed, its tasks are released; active there
 *
 * Ingesting a line twice changes nothing. Files and ends are decided from the goal's state. Starts and notes
 * are not, so `once` saves an intent before them and looks for its event in the log after a crash.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type EndInput, type Goal, type NoteInput, type StartInput, UNKNOWN_OUTCOME } from "../goal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Actor, GoalState } from "../model/goal/index.ts";
import { isRelativePath, UNSEEN_HASH } from "../model/goal/index.ts";
import { redactSecrets } from "../model/secrets.ts";
import {
  isAgentGone,
  removeOldMarks,
  Spool,
  type SpooledLine,
  type SpoolLine,
  type TouchedFile,
  touchedFile,
} from "./spool.ts";

const WATCHER: Actor = { name: "holdfast", role: "supervisor" };

/**
 * Where a session started. All worktrees of a repository share one spool folder, and each may work on its own
 * goal. Without a recorded root, the folder of the current process counts.
 */
export interface SessionOrigin {
  readonly root: string | null;
  readonly goal: string | null;
}

export type GoalChoice = (origin: SessionOrigin) => string | null;

type ByActor<Input> = Input & { readonly by: Actor };

/** A goal, or its preview. A goal's act is durable when its promise resolves. */
export interface SessionRecorder {
  readonly state: GoalState;
  startSession(input: ByActor<StartInput>): unknown;
  noteSession(input: ByActor<NoteInput>): unknown;
  endSession(input: ByActor<EndInput>): unknown;
  crashSession(input: ByActor<{ session: string; notes?: string | null }>): unknown;
  recordFiles(
    input: ByActor<{
      session: string;
      files: readonly { path: string; act: "created" | "modified" | "deleted"; hash?: string }[];
    }>,
  ): unknown;
  reset(input: ByActor<{ task: string; why: string; force: true }>): unknown;
}

export interface IngestTarget {
  readonly choose: GoalChoice;
  /** The goal, to be written for this session, which started in the worktree `root`. */
  open(
    id: string,
    root: string | null,
    session: string,
  ): Promise<SessionRecorder & Pick<Goal, "seq" | "events">>;
  /** Called for each conversation that waits until a goal is chosen. */
  none(session: string): void;
}

type Warn = (error: unknown) => void;

export async function ingestSpools(
  target: IngestTarget,
  folder: string,
  now: number,
  warn: Warn,
): Promise<void> {
  await attempt(warn, "old marks", () => removeOldMarks(folder, now));
  for (const spool of Spool.all(folder)) {
    await attempt(warn, spool.name, () => ingestSpool(target, spool, now));
  }
}

export async function previewSpools(
  goal: SessionRecorder,
  choose: GoalChoice,
  folder: string,
  now: number,
  warn: Warn,
): Promise<void> {
  for (const spool of Spool.all(folder)) {
    await attempt(warn, spool.name, async () => {
      // A conversation that ended and is ingested need not be read.
      if (!spool.hasPending && !isActive(goal, spool)) return;
      const { all, pending } = spool.read();
      const lines = assignGoals(all, choose);
      const isPending = new Set(pending.map(({ end }) => end));
      const ours = lines.filter((each) => each.goal === goal.state.id && isPending.has(each.end));
      await ingestLines(goal, spool, { lines: ours, all }, (_, act) => act());
      await noticeCrash(goal, spool, lines, now);
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

async function ingestSpool(target: IngestTarget, spool: Spool, now: number): Promise<void> {
  const { all, pending, bytes } = spool.read();
  const lines = assignGoals(all, target.choose);
  const first = pending[0]?.end ?? Number.POSITIVE_INFINITY;
  let from = lines.findIndex(({ end }) => end >= first);
  while (from >= 0 && from < lines.length) {
    const { goal: id, root } = lines[from] as AssignedLine;
    if (id === null) {
      target.none(spool.name);
      return;
    }
    const next = lines.findIndex((each, index) => index > from && each.goal !== id);
    const run = lines.slice(from, next < 0 ? lines.length : next);
    const goal = await target.open(id, root, spool.name);
    await ingestLines(goal, spool, { lines: run, all }, (line, act) => once(goal, spool, line, act));
    spool.markIngested(next < 0 ? bytes : (run.at(-1)?.end ?? 0));
    from = next;
  }
  const ids = new Set(lines.flatMap(({ goal }) => goal ?? []));
  let isOver = true;
  for (const id of ids) {
    const { root = null } = lines.find((each) => each.goal === id) ?? {};
    const goal = await target.open(id, root, spool.name);
    await noticeCrash(goal, spool, lines, now);
    isOver &&= !isActive(goal, spool);
  }
  if (isAgentGone(all, now)) spool.append({ at: now, type: "crashed" });
  if (isOver) spool.removeIfOld(all, now);
}

const EVENT_OF: Readonly<Partial<Record<SpoolLine["type"], string>>> = {
  start: "session.started",
  checkpoint: "session.noted",
  failed: "session.noted",
  "call-ended": "session.noted",
};

/** Skips an act that a killed process already wrote: its intent is saved, and its event is in the log. */
async function once(
  goal: Pick<Goal, "seq" | "events"> & SessionRecorder,
  spool: Spool,
  { line, end }: SpooledLine,
  act: () => Promise<void>,
): Promise<void> {
  const type = EVENT_OF[line.type];
  if (type === undefined) return act();
  const before = spool.intent();
  if (before?.end === end && before.goal === goal.state.id) {
    for await (const [, event] of goal.events(before.seq)) {
      const { session } = event.data as { session?: unknown };
      if (event.type === type && session === spool.name) return;
    }
  }
  spool.saveIntent({ end, goal: goal.state.id, seq: goal.seq });
  await act();
}

async function ingestLines(
  goal: SessionRecorder,
  spool: Spool,
  { lines, all }: { readonly lines: readonly SpooledLine[]; readonly all: readonly SpooledLine[] },
  around: (line: SpooledLine, act: () => Promise<void>) => Promise<void>,
): Promise<void> {
  let files: FileBelow[] = [];
  const flush = async (): Promise<void> => {
    await recordFiles(goal, spool, files);
    files = [];
  };
  for (const spooled of lines) {
    const { root = process.cwd() } = spooled.line;
    if (spooled.line.type === "touched") files.push(...spooled.line.files.map((file) => ({ root, ...file })));
    else if (spooled.line.type === "patching") files.push(...patchedFiles(root, spooled.line.files));
    else {
      await flush();
      const { type } = spooled.line;
      const isNew = type === "start" && spooled.line.source !== "compact";
      if (isNew || type === "end") await noteUnknown(goal, spool, unknownCalls(all, spooled.end));
      await around(spooled, () => ingestLine(goal, spool, spooled.line));
    }
  }
  await flush();
}

async function ingestLine(goal: SessionRecorder, spool: Spool, line: SpoolLine): Promise<void> {
  if (line.type === "start") await startSession(goal, spool, line.source !== "compact");
  if (line.type === "checkpoint")
    await note(goal, spool, { notes: "its context was compacted", contextUsage: line.contextUsage });
  if (line.type === "failed")
    await note(goal, spool, { issues: [redactSecrets(`the agent stopped: ${line.reason}`).slice(0, 500)] });
  if (line.type === "call-ended") await note(goal, spool, { notes: `${line.outcome}: ${commandOf(line)}` });
  if (line.type === "end" && isActive(goal, spool))
    await goal.endSession({ session: spool.name, by: actorOf(spool) });
}

interface FileBelow extends TouchedFile {
  /** The worktree in which it was touched. */
  readonly root: string;
}

/** The files that a patch has changed since its hook. A patch that was refused has changed none. */
function patchedFiles(root: string, files: readonly TouchedFile[]): FileBelow[] {
  return files.flatMap(({ path, stamp: before }) => {
    const now = isRelativePath(path) ? touchedFile(root, path) : null;
    if (now === null || now.stamp === before) return [];
    return [{ root, ...now, ...(before === null && { created: true as const }) }];
  });
}

/** Null: it was deleted. `UNSEEN_HASH`: it has changed since, so its content then is not known. */
function hashOf({ root, path, stamp }: FileBelow): string | null {
  if (stamp === null) return null;
  try {
    if (touchedFile(root, path)?.stamp === stamp) return sha256(readFileSync(join(root, path)));
  } catch (error) {
    // It was removed meanwhile, or may not be read any more.
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
  }
  return UNSEEN_HASH;
}

/** Calls that started before `end` and never ended: the agent died, or was interrupted. */
function unknownCalls(all: readonly SpooledLine[], end = Number.POSITIVE_INFINITY): string[] {
  const ended = new Set(all.flatMap(({ line }) => (line.type === "call-ended" ? line.call : [])));
  const open = all.flatMap(({ line, end: at }) =>
    line.type === "call-started" && at <= end && !ended.has(line.call) ? commandOf(line) : [],
  );
  return [...new Set(open)].slice(-MAX_UNKNOWN);
}

const MAX_UNKNOWN = 5;
const MAX_COMMAND = 200;

function commandOf({ command }: { readonly command: string }): string {
  return redactSecrets(command).slice(0, MAX_COMMAND);
}

/** Skips calls that the session already has, so that a repeated pass changes nothing. */
async function noteUnknown(goal: SessionRecorder, spool: Spool, commands: readonly string[]): Promise<void> {
  if (!isActive(goal, spool)) return;
  const known = goal.state.history.get(spool.name)?.issues ?? [];
  const issues = commands.map((each) => UNKNOWN_OUTCOME + each).filter((each) => !known.includes(each));
  if (issues.length > 0) await goal.noteSession({ session: spool.name, by: actorOf(spool), issues });
}

function actorOf({ name }: Spool): Actor {
  return { name, role: "worker" };
}

function isActive(goal: SessionRecorder, { name }: Spool): boolean {
  return goal.state.history.get(name)?.status === "active";
}

/** Starting an active session again means that its end was never recorded: it crashed. */
async function startSession(goal: SessionRecorder, spool: Spool, isFresh: boolean): Promise<void> {
  if (isActive(goal, spool)) {
    if (!isFresh) return;
    const notes = "it started again without having ended";
    await goal.crashSession({ session: spool.name, notes, by: WATCHER });
  }
  await goal.startSession({ session: spool.name, agent: spool.agent, by: actorOf(spool) });
}

async function note(
  goal: SessionRecorder,
  spool: Spool,
  input: { notes?: string; issues?: string[]; contextUsage?: number | null },
): Promise<void> {
  await startSession(goal, spool, false);
  await goal.noteSession({ session: spool.name, by: actorOf(spool), ...input });
}

/**
 * Records the last content of each file. A file that the goal already has so is skipped. So is one that has
 * changed since: the goal's hash of it differs from the file, as it should.
 */
async function recordFiles(
  goal: SessionRecorder,
  spool: Spool,
  touched: readonly FileBelow[],
): Promise<void> {
  const last = new Map(touched.filter(({ path }) => isRelativePath(path)).map((each) => [each.path, each]));
  const hashed = [...last.values()].map((each) => ({ path: each.path, hash: hashOf(each) }));
  const changed = hashed.filter(({ path, hash }) => {
    const known = goal.state.files.get(path);
    if (!known || known.session !== spool.name) return true;
    return known.hash !== hash && (known.hash === null || hash !== UNSEEN_HASH);
  });
  if (changed.length === 0) return;
  const made = new Set(touched.filter(({ created }) => created).map(({ path }) => path));
  await startSession(goal, spool, false);
  const files = changed.map(({ path, hash }) => {
    if (hash === null) return { path, act: "deleted" as const };
    const isNew = made.has(path) && !goal.state.files.has(path);
    return { path, act: isNew ? ("created" as const) : ("modified" as const), hash };
  });
  await goal.recordFiles({ files, session: spool.name, by: actorOf(spool) });
}

async function noticeCrash(
  goal: SessionRecorder,
  spool: Spool,
  lines: readonly AssignedLine[],
  now: number,
): Promise<void> {
  const last = lines.at(-1);
  if (!last || !isActive(goal, spool)) return;
  if (last.goal !== goal.state.id) {
    if (last.goal !== null) await crash(goal, spool, `it continued with goal ${last.goal}`);
    return;
  }
  if (!isAgentGone(lines, now)) return;
  await noteUnknown(goal, spool, unknownCalls(lines));
  await crash(goal, spool, `it never ended; last seen ${new Date(last.line.at).toISOString()}`);
}

async function crash(goal: SessionRecorder, spool: Spool, notes: string): Promise<void> {
  await goal.crashSession({ session: spool.name, notes, by: WATCHER });
  // Its tasks are released. If the session wakes up, its token is outdated and it can submit nothing.
  const held = [...goal.state.tasks.values()].filter(({ claim }) => claim?.session === spool.name);
  for (const { id } of held) {
    await goal.reset({ task: id, why: `session ${spool.name} crashed`, force: true, by: WATCHER });
  }
}

interface AssignedLine extends SpooledLine {
  readonly goal: string | null;
  readonly root: string | null;
}

/** Drops files that the agent touched in a worktree of another goal: they belong to neither. */
function assignGoals(all: readonly SpooledLine[], choose: GoalChoice): AssignedLine[] {
  let origin: SessionOrigin | null = null;
  return all.map(({ line, end }) => {
    const root = line.root ?? null;
    if (line.type === "start") origin = { root, goal: line.goal ?? null };
    origin ??= { root, goal: null };
    const goal = choose(origin);
    const isElsewhere = root !== origin.root && choose({ root, goal: null }) !== goal;
    const hasFiles = line.type === "touched" || line.type === "patching";
    const kept = hasFiles && isElsewhere ? { ...line, files: [] } : line;
    return { line: kept, end, goal, root: origin.root };
  });
}
