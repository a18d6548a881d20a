/**
 * The protocol of human edits.
 *
 * A file whose digest does not fit was written by somebody else. What happens to it:
 *
 *     1 kept      a second name for the file as it is: `STATE.md.unread-<hash of its content>`
 *     2 read      bounded, and against its schema
 *     3 merged    base = this file at the revision it carries, theirs = the file, ours = the goal now
 *     4 taken     all changes in one commit by a human, with an `edit.taken` that holds the hash of the content
 *     5 rendered  the file is written again by the usual protocol, which now says what the person said
 *     6 let go    the second name is removed, if everything was taken in
 *
 * Invariants: no byte that a person wrote is gone before it is in the log or under the second name. An edit is taken in
 * once: the log knows the hash. What both changed becomes what the person wrote; the other word stays in the log.
 *
 * A crash after 1 leaves a second name that nobody needs; after 4, a file that is recognised by its hash and only
 * rendered again; after 5, as after 1. A person who saves again from an old buffer is merged with the base of that
 * buffer: what is in the goal already is not added twice, because every act looks before it adds.
 *
 * Not an edit by a person: both sides of a conflict that git left, JSON and records that git wrote, files that never carried
 * a seal of this goal. These are rendered again from the log; the last two are kept beside, because somebody's words may be
 * in them, and so is the first where a line of it was never rendered. A STATE.md that git wrote (see `git-activity.ts`) is
 * taken in with care (see `brought-edit.ts`).
 */

import { copyFile, link, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DraftBatch, type Goal, goalCore, loadGoal } from "../goal/index.ts";
import { sha256 } from "../model/digest.ts";
import { isHoldfastError } from "../model/errors.ts";
import { type Actor, type GoalState, seqOfRevision } from "../model/goal/index.ts";
import { syncFolder, UnreadableText } from "../state-files/index.ts";
import { textsOf, linesOfNobody, pageChanges, shownChanges } from "./state-page-edits.ts";
import { type Change, type Merged, mergeChanges } from "./edit-changes.ts";
import { type RecordKind, readAgentState, readRecordPage, readState, readTaskBoard } from "./file-reading.ts";
import type { Foreign } from "./goal-folder.ts";
import { type Brought, writtenByGit } from "./git.ts";
import { agentStateChanges, taskBoardChanges } from "./json-edits.ts";
import { recordChanges } from "./record-edits.ts";
import { AGENT_STATE, type RenderedFile, renderGoal, STATE_PAGE, TASK_BOARD } from "./render.ts";
import { normalText } from "./seal.ts";
import { sameJson } from "../model/json.ts";

/** Files that somebody else wrote in: who that was, and what becomes of each. */



export interface ForeignFile {
  readonly file: RenderedFile;
  readonly look: Foreign;
}

export async function takeInForeign(
  context: EditContext,
  foreign: readonly ForeignFile[],
): Promise<EditReport[]> {
  if (foreign.length === 0) return [];
  const before = context.goal.revision;
  const times = foreign.map(({ file, look }) => ({ path: file.path, modifiedMs: look.modifiedMs }));
  const byGit = await writtenByGit(context.folder, times);
  const reports: EditReport[] = [];
  for (const { file, look } of foreign) {
    const report = await takeInOne(context, file, look, byGit.get(file.path) ?? null, before);
    if (report) reports.push(report);
  }
  return reports;
}

async function takeInOne(
  context: EditContext,
  file: RenderedFile,
  look: Foreign,
  brought: Brought | null,
  before: number,
): Promise<EditReport | null> {
  if (look.hasConflict) return bothSides(context, file, look);
  if (brought === "bulk") return keptAsItIs(context, file, look, "git", "many files were written at once");
  if (isStranger(look, before))
    return keptAsItIs(context, file, look, "stranger", "it was not rendered from this goal");
  if (brought === null) return takeInEdit(context, file, look);
  // Two sides in a JSON file, or in a record, cannot be told from an edit.
  if (file.path !== STATE_PAGE) return keptAsItIs(context, file, look, "git", "git brought it");
  if (look.text !== null && hasItemTwice(look.text)) return bothSides(context, file, look);
  return takeInEdit(context, file, look, brought);
}

/** Not from this goal, or from a later revision of it than this store has: there is nothing to compare it with. */
function isStranger({ text, revision }: Foreign, seq: number): boolean {
  return text !== null && (revision === null || revision > seq);
}

const NOTHING_TAKEN = { taken: [], conflicts: [] } as const;

async function keptAsItIs(
  { folder }: EditContext,
  { path }: RenderedFile,
  look: Foreign,
  from: "git" | "stranger",
  why: string,
): Promise<EditReport> {
  const beside = await keepBeside(folder, path, look);
  return { ...NOTHING_TAKEN, file: path, from, left: [why], beside };
}

const LINES_NAMED = 3;

/** Made again from the log, which has what both sides rendered; but a person may have written between the two. */
async function bothSides(
  { goal, folder }: EditContext,
  { path, text }: RenderedFile,
  look: Foreign,
): Promise<EditReport> {
  const report = { ...NOTHING_TAKEN, file: path, from: "conflict" } as const;
  const page = path === STATE_PAGE ? look.text : null;
  const lines = page === null ? [] : linesOfNobody(normalText(page), text, await textsOf(goal));
  if (lines.length === 0) return { ...report, left: [], beside: null };
  const more = lines.length - LINES_NAMED;
  const named = lines.slice(0, LINES_NAMED).map((line) => JSON.stringify(line.slice(0, 80)));
  const left = `it had both sides of a merge, and in no rendering was ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  return { ...report, left: [left], beside: await keepBeside(folder, path, look) };
}



/**
 * A person's edit of STATE.md that git brought: from another branch, out of a stash, by a merge or a clone.
 *
 * It may be old, and what it says may have been taken in and undone since. So it counts for less than what a person saves
 * here: it is taken in where the page is known as it was before the edit, where the log has not seen this very page, and
 * where the goal has not touched the same thing since. What it adds is taken in only where the edit was committed in this
 * repository: the store of another clone takes it in too, and after the next merge everything would be there twice.
 */



/** `past` is the goal that the page was rendered from. */
function cautiously(merged: Merged, past: GoalState, now: GoalState, brought: Brought): Merged {
  const mine: Change[] = [];
  const left = [...merged.left];
  for (const each of merged.mine) {
    const { key, what } = each;
    if (!sameJson(subjectOf(past, key), subjectOf(now, key)))
      left.push(`${what}: git brought it, and the goal has moved on since`);
    else if (brought === "elsewhere" && key.startsWith("new "))
      left.push(`${what}: git brought it from another clone, which may take it in as well`);
    else mine.push(each);
  }
  return { mine, conflicts: [], left };
}

/** What a change is about, as the goal has it. */
function subjectOf(state: GoalState, key: string): unknown {
  if (key === "next" || key === "title" || key === "statement") return state[key];
  const id = /:([TBQ]-\d{3,})$/.exec(key)?.[1] ?? "";
  return state.tasks.get(id) ?? state.blockers.get(id) ?? state.questions.get(id) ?? null;
}

const ITEM = /^\s*[-*+] +(?:\[[ xX]\] *)?([TDBQ]-\d{3,})\b/gm;

/** Git kept a line of each side, but the seal of only one of them had changed. */
export function hasItemTwice(page: string): boolean {
  const ids = [...page.matchAll(ITEM)].map(([, id]) => id);
  return new Set(ids).size < ids.length;
}



export interface EditReport {
  readonly file: string;
  /** `human`: taken in. `git`: as far as that is safe. `stranger`: not an edit of ours, kept beside. `conflict`: rebuilt. */
  readonly from: "human" | "git" | "stranger" | "conflict";
  /** What was taken in, in words. */
  readonly taken: readonly string[];
  /** What both the person and the goal had changed; the person's word counts. */
  readonly conflicts: readonly string[];
  /** What could not be taken in, and why. */
  readonly left: readonly string[];
  /** Where the file is kept as it was found, when not everything in it is in the goal. */
  readonly beside: string | null;
}

/** Most that one report and one event say of what could not be taken in. */
const LEFT_LIMIT = 50;
const LEFT_CHARACTERS = 300;

export interface EditContext {
  readonly goal: Goal;
  readonly folder: string;
  readonly by: Actor;
}

/**
 * Null: this very edit is in the goal already, and the file only has to be rendered again. `brought`: git wrote the file, so
 * that nobody knows when the edit was made.
 */
export async function takeInEdit(
  context: EditContext,
  file: RenderedFile,
  found: Foreign,
  brought: Brought | null = null,
): Promise<EditReport | null> {
  const { goal, by, folder } = context;
  const saved = contentHash(found);
  // Another one, so that a person who saves what git brought is heard in full.
  const hash = brought === null ? saved : sha256(`brought by git ${saved}`);
  if (goal.state.edits.get(file.path)?.hash === hash) return null;
  if (brought !== null) {
    const texts = await textsOf(goal);
    if (texts.has(saved) || texts.has(hash)) return null;
  }
  const beside = await keepBeside(folder, file.path, found);
  const merged = await mergedWithGoal(context, file, found, brought);
  const from = brought === null ? "human" : "git";
  const report = { file: file.path, from, beside, conflicts: merged.conflicts } as const;
  // Another order, other spaces: nothing was said, so nothing is recorded.
  if (merged.mine.length + merged.left.length === 0) return { ...report, taken: [], left: [] };
  const { taken, left } = await goalCore(goal).commit(by, (state) => {
    const outcome = takenIn(state, by, merged.mine, merged.left);
    const data = {
      by,
      file: file.path,
      hash,
      editedAt: brought === null ? Math.max(0, Math.floor(found.modifiedMs)) : 0,
      left: outcome.left.slice(0, LEFT_LIMIT).map((line) => line.slice(0, LEFT_CHARACTERS)),
    };
    return { events: [...outcome.events, { type: "edit.taken", data }], result: outcome };
  });
  return { ...report, taken, left };
}

/** What cannot be read is left as a whole. */
async function mergedWithGoal(
  context: EditContext,
  file: RenderedFile,
  found: Foreign,
  brought: Brought | null,
): Promise<Merged> {
  const nothing = { mine: [], conflicts: [] };
  if (found.text === null) return { ...nothing, left: [found.why ?? "it cannot be read"] };
  try {
    const { base, since, digest, past } = await baseOf(context, file, found);
    if (brought !== null && digest !== found.digest)
      throw new UnreadableText("git brought it, and what it was before the edit is not known here");
    const changes = CHANGES[kindOf(file.path)];
    const merged = mergeChanges(await changes(base, found.text, since), await changes(base, file.text, null));
    return brought === null ? merged : cautiously(merged, past, context.goal.state, brought);
  } catch (error) {
    if (!(error instanceof UnreadableText) && !isHoldfastError(error, "INPUT_INVALID")) throw error;
    return { ...nothing, left: [error.message] };
  }
}

/** Git may have given it other line endings. */
function contentHash({ text, signature }: Foreign): string {
  const { inode, size, modifiedNs } = signature;
  return sha256(text !== null ? normalText(text) : `${inode} ${size} ${modifiedNs}`);
}

/** A change that the goal refuses is left, with the reason; the others are taken in all the same. */
function takenIn(
  state: GoalState,
  by: Actor,
  changes: readonly Change[],
  alreadyLeft: readonly string[],
): { events: DraftBatch["events"]; taken: string[]; left: string[] } {
  const all = new DraftBatch(state);
  const taken: string[] = [];
  const left = [...alreadyLeft];
  for (const { what, act } of changes) {
    try {
      const one = new DraftBatch(all.state);
      for (const event of act?.(all.state, by).events ?? []) one.add(event as DraftBatch["events"][number]);
      for (const event of one.events) all.add(event);
      if (one.events.length > 0) taken.push(what);
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      left.push(`${what}: ${error.message}`);
    }
  }
  return { events: all.events, taken, left };
}

type Kind = "page" | "agentState" | "taskBoard" | RecordKind;

function kindOf(path: string): Kind {
  if (path === STATE_PAGE) return "page";
  if (path === AGENT_STATE) return "agentState";
  if (path === TASK_BOARD) return "taskBoard";
  if (path.startsWith("decisions/")) return "decision";
  return path.startsWith("blockers/") ? "blocker" : "session";
}

/** The changes from one text of a file, of revision `since`, to another; null where that is the goal's own. */
type ChangesBetween = (from: string, to: string, since: number | null) => Promise<Change[]>;

const record =
  (kind: RecordKind): ChangesBetween =>
  async (from, to) =>
    recordChanges(kind, await readRecordPage(kind, from), await readRecordPage(kind, to));

const CHANGES: Readonly<Record<Kind, ChangesBetween>> = {
  page: async (from, to, since) =>
    since === null
      ? shownChanges(readState(from), readState(to))
      : pageChanges(readState(from), readState(to), since),
  agentState: async (from, to) => agentStateChanges(await readAgentState(from), await readAgentState(to)),
  taskBoard: async (from, to, since) =>
    taskBoardChanges(await readTaskBoard(from), await readTaskBoard(to), since ?? 0),
  decision: record("decision"),
  blocker: record("blocker"),
  session: record("session"),
};

interface Base {
  readonly base: string;
  readonly since: number;
  readonly digest: string;
  /** The goal then. */
  readonly past: GoalState;
}

/** The file as it was rendered at the revision that the person started from. */
async function baseOf(
  { goal }: EditContext,
  file: RenderedFile,
  { revision, digest }: Foreign,
): Promise<Base> {
  const now = { base: file.text, since: file.revision, digest: file.digest, past: goal.state };
  if (revision === null || revision >= file.revision || revision < 1) return now;
  const upTo = seqOfRevision(goal.state, revision);
  const loaded = upTo === null ? null : await loadGoal(goalCore(goal).journal, goal.id, { upTo });
  const rendered = loaded && renderGoal(loaded.state, loaded.state.revision).files;
  const found = rendered?.find(({ path }) => path === file.path);
  const then = found &&
    loaded && { base: found.text, since: revision, digest: found.digest, past: loaded.state };
  if (goal.state.merges.length === 0) return then ?? now;
  // Another copy counted its events differently: what its file looked like before the edit is not known here.
  if (then?.digest === digest) return then;
  throw new UnreadableText("it is an edit of what another copy of the goal had rendered");
}

/**
 * A second name for what is there now. By a hard link, so that the first name never stops existing; what cannot be
 * linked is copied, and what is no file at all is moved.
 */
export async function keepBeside(folder: string, path: string, found: Foreign): Promise<string> {
  const beside = `${path}.unread-${contentHash(found).slice(0, 12)}`;
  const from = join(folder, path);
  const to = join(folder, beside);
  try {
    if (found.text === null && found.why?.includes("regular")) await rename(from, to);
    else await link(from, to);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return beside;
    if (code !== "EEXIST" && code !== "EPERM" && code !== "ENOTSUP" && code !== "EMLINK") throw error;
    if (code !== "EEXIST") await copyFile(from, to);
  }
  await syncFolder(dirname(to));
  return beside;
}

export async function letGo(folder: string, beside: string | null): Promise<void> {
  if (beside !== null) await rm(join(folder, beside), { force: true });
}
