/**
 * A goal made from a STATE.md that another tool, or a person, has kept so far.
 *
 * What the file says becomes events. What the goal computes (position, progress, percent) is not taken over but made true
 * by tasks and phases, and then compared: where the file contradicts itself or its own numbers, the report says so. What
 * has no place in a goal is kept as facts named `imported.…`, so nothing of the file is lost.
 *
 * The first commit makes the goal, the second takes in everything else; a crash between them leaves an empty goal, into
 * which the same import can be run again.
 */

import { type Goal, goalCore, hashFile, openGoal } from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { type Actor, isRelativePath } from "../model/goal/index.ts";
import type { Json } from "../model/json.ts";
import { readBounded, UnreadableText } from "../state-files/index.ts";
import { type ImportNotes, importActs } from "./import-acts.ts";
import { type ImportedText, readImported } from "./imported-text.ts";

const FILE_BYTES = 1024 * 1024;

export interface ImportOptions {
  readonly file: string;
  /** The folder that paths in the file are relative to; files found there are recorded with their hash. */
  readonly root?: string;
  readonly by?: Actor;
}

export interface ImportReport extends ImportNotes {
  readonly goal: Goal;
}

/** Reads the file, makes the goal and says what did not fit. A goal that has work in it already is refused. */
export async function importState(
  { journal }: { readonly journal: Journal },
  id: string,
  options: ImportOptions,
): Promise<ImportReport> {
  const { file, root, by = { name: "import", role: "human" } } = options;
  const imported = await readFile(file);
  const { row } = imported;
  const title = text(row["title"]);
  const statement = text(row["statement"]) ?? text(row["goal"]) ?? title ?? `Imported from ${file}`;
  const goal = await openGoal(journal, id, { by, statement, title, ...(root !== undefined && { root }) });
  const hashes = await hashesOf(root, row);
  const notes = await goalCore(goal).commit(by, (state) => {
    if (state.phases.length + state.tasks.size + state.decisions.size + state.history.size > 0)
      throw notEmpty(id);
    return importActs(state, by, imported, hashes);
  });
  return { goal, ...notes };
}

async function readFile(file: string): Promise<ImportedText> {
  try {
    const found = await readBounded(file, FILE_BYTES);
    if (found === null) throw new UnreadableText("there is no such file");
    return await readImported(found);
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    throw new HoldfastError("INPUT_INVALID", `${file} cannot be imported: ${error.message}`, {
      hint: "Nothing was made. Correct the file, or begin with a new goal and a statement.",
      data: { reason: "IMPORT", file },
      cause: error,
    });
  }
}

function text(value: unknown): string | null {
  return typeof value === "string" && value.trim() !== "" ? value.trim().slice(0, 500) : null;
}

/** Of the files that were modified, those that are there now. */
async function hashesOf(root: string | undefined, row: ImportedText["row"]): Promise<Map<string, string>> {
  const context = row["resume_context"] as Record<string, Json> | undefined;
  const files = (context?.["files_modified_this_session"] ?? context?.["files_modified"] ?? []) as unknown;
  const hashes = new Map<string, string>();
  if (root === undefined || !Array.isArray(files)) return hashes;
  for (const path of files) {
    if (typeof path !== "string" || !isRelativePath(path)) continue;
    try {
      hashes.set(path, await hashFile(root, path));
    } catch (error) {
      // It is not there, or not below the root: kept as a fact, and the report says so.
      if (!isHoldfastError(error, "INPUT_INVALID")) throw error;
    }
  }
  return hashes;
}

function notEmpty(id: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `goal ${id} has work in it already`, {
    hint: "Import into a new goal: choose a name that is free. Nothing was changed.",
    data: { reason: "IMPORT_NOT_EMPTY", goal: id },
  });
}
