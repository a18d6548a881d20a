/** The errors and notes of the projections, each with a hint. */

import { moreRefused, REFUSED_NAMED } from "../goal/index.ts";
import { type ErrorCode, HoldfastError, withoutStack } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";

function refusal(
  code: ErrorCode,
  message: string,
  hint: string,
  data: Record<string, unknown>,
): HoldfastError {
  return new HoldfastError(code, message, { hint, data });
}

/** A person edited a file a moment ago, and may not be done: agents wait. */
export function humanIsEditing(goal: string, file: string, remainingMs: number): HoldfastError {
  const message = `goal ${goal}: a person edited ${file} a moment ago`;
  const seconds = Math.max(1, Math.ceil(remainingMs / 1_000));
  const hint = `Nothing was written. Wait ${seconds} s, then read the goal again: the edit is applied first.`;
  return refusal("HUMAN_EDITING", message, hint, { goal, file, remainingMs });
}

export function renderingElsewhere(goal: string, folder: string, holder: string, ms: number): HoldfastError {
  const message = `goal ${goal}: ${holder} has been rendering ${quoteValue(folder)} for over ${ms} ms`;
  const hint = "The goal itself is written. Sync again later: the lease expires, or ends with that process.";
  return refusal("FOLDER_BUSY", message, hint, { goal, folder, holder });
}

export function folderOfAnother(folder: string, file: string, goal: string, other: string): HoldfastError {
  const message = `${file} in ${quoteValue(folder)} belongs to goal ${quoteValue(other)}, not to ${goal}`;
  const hint = `Nothing was written. Name another folder, or show it here: holdfast rebuild --goal ${goal}`;
  return refusal("FOLDER_TAKEN", message, hint, { folder, goal, other });
}

export function unsafeFolder(path: string, why: string): HoldfastError {
  const hint = "Nothing was written. Name a folder of the repository for these files, such as .planning.";
  return refusal("FOLDER_UNSAFE", `${quoteValue(path)} cannot hold rendered files: ${why}`, hint, { path });
}

export function keptMoving(goal: string, folder: string): HoldfastError {
  const message = `goal ${goal}: the files in ${quoteValue(folder)} changed at every attempt to write them`;
  const hint = "Another program writes these files. Stop it, then sync again.";
  return refusal("FOLDER_BUSY", message, hint, { goal, folder });
}

const CHANGES_NAMED = 8;

/** A note, not thrown: an edit may be a slip, such as a deleted line. */
export function editApplied(file: string, changes: readonly string[]): HoldfastError {
  const more = changes.length - CHANGES_NAMED;
  const named = changes.slice(0, CHANGES_NAMED).join("; ") + (more > 0 ? ` and ${more} more` : "");
  const hint = "If that was a slip, correct it by a command, or in the file.";
  return refusal("EDIT_APPLIED", `applied from ${file}: ${named}`, hint, { file, changes });
}

/** A note, not thrown: parts of an edit that could not be applied, and the path of the backup. */
export function editLeft(edit: {
  readonly file: string;
  readonly from: string;
  readonly left: readonly string[];
  readonly beside: string | null;
}): HoldfastError {
  const { file, beside, left, from } = edit;
  // A file that a person saves is applied as their edit, even if git brought it first.
  const again =
    from === "git"
      ? ` Or, if all of it still holds, in that folder: cp ${beside} ${file} && holdfast rebuild`
      : "";
  const isForeign = from === "stranger" && file === "STATE.md";
  const importing = isForeign ? ` Or make a goal of it, in that folder: holdfast goal import ${beside}` : "";
  const hint =
    beside === null
      ? "Make the change in another way, such as by a command."
      : `The file is kept as ${beside}. Make the change in another way, then remove it.${again}${importing}`;
  const message = `${file}: not everything in it could be applied: ${left.join("; ")}`;
  return refusal("EDIT_LEFT", message, hint, { file, beside, left });
}

const CHECK_CLOCK = "Check the clock of this machine (date). Any command merges the file at that time.";

const LOOK_AT_PULL = "Look at what the last pull brought: git log -- .planning/events";

/** A note, not thrown: one look reads a limited number of invalid files. */
export function notReadYet(folder: string, unread: number): HoldfastError {
  const message = `${unread} more files of .planning/events/ were not read yet: too many are invalid`;
  const hint = `The next command reads on. ${LOOK_AT_PULL}`;
  return refusal("EVENT_FILE_REFUSED", message, hint, { folder, unread });
}

/** Notes, not thrown: the goal works without the files. One for each of the first files, one for the rest. */
export function eventFileNotes(
  folder: string,
  refused: readonly { readonly file: string; readonly why: string; readonly until?: number }[],
): HoldfastError[] {
  const notes = refused.slice(0, REFUSED_NAMED).map(({ file, why, until }) => {
    const restore = `Restore it from git, in that folder: git checkout HEAD -- ${file}`;
    const hint = `The file was left alone. ${until === undefined ? restore : CHECK_CLOCK}`;
    const message = `${file} in ${quoteValue(folder)} was not merged: ${why}`;
    const data = { folder, file, why, ...(until && { until }) };
    return withoutStack(() => refusal("EVENT_FILE_REFUSED", message, hint, data));
  });
  const more = refused.slice(REFUSED_NAMED);
  if (more.length === 0) return notes;
  const until = Math.max(...more.map((each) => each.until ?? Number.POSITIVE_INFINITY));
  const doAllWait = Number.isFinite(until);
  const hint = doAllWait ? CHECK_CLOCK : LOOK_AT_PULL;
  const data = { folder, ...(doAllWait && { until }) };
  return [...notes, refusal("EVENT_FILE_REFUSED", moreRefused(refused.length), hint, data)];
}
