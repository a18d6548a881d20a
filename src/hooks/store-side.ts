/** The part of the hooks that writes to the store. It runs in the background (`background.ts`) and is loaded only there. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { openGoal } from "../goal/index.ts";
import { Journal } from "../journal/index.ts";
import { openStore } from "../open-store.ts";
import { currentGoal, followInFiles, knownGoals, type StorePlace } from "../operations/index.ts";
import { withFileLock } from "../projections/index.ts";
import { takeIn } from "./taking-in.ts";

/** How long it waits for a store that others have locked: nobody waits for it, but it should not stay for ever. */
const BUSY_MS = 10_000;

export interface StoreSide {
  readonly place: StorePlace;
  /** Where hooks leave what they saw. */
  readonly folder: string;
  readonly warn: (error: unknown) => void;
}

export async function takeInAll(side: StoreSide): Promise<void> {
  if (!existsSync(side.folder)) return;
  await withFileLock(join(side.folder, "taking-in"), () => takeInNow(side));
}

/** Without everything that sessions and calls need, which this does not. */
async function takeInNow({ place, folder, warn }: StoreSide): Promise<void> {
  const store = await openStore(place.address, { busyMs: BUSY_MS });
  try {
    const journal = new Journal({ store, warn });
    const { rows } = await journal.list<"streams">({ of: "streams", kind: "goal", limit: 500 });
    const { current } = knownGoals(rows, process.env["HOLDFAST_GOAL"] || currentGoal(place));
    if (current === null) return;
    const by = { name: "holdfast", role: "supervisor" } as const;
    const goal = await openGoal(journal, current, { by, root: place.root, stale: "use" });
    await takeIn(goal, folder, Date.now());
    if (!process.env["HOLDFAST_STORE"]) await followInFiles(goal, place.root);
  } finally {
    await store.close();
  }
}
