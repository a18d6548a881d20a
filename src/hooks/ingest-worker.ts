/** Writes spooled lines to the store. Only the background process (`background.ts`) loads this file. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Goal, goalCore, openGoal } from "../goal/index.ts";
import { Journal } from "../journal/index.ts";
import type { Actor } from "../model/goal/index.ts";
import { openStore } from "../open-store.ts";
import {
  goalRows,
  knownGoals,
  openOptionsOf,
  type StorePlace,
  syncPlanningFolder,
} from "../operations/index.ts";
import { withFileLock } from "../state-files/index.ts";
import type { StreamRow } from "../store.ts";
import { goalChoice } from "./goal-choice.ts";
import { ingestSpools } from "./ingest.ts";

/** Limit for a store that others have locked. No agent waits here, but the process must end at some point. */
const BUSY_MS = 10_000;

const WATCHER: Actor = { name: "holdfast", role: "supervisor" };

export interface IngestWorker {
  readonly place: StorePlace;
  readonly folder: string;
  readonly warn: (error: unknown) => void;
  readonly say: (text: string) => void;
}

export async function ingestAll(worker: IngestWorker): Promise<void> {
  if (!existsSync(worker.folder)) return;
  await withFileLock(join(worker.folder, "ingest"), () => ingest(worker));
}

/** Opens only store and journal: sessions and calls are not needed here. */
async function ingest({ place, folder, warn, say }: IngestWorker): Promise<void> {
  const store = await openStore(place.address, {
    busyMs: BUSY_MS,
    encryption: place.config.encryption,
  });
  try {
    const journal = new Journal({ ...openOptionsOf(place), store, warn });
    const rows = await goalRows(journal);
    const choose = goalChoice(place, rows);
    const opened = new Map<string, { goal: Goal; root: string; seq: number }>();
    const open = async (id: string, root: string | null): Promise<Goal> => {
      const known = opened.get(id);
      if (known) return known.goal;
      const at = root ?? place.root;
      const goal = await openGoal(journal, id, { by: WATCHER, root: at, stale: "use" });
      goalCore(goal).isObserver = true;
      opened.set(id, { goal, root: at, seq: goal.seq });
      return goal;
    };
    const none = (session: string): void => say(`session ${session}: not ingested (${whyNoGoal(rows)})`);
    await ingestSpools({ choose, open, none }, folder, Date.now(), warn);
    if (place.isNamed) return;
    for (const { goal, root, seq } of opened.values())
      if (goal.seq > seq) await syncPlanningFolder(goal, root, { home: place.home });
  } finally {
    await store.close();
  }
}

function whyNoGoal(rows: readonly StreamRow[]): string {
  const { open } = knownGoals(rows, null);
  if (open.length === 0) return "there is no goal yet. Create one: holdfast goal new";
  return `several goals are open: ${open.slice(0, 20).join(", ")}. Choose one: holdfast goal use <goal>`;
}
