/**
 * Taking in what hooks left, in a process of its own, so that no agent waits for it.
 *
 *     hook ──leaves its line──▶ starts `hook take-in`, which nobody waits for ──▶ ends
 *     take-in ──waits for its turn──▶ opens the store, writes, notes how far ──▶ ends
 *
 * One at a time per project: the one that has its turn reads whatever lies there then, so that of several only the first
 * finds work. Killed, locked out or never started, it leaves the lines where they are, and the next one takes them in.
 */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { join } from "node:path";
import { findStore } from "../operations/index.ts";

/** `from` is where the hook looked for the store: the other process looks from there too. `verb` is what it is told to do. */
export function startTakingIn(verb: string, from: string): void {
  const [, program = ""] = process.argv;
  const child = spawn(process.execPath, [...process.execArgv, program, "hook", verb], {
    cwd: from,
    detached: true,
    stdio: "ignore",
  });
  // Whatever keeps it from starting, the lines are still there for the next one.
  child.on("error", () => undefined);
  child.unref();
}

/** Where that process says what happens: `warn` also for whoever looks later, `say` for whoever watches. */
export interface Told {
  warn(home: string, error: unknown): void;
  say(text: string): void;
}

/** The whole life of that process. */
export async function runTakingIn(told: Told): Promise<void> {
  const place = findStore(process.env["HOLDFAST_STORE"], process.cwd());
  if (!place.exists) return told.say(`there is no store at ${place.shown}`);
  if (!existsSync(join(place.home, "hooks"))) return told.say(`no hook has left anything in ${place.home}`);
  const warn = (error: unknown): void => told.warn(place.home, error);
  try {
    giveWay();
    const { takeInAll } = await import("./store-side.ts");
    await takeInAll({ place, folder: join(place.home, "hooks"), warn, say: told.say });
  } catch (error) {
    warn(error);
  }
}

/** The agent's own work comes first. */
function giveWay(): void {
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It runs at a lower priority already, which only root may raise; or the system knows no such thing.
  }
}
