/** The part of the hooks that writes to the store. It runs in the background (`background.ts`) and is loaded only there. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Goal, openGoal } from "../goal/index.ts";
import { Journal } from "../journal/index.ts";
import type { Actor } from "../model/goal/index.ts";
import { openStore } from "../open-store.ts";
import { goalRows, knownGoals, type StorePlace, syncPlanningFolder } from "../operations/index.ts";
import { withFileLock } from "../projections/index.ts";
import type { StreamRow } from "../store.ts";
import { goalChoice } from "./goal-choice.ts";
import { takeIn } from "./taking-in.ts";

/** How long it waits for a store that others have locked: nobody waits for it, but it should not stay for ever. */
const BUSY_MS = 10_000;

const WATCHER: Actor = { name: "holdfast", role: "supervisor" };

export interface StoreSide {
  readonly place: StorePlace;
  /** Where hooks leave what they saw. */
  readonly folder: string;
  readonly warn: (error: unknown) => void;
  /** For a person who asked: what is no fault, and why nothing was done. */
  readonly say: (text: string) => void;
}

export async function takeInAll(side: StoreSide): Promise<void> {
  if (!existsSync(side.folder)) return;
  await withFileLock(join(side.folder, "taking-in"), () => takeInNow(side));
}

/** Without everything that sessions and calls need, which this does not. */
async function takeInNow({ place, folder, warn, say }: StoreSide): Promise<void> {
  const store = await openStore(place.address, { busyMs: BUSY_MS });
  try {
    const journal = new Journal({ store, warn });
    const rows = await goalRows(store, journal.namespace);
    const choose = goalChoice(place, rows);
    const opened = new Map<string, { goal: Goal; root: string; seq: number }>();
    const open = async (id: string, root: string | null): Promise<Goal> => {
      const known = opened.get(id);
      if (known) return known.goal;
      const at = root ?? place.root;
      const goal = await openGoal(journal, id, { by: WATCHER, root: at, stale: "use" });
      opened.set(id, { goal, root: at, seq: goal.seq });
      return goal;
    };
    const none = (session: string): void => say(`${session} is not taken in: ${whyNone(rows)}`);
    await takeIn({ choose, open, none }, folder, Date.now(), warn);
    if (process.env["HOLDFAST_STORE"]) return;
    for (const { goal, root, seq } of opened.values())
      if (goal.seq > seq) await syncPlanningFolder(goal, root);
  } finally {
    await store.close();
  }
}

function whyNone(rows: readonly StreamRow[]): string {
  const { open } = knownGoals(rows, null);
  if (open.length === 0) return "there is no goal yet. Begin one: holdfast goal new";
  return `several goals are open (${open.slice(0, 20).join(", ")}). Choose one: holdfast goal use <goal>`;
}
