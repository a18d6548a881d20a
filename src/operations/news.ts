/**
 * What git brought into `.planning/events/` and the store has not taken in yet. Whoever speaks of goals asks first, so that
 * after a pull nobody is told how things were. Light: what reads and writes is loaded only when there is something new.
 *
 * A store that somebody named is another matter: only a goal that is opened in it takes in what is its own.
 */

import { lstatSync } from "node:fs";
import { join } from "node:path";
import { unseenEventFiles } from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Holdfast } from "../open.ts";
import type { Store } from "../store.ts";
import { PLANNING, type StorePlace } from "./store-place.ts";

const NAMESPACE = "default";

const folderOf = ({ root }: StorePlace): string => join(root, PLANNING);

/** A folder that keeps us out may hold anything: whoever tries to bring it in says why that cannot be done. */
export async function hasNews(place: StorePlace, store: Store): Promise<boolean> {
  try {
    return (await unseenEventFiles({ store, namespace: NAMESPACE }, folderOf(place))).length > 0;
  } catch (error) {
    if (isHoldfastError(error, "STORE_IO")) return true;
    throw error;
  }
}

/**
 * For whoever has the store open. What cannot be taken in is told, and the store answers as it is; a line each is returned
 * too, for whoever reads answers and no warnings.
 */
export async function ingestNews(place: StorePlace, { journal }: Holdfast): Promise<readonly string[]> {
  if (!isThere(join(folderOf(place), "events"))) return [];
  const left: string[] = [];
  const tell = (error: unknown): void => {
    journal.warn(notTakenIn(error));
    left.push(oneLineError(error));
  };
  try {
    const { mergeEventFolder } = await import("../projections/index.ts");
    await mergeEventFolder(journal, folderOf(place), undefined, tell);
  } catch (error) {
    tell(error);
  }
  return left;
}

/** Also what cannot be followed, as a link to itself: whoever takes it in says what is wrong with it. */
function isThere(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    // Nothing, or no folder around it.
    return false;
  }
}

/** The same for whoever only looks: opens the store to write, this once. Throws when it cannot be opened. */
export async function openAndIngestNews(
  place: StorePlace,
  warn?: (error: unknown) => void,
): Promise<readonly string[]> {
  const { open } = await import("../open.ts");
  const holdfast = await open(place.address, warn ? { warn } : {});
  try {
    return await ingestNews(place, holdfast);
  } finally {
    await holdfast.close();
  }
}

/** What went wrong, in one line. */
export function oneLineError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function notTakenIn(cause: unknown): HoldfastError {
  if (isHoldfastError(cause, "EVENT_FILE_REFUSED")) return cause;
  const why = oneLineError(cause);
  return new HoldfastError(
    cause instanceof HoldfastError ? cause.code : "STORE_IO",
    `what git brought into .planning/events/ is not in the store yet: ${why}`,
    {
      hint: `${isHoldfastError(cause) ? `${cause.hint} ` : ""}What is shown is the store as it was. See to that, then ask again.`,
      cause,
    },
  );
}
