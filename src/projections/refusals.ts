/** The errors and notes of the projections, each with a hint. */

import { HoldfastError } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";

/** A person edited a file a moment ago, and may not be done: agents wait. */
export function humanIsEditing(goal: string, file: string, remainingMs: number): HoldfastError {
  const seconds = Math.max(1, Math.ceil(remainingMs / 1_000));
  return new HoldfastError("HUMAN_EDITING", `goal ${goal}: a person edited ${file} a moment ago`, {
    hint: `Nothing was written. Wait ${seconds} s, then read the goal again: the edit is applied first.`,
    data: { goal, file, remainingMs },
  });
}

export function renderingElsewhere(
  goal: string,
  folder: string,
  holder: string,
  waitedMs: number,
): HoldfastError {
  return new HoldfastError(
    "FOLDER_BUSY",
    `goal ${goal}: ${holder} has been rendering ${quoteValue(folder)} for over ${waitedMs} ms`,
    {
      hint: "The goal itself is written. Sync again later: the lease expires, or ends with that process.",
      data: { goal, folder, holder },
    },
  );
}

export function folderOfAnother(folder: string, file: string, goal: string, other: string): HoldfastError {
  return new HoldfastError(
    "FOLDER_TAKEN",
    `${file} in ${quoteValue(folder)} belongs to goal ${quoteValue(other)}, not to ${goal}`,
    {
      hint: `Nothing was written. Name another folder, or show it here: holdfast rebuild --goal ${goal}`,
      data: { folder, goal, other },
    },
  );
}

export function unsafeFolder(path: string, why: string): HoldfastError {
  return new HoldfastError("FOLDER_UNSAFE", `${quoteValue(path)} cannot hold rendered files: ${why}`, {
    hint: "Nothing was written. Name a folder of the repository for these files, such as .planning.",
    data: { path },
  });
}

export function keptMoving(goal: string, folder: string): HoldfastError {
  return new HoldfastError(
    "FOLDER_BUSY",
    `goal ${goal}: the files in ${quoteValue(folder)} changed at every attempt to write them`,
    {
      hint: "Another program writes these files. Stop it, then sync again.",
      data: { goal, folder },
    },
  );
}

const TAKEN_NAMED = 8;

/** A note, not thrown: an edit may be a slip, such as a deleted line. */
export function editTaken(file: string, taken: readonly string[]): HoldfastError {
  const more = taken.length - TAKEN_NAMED;
  const named = taken.slice(0, TAKEN_NAMED).join("; ") + (more > 0 ? ` and ${more} more` : "");
  return new HoldfastError("EDIT_TAKEN", `applied from ${file}: ${named}`, {
    hint: "If that was a slip, correct it by a command, or in the file.",
    data: { file, taken },
  });
}

interface LeftEdit {
  readonly file: string;
  readonly from: string;
  readonly left: readonly string[];
  readonly beside: string | null;
}

/** A note, not thrown: parts of an edit that could not be applied, and the path of the backup. */
export function editLeft({ file, beside, left, from }: LeftEdit): HoldfastError {
  // A file that a person saves is applied as their edit, even if git brought it first.
  const again =
    from === "git"
      ? ` Or, if all of it still holds, in that folder: cp ${beside} ${file} && holdfast rebuild`
      : "";
  return new HoldfastError(
    "EDIT_LEFT",
    `${file}: not everything in it could be applied: ${left.join("; ")}`,
    {
      hint:
        beside === null
          ? "Make the change in another way, such as by a command."
          : `The file is kept as ${beside}. Make the change in another way, then remove it.${again}`,
      data: { file, beside, left },
    },
  );
}

/** A note, not thrown: the goal works without the file. */
export function eventFileRefused(folder: string, file: string, why: string): HoldfastError {
  return new HoldfastError("EVENT_FILE_REFUSED", `${file} in ${quoteValue(folder)} was not merged: ${why}`, {
    hint: `The file was left alone. Restore it from git, in that folder: git checkout HEAD -- ${file}`,
    data: { folder, file, why },
  });
}
