/**
 * Applies the edits of people to the goal. A file whose digest does not fit was written by someone else:
 *
 *     1 back up   a second name for the file as it is: `STATE.md.unread-<hash of its content>`
 *     2 read      with limits, against its schema
 *     3 merge     base = this file at its revision, theirs = the file, ours = the goal now
 *     4 commit    all changes as one commit by a human, with an `edit.taken` event that holds the hash
 *     5 render    the usual protocol writes the file again, with the edit
 *     6 clean up  removes the second name, if everything was applied
 *
 * Invariants: every byte of a person is in the log or under the second name. An edit is applied once, since
 * the log knows its hash. If both sides changed a thing, the person wins; the log has the other value.
 *
 * | crash after | leaves |
 * |---|---|
 * | 1, 5 | a second name that is not needed |
 * | 4 | a file that is recognised by its hash and only rendered again |
 *
 * | written by | becomes |
 * |---|---|
 * | git, with both sides of a conflict | rendered again; backed up if a line is in no known rendering |
 * | git, by a merge of lines that intact renderings of its sides have | rendered again |
 * | git, JSON or a record file | rendered again, and backed up |
 * | git, STATE.md | applied cautiously, see `cautious` |
 * | a program that did not start from this goal | rendered again, and backed up |
 *
 * An edit is the act of its author, as far as this clone can tell (`editorOf`):
 *
 * | evidence | author | role |
 * |---|---|---|
 * | a commit that was not made in this repository | its author | worker, without acts of authority |
 * | a hook saw an agent write the file | the agent's session | worker |
 * | neither | the user | human |
 *
 * Changes that the role may not make are left, and the file is backed up.
 */

import { copyFile, link, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DraftBatch, type Goal, goalCore, loadGoal } from "../goal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import {
  type Actor,
  checkEventRole,
  type GoalState,
  isActOfAuthority,
  seqOfRevision,
} from "../model/goal/index.ts";
import { type Json, sameJson } from "../model/json.ts";
import { quoteText } from "../model/names.ts";
import { syncFolder, UnreadableText } from "../state-files/index.ts";
import { type Change, type Merged, mergeChanges } from "./edit-changes.ts";
import { type RecordKind, readAgentState, readRecordPage, readState, readTaskBoard } from "./file-reading.ts";
import type { Foreign } from "./folder-scan.ts";
import { type Brought, writtenByGit } from "./git.ts";
import { type EditSource, EditSources } from "./git-authors.ts";
import { agentStateChanges, taskBoardChanges } from "./json-edits.ts";
import { recordChanges } from "./record-edits.ts";
import { AGENT_STATE, type RenderedFile, renderGoal, STATE_PAGE, TASK_BOARD } from "./render.ts";
import { normalText } from "./seal.ts";
import { pageChanges, shownChanges, textsInLog, unrenderedLines } from "./state-page-edits.ts";

/** The outcome of one edited file: `taken` was applied, `left` was not. */
export interface EditReport {
  readonly file: string;
  /**
   * `human`: applied. `agent`, `commit`: applied as far as their role allows. `git`: applied as far as safe.
   * `stranger`: backed up. `conflict`: rendered again.
   */
  readonly from: "human" | "agent" | "commit" | "git" | "stranger" | "conflict";
  readonly taken: readonly string[];
  /** Changed by both sides; the person's value was applied. */
  readonly conflicts: readonly string[];
  readonly left: readonly string[];
  /** Path of the backup, if not everything in the file is in the goal. */
  readonly beside: string | null;
}

const LEFT_LIMIT = 50;
const MAX_CHANGES = 300;
const LEFT_CHARACTERS = 300;

/** The session of an agent that a hook saw write this text; null: no hook saw it. */
export type AgentEdit = (path: string, text: string) => string | null;

export interface EditContext {
  readonly goal: Goal;
  readonly folder: string;
  readonly by: Actor;
  readonly agentEdit?: AgentEdit | undefined;
}

/** The author of an edit. `commit`: the one that brought it from elsewhere. */
interface Editor {
  readonly by: Actor;
  readonly from: EditReport["from"];
  readonly commit: string | null;
}

function editorOf(
  { by, agentEdit }: EditContext,
  { file, look }: ForeignFile,
  brought: Brought | null,
  source: EditSource,
): Editor {
  if (typeof source === "object") {
    const { author, commit } = source;
    return { by: { name: author, role: "worker" }, from: "commit", commit };
  }
  if (source === "unknown" && brought === "elsewhere")
    return { by: { name: "git", role: "worker" }, from: "commit", commit: null };
  const agent = look.text === null ? null : (agentEdit?.(file.path, look.text) ?? null);
  if (agent !== null) return { by: { name: agent, role: "worker" }, from: "agent", commit: null };
  return { by, from: brought === null ? "human" : "git", commit: null };
}

export interface ForeignFile {
  readonly file: RenderedFile;
  readonly look: Foreign;
}

type ForeignEdit = Omit<EditContext, "by"> & ForeignFile & { readonly editor: Editor };

export async function applyForeignEdits(
  context: EditContext,
  foreign: readonly ForeignFile[],
): Promise<EditReport[]> {
  if (foreign.length === 0) return [];
  const before = context.goal.revision;
  const times = foreign.map(({ file, look }) => ({ path: file.path, modifiedMs: look.modifiedMs }));
  const byGit = await writtenByGit(context.folder, times);
  const reports: EditReport[] = [];
  const sources = new EditSources(context.folder);
  for (const { file, look } of foreign) {
    const isMixed = (): Promise<boolean> => sources.isMixedByGit(file.path, look.text ?? "");
    if (look.hasConflict) {
      reports.push(await rebuildConflict({ ...context, file, look }, isMixed));
      continue;
    }
    if (look.text !== null && (await isMixed())) {
      reports.push(conflictReport(file.path));
      continue;
    }
    const source = await sources.of(file.path);
    const guess = byGit.get(file.path) ?? null;
    const brought = typeof source === "object" && guess !== "bulk" ? "elsewhere" : guess;
    const editor = editorOf(context, { file, look }, brought, source);
    const report = await applyForeignFile({ ...context, file, look, editor }, brought, before);
    if (report) reports.push(report);
  }
  return reports;
}

async function applyForeignFile(
  edit: ForeignEdit,
  brought: Brought | null,
  before: number,
): Promise<EditReport | null> {
  const { file, look } = edit;
  if (brought === "bulk") return backUpOnly(edit, "git", "many files were written at once");
  if (isStranger(look, before)) return backUpOnly(edit, "stranger", "it was not rendered from this goal");
  if (brought === null) return applyEdit(edit, null);
  // In a JSON file or a record, both sides of a merge look like an edit.
  if (file.path !== STATE_PAGE) return backUpOnly(edit, "git", "git brought it");
  if (look.text !== null && hasItemTwice(look.text))
    return rebuildConflict(edit, () => Promise.resolve(false));
  return applyEdit(edit, brought);
}

/** From another goal or a later revision than this store has: there is no base to compare with. */
function isStranger({ text, revision }: Foreign, seq: number): boolean {
  return text !== null && (revision === null || revision > seq);
}

const NOTHING_APPLIED = { taken: [], conflicts: [] } as const;

async function backUpOnly(edit: ForeignEdit, from: "git" | "stranger", why: string): Promise<EditReport> {
  const beside = await backUp(edit);
  return { ...NOTHING_APPLIED, file: edit.file.path, from, left: [why], beside };
}

const LINES_NAMED = 3;

const conflictReport = (file: string): EditReport => ({
  ...NOTHING_APPLIED,
  file,
  from: "conflict",
  left: [],
  beside: null,
});

/** The log has what both sides rendered; but a person may have written between them. */
async function rebuildConflict(
  edit: Omit<ForeignEdit, "editor">,
  isMixedByGit: () => Promise<boolean>,
): Promise<EditReport> {
  const { goal, look } = edit;
  const { path, text } = edit.file;
  const report = conflictReport(path);
  const page = path === STATE_PAGE ? look.text : null;
  const lines = page === null ? [] : unrenderedLines(normalText(page), text, await textsInLog(goal));
  // A clone whose clock is ahead also renders events that wait for their time here.
  if (lines.length === 0 || (await isMixedByGit())) return report;
  const more = lines.length - LINES_NAMED;
  const named = lines.slice(0, LINES_NAMED).map((line) => JSON.stringify(line.slice(0, 80)));
  const rest = more > 0 ? ` and ${more} more` : "";
  const left = `it had both sides of a merge, and in no rendering was ${named.join(", ")}${rest}`;
  return { ...report, left: [left], beside: await backUp(edit) };
}

/** Null: the goal has this edit already. `brought`: git wrote it, so the time of the edit is unknown. */
async function applyEdit(edit: ForeignEdit, brought: Brought | null): Promise<EditReport | null> {
  const { goal, file, look: found } = edit;
  const { by, from, commit } = edit.editor;
  const saved = contentHash(found);
  // Another hash, so that the same text saved by a person is applied in full.
  const hash = brought === null ? saved : sha256(`brought by git ${saved}`);
  if (goal.state.edits.get(file.path)?.hash === hash) return null;
  if (brought !== null) {
    const texts = await textsInLog(goal);
    if (texts.has(saved) || texts.has(hash)) return null;
  }
  const beside = await backUp(edit);
  const merged = await mergeWithGoal(edit, brought);
  const report = { file: file.path, from, beside, conflicts: merged.conflicts } as const;
  // Only order or spaces changed: nothing to record.
  if (merged.mine.length + merged.left.length === 0) return { ...report, taken: [], left: [] };
  const { taken, left } = await goalCore(goal).commit(by, (state) => {
    const outcome = applyChanges(state, edit.editor, merged.mine, merged.left);
    const data = {
      by,
      file: file.path,
      hash,
      // Agents hold back their writes after an edit of a person only.
      editedAt: from === "human" ? Math.max(0, Math.floor(found.modifiedMs)) : 0,
      ...(commit !== null && { commit }),
      left: outcome.left.slice(0, LEFT_LIMIT).map((line) => line.slice(0, LEFT_CHARACTERS)),
    };
    return { events: [...outcome.events, { type: "edit.taken", data }], result: outcome };
  });
  return { ...report, taken, left };
}

async function mergeWithGoal(edit: ForeignEdit, brought: Brought | null): Promise<Merged> {
  const { file, look: found } = edit;
  const nothing = { mine: [], conflicts: [] };
  if (found.text === null) return { ...nothing, left: [found.why ?? "it cannot be read"] };
  try {
    const { base, since, digest, past } = await baseOf(edit);
    if (brought !== null && digest !== found.digest)
      throw new UnreadableText("git brought it, and what it was before the edit is not known here");
    const changes = CHANGES[kindOf(file.path)];
    const merged = mergeChanges(await changes(base, found.text, since), await changes(base, file.text, null));
    return brought === null ? merged : cautious(merged, past, edit.goal.state, brought);
  } catch (error) {
    if (!(error instanceof UnreadableText) && !isHoldfastError(error, "INPUT_INVALID")) throw error;
    return { ...nothing, left: [error.message] };
  }
}

function contentHash({ text, signature }: Foreign): string {
  const { inode, size, modifiedNs } = signature;
  return sha256(text !== null ? normalText(text) : `${inode} ${size} ${modifiedNs}`);
}

/** A change that the goal refuses goes to `left`, with the reason; the others are applied. */
function applyChanges(
  state: GoalState,
  editor: Editor,
  changes: readonly Change[],
  alreadyLeft: readonly string[],
): { events: DraftBatch["events"]; taken: string[]; left: string[] } {
  const all = new DraftBatch(state);
  const taken: string[] = [];
  const left = [...alreadyLeft];
  // Each change is tried on a branch of the goal. No person makes this many between two commands.
  if (changes.length > MAX_CHANGES) {
    const why = `it has ${changes.length} changes, the limit is ${MAX_CHANGES}: nothing of it was applied`;
    return { events: [], taken, left: [...left, why] };
  }
  for (const { what, act } of changes) {
    try {
      const one = new DraftBatch(all.state);
      for (const event of act?.(all.state, editor.by).events ?? []) {
        checkAct(state, editor, event as Draft);
        one.add(event as Draft);
      }
      for (const event of one.events) all.add(event);
      if (one.events.length > 0) taken.push(what);
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      left.push(`${what}: ${error.message}`);
    }
  }
  return { events: all.events, taken, left };
}

type Draft = DraftBatch["events"][number];

/** A person may do everything. The name of a commit's author proves nothing, not even that of a blocker's. */
function checkAct({ verification }: GoalState, { by, from, commit }: Editor, { type, data }: Draft): void {
  const act = { type, data: data as unknown as Readonly<Record<string, Json>> };
  if (from === "commit" && isActOfAuthority(act)) {
    const source = commit === null ? "git" : `commit ${commit.slice(0, 10)} by ${quoteText(by.name)}`;
    throw new HoldfastError(
      "ROLE_REFUSED",
      `${source} brought it, and only a person of this clone may do it`,
      {
        hint: "Check it, then do it by a command.",
      },
    );
  }
  checkEventRole(by, act, verification);
}

type Kind = "page" | "agentState" | "taskBoard" | RecordKind;

function kindOf(path: string): Kind {
  if (path === STATE_PAGE) return "page";
  if (path === AGENT_STATE) return "agentState";
  if (path === TASK_BOARD) return "taskBoard";
  if (path.startsWith("decisions/")) return "decision";
  return path.startsWith("blockers/") ? "blocker" : "session";
}

/** `since`: the revision of the first text; null for the goal's own changes. */
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

/** The file as it was rendered at the revision from which the person started. */
async function baseOf({
  goal,
  file,
  look: { revision, digest },
}: ForeignEdit): Promise<{ base: string; since: number; digest: string; past: GoalState }> {
  const now = { base: file.text, since: file.revision, digest: file.digest, past: goal.state };
  if (revision === null || revision >= file.revision || revision < 1) return now;
  const upTo = seqOfRevision(goal.state, revision);
  const loaded = upTo === null ? null : await loadGoal(goalCore(goal).journal, goal.id, { upTo });
  const rendered = loaded && renderGoal(loaded.state, loaded.state.revision).files;
  const found = rendered?.find(({ path }) => path === file.path);
  const then = found &&
    loaded && { base: found.text, since: revision, digest: found.digest, past: loaded.state };
  if (goal.state.merges.length === 0) return then ?? now;
  // Another copy numbers its events differently: its rendering before the edit is unknown here.
  if (then?.digest === digest) return then;
  throw new UnreadableText("it is an edit of what another copy of the goal had rendered");
}

/**
 * Filters an edit of STATE.md that git brought: it may be old, or applied and undone since. So it counts only
 * where the goal has not moved on since `past`. Additions only count if they were committed in this
 * repository: otherwise another clone applies them too, and after the next merge they would be there twice.
 */
function cautious(merged: Merged, past: GoalState, now: GoalState, brought: Brought): Merged {
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

function subjectOf(state: GoalState, key: string): unknown {
  if (key === "next" || key === "title" || key === "statement") return state[key];
  const id = /:([TBQA]-\d{3,})$/.exec(key)?.[1] ?? "";
  return (
    state.tasks.get(id) ??
    state.blockers.get(id) ??
    state.questions.get(id) ??
    state.assumptions.get(id) ??
    null
  );
}

const ITEM = /^[ \t]*[-*+] +(?:\[[ xX]\] *)?([TDBQA]-\d{3,})\b/gm;

function hasItemTwice(page: string): boolean {
  const ids = [...page.matchAll(ITEM)].map(([, id]) => id);
  return new Set(ids).size < ids.length;
}

/** Backs up a file under a second name: a hard link, else a copy; anything that is no file is moved. */
async function backUp({ folder, file, look: found }: Omit<ForeignEdit, "editor">): Promise<string> {
  const beside = `${file.path}.unread-${contentHash(found).slice(0, 12)}`;
  const from = join(folder, file.path);
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

export async function removeBackup(folder: string, beside: string | null): Promise<void> {
  if (beside !== null) await rm(join(folder, beside), { force: true });
}
