/**
 * What git brought into `.planning/events/` and the store has not taken in yet. Whoever speaks of goals asks first, so that
 * after a pull nobody is told how things were. Light: what reads and writes is loaded only when there is something new.
 *
 * A store that somebody named is another matter: only a goal that is opened in it takes in what is its own.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { unseenEventFiles } from "../goal/index.ts";
import { HoldfastError } from "../model/index.ts";
import type { Holdfast } from "../open.ts";
import type { Store } from "../store.ts";
import { PLANNING, type StorePlace } from "./store-place.ts";

const NAMESPACE = "default";

const folderOf = ({ root }: StorePlace): string => join(root, PLANNING);

export async function hasNews(place: StorePlace, store: Store): Promise<boolean> {
  return (await unseenEventFiles({ store, namespace: NAMESPACE }, folderOf(place))).length > 0;
}

/** For whoever has the store open. What cannot be taken in is told, and the store answers as it is. */
export async function takeInNews(place: StorePlace, { journal }: Holdfast): Promise<void> {
  if (!existsSync(join(folderOf(place), "events"))) return;
  try {
    const { takeInFolder } = await import("../projections/index.ts");
    await takeInFolder(journal, folderOf(place));
  } catch (error) {
    journal.warn(notTakenIn(error));
  }
}

/** For whoever only looks: opens the store to write, this once. Throws when that cannot be done. */
export async function bringNews(place: StorePlace): Promise<void> {
  const { open } = await import("../open.ts");
  const { takeInFolder } = await import("../projections/index.ts");
  const holdfast = await open(place.address);
  try {
    await takeInFolder(holdfast.journal, folderOf(place));
  } catch (error) {
    throw notTakenIn(error);
  } finally {
    await holdfast.close();
  }
}

function notTakenIn(cause: unknown): HoldfastError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(
    cause instanceof HoldfastError ? cause.code : "STORE_IO",
    `what git brought into .planning/events/ is not in the store yet: ${why}`,
    { hint: "What is shown is the store as it was. See to that, then ask again.", cause },
  );
}
