/**
 * `.planning/` of a project follows its goal: what the command line, an agent over MCP or a hook says is in the files when
 * it is over, and what a person wrote into them is taken in before. `init` makes the folder, and only where it is there is
 * anything written. It shows one goal, the first that was written; others have to be given a folder of their own.
 *
 * The store has what was said in any case: a folder that cannot be written is told, and stops nobody.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Goal } from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/index.ts";
import { PLANNING } from "./store-place.ts";

/** From here on every write through this handle is followed by the files. Loads what that takes only where it is needed. */
export async function followInFiles(goal: Goal, root: string): Promise<void> {
  if (!existsSync(join(root, PLANNING))) return;
  try {
    const { editNotes, projectGoal } = await import("../projections/index.ts");
    await projectGoal(goal, {
      folder: join(root, PLANNING),
      onEdit: (report) => editNotes(report).forEach(goal.journal.warn),
    });
  } catch (error) {
    // Whoever writes to a store that has moved is refused by the store itself, and nothing of it is to be in the files.
    const isToldElsewhere = isHoldfastError(error, "FOLDER_TAKEN") || isHoldfastError(error, "STORE_MOVED");
    if (!isToldElsewhere) goal.journal.warn(notWritten(error));
  }
}

/** What the file system refuses is no fault of ours, and has to be said in words. */
export function inWords(error: unknown): unknown {
  const isRefusal = error instanceof Error && "syscall" in error && !isHoldfastError(error);
  return isRefusal ? notWritten(error) : error;
}

function notWritten(cause: unknown): HoldfastError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(
    cause instanceof HoldfastError ? cause.code : "STORE_IO",
    `${PLANNING}/ is not up to date: ${why}`,
    { hint: "The store has everything. See to that, then: holdfast rebuild", cause },
  );
}
