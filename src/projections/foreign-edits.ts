/** Files that somebody else wrote in: who that was, and what becomes of each. */

import { linesOfNobody, textsOf } from "./accounted-lines.ts";
import { hasItemTwice } from "./brought-edit.ts";
import type { Foreign } from "./folder-look.ts";
import { type Brought, writtenByGit } from "./git-activity.ts";
import { type EditContext, type EditReport, keepBeside, takeInEdit } from "./human-edit.ts";
import { type RenderedFile, STATE_PAGE } from "./render.ts";
import { normalText } from "./seal.ts";

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
