/**
 * The background process that writes spooled lines to the store, so that no agent waits for it.
 *
 *     hook ──appends a line──▶ spawns `holdfast hook ingest` ──▶ exits
 *     ingest ──waits for the lock──▶ opens the store, writes, marks how far it got ──▶ exits
 *
 * The lock lets one process per project run at a time. If it is killed, locked out or never starts, the lines
 * stay in the spool and the next one ingests them.
 */

import { existsSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { join } from "node:path";
import { Journal } from "../journal/index.ts";
import { openStore } from "../open-store.ts";
import { findStore, ingestAgents, locateStore, openOptionsOf, type StorePlace } from "../operations/index.ts";

/** Output of the background process: `warn` also goes to the log file, `say` only to the terminal. */
export interface Reporter {
  warn(home: string, error: unknown): void;
  say(text: string): void;
}

export async function runIngest(reporter: Reporter): Promise<void> {
  const from = process.cwd();
  const place = await locateStore({}, from).catch((error: unknown) => {
    reporter.warn(findStore(undefined, from).home, error);
    return null;
  });
  if (place === null) return;
  if (!place.exists) return reporter.say(`no store at ${place.label}`);
  if (!existsSync(join(place.home, "hooks"))) return reporter.say(`nothing to ingest in ${place.home}`);
  const warn = (error: unknown): void => reporter.warn(place.home, error);
  try {
    lowerPriority();
    await ingestStore(place, { warn, say: reporter.say });
  } catch (error) {
    warn(error);
  }
}

/** Limit for a store that others have locked. No agent waits here, but the process must end at some point. */
const BUSY_MS = 10_000;

/** Opens only store and journal: sessions and calls are not needed here. */
async function ingestStore(
  place: StorePlace,
  reporter: { warn(error: unknown): void; say(text: string): void },
): Promise<void> {
  const { encryption } = place.config;
  const store = await openStore(place.address, { busyMs: BUSY_MS, encryption });
  try {
    const journal = new Journal({ ...openOptionsOf(place), store, warn: reporter.warn });
    await ingestAgents(journal, place, reporter);
  } finally {
    await store.close();
  }
}

function lowerPriority(): void {
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // The process already has a lower priority, which only root may raise, or the system has none.
  }
}
