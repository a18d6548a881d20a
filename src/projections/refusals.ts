/** The refusals of this folder, with what to do about each. */

import { HoldfastError } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";

/** Somebody edited a file a moment ago: agents wait, so that nobody writes into a sentence. */
export function humanIsEditing(goal: string, file: string, remainingMs: number): HoldfastError {
  const seconds = Math.max(1, Math.ceil(remainingMs / 1_000));
  return new HoldfastError("HUMAN_EDITING", `goal ${goal}: a person edited ${file} a moment ago`, {
    hint: `Wait ${seconds} s, read the goal again and decide anew: what the person wrote is taken in first. Nothing was written.`,
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
      hint: "The goal itself is written. Sync again later: the lease runs out, or is free at once when that process is gone.",
      data: { goal, folder, holder },
    },
  );
}

export function folderOfAnother(folder: string, file: string, goal: string, other: string): HoldfastError {
  return new HoldfastError(
    "FOLDER_TAKEN",
    `${file} in ${quoteValue(folder)} belongs to goal ${quoteValue(other)}, not to ${goal}`,
    {
      hint: `Name another folder. In .planning/ it is shown by: holdfast rebuild --goal ${goal}. Nothing was written.`,
      data: { folder, goal, other },
    },
  );
}

export function unsafeFolder(path: string, why: string): HoldfastError {
  return new HoldfastError("FOLDER_UNSAFE", `${quoteValue(path)} cannot hold rendered files: ${why}`, {
    hint: "Name a folder of the repository that is there for this, such as .planning. Nothing was written.",
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

/** Told, not thrown: nobody may have meant it, as where a line was deleted by a slip. */
export function editTaken(file: string, taken: readonly string[]): HoldfastError {
  const more = taken.length - TAKEN_NAMED;
  const named = taken.slice(0, TAKEN_NAMED).join("; ") + (more > 0 ? ` and ${more} more` : "");
  return new HoldfastError("EDIT_TAKEN", `taken in from ${file}: ${named}`, {
    hint: "If that was not meant, say so by a command, or in the file.",
    data: { file, taken },
  });
}

interface LeftEdit {
  readonly file: string;
  readonly from: string;
  readonly left: readonly string[];
  readonly beside: string | null;
}

/** Told, not thrown: what of an edit could not be taken in, and where it is kept. */
export function editLeft({ file, beside, left, from }: LeftEdit): HoldfastError {
  // What a person saves is taken in as theirs, whoever wrote it first.
  const again =
    from === "git"
      ? ` Or, where all of it still holds, in that folder: cp ${beside} ${file} && holdfast rebuild`
      : "";
  return new HoldfastError(
    "EDIT_LEFT",
    `${file}: not everything in it could be taken in: ${left.join("; ")}`,
    {
      hint:
        beside === null
          ? "Say it in another way."
          : `The file as it was is kept as ${beside}. Say it in another way, then remove that file.${again}`,
      data: { file, beside, left },
    },
  );
}

/** Told, not thrown: the goal goes on without what the file says. */
export function eventFileRefused(folder: string, file: string, why: string): HoldfastError {
  return new HoldfastError(
    "EVENT_FILE_REFUSED",
    `${file} in ${quoteValue(folder)} was not taken in: ${why}`,
    {
      hint: `The file was left as it is. Bring back the one that git has: git checkout HEAD -- ${file}, in that folder.`,
      data: { folder, file, why },
    },
  );
}
