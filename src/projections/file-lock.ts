/**
 * One writer at a time for a file that has no store beside it.
 *
 * The lock is a file of its own, made exclusively, that says who has it. One whose process is gone is moved away by
 * whoever meets it; a rename moves what is there, so two who do that at once cannot both get it. Before a file is put
 * into its place the holder looks whether the lock is still its own: a process that was stopped for long, and whose lock
 * was taken for dead, finds that out and writes nothing.
 *
 * A crash leaves a lock of a dead process, which the next one removes.
 */

import { randomBytes } from "node:crypto";
import { open, readFile, rename, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError, show } from "../model/index.ts";

const WAIT_MS = 10_000;
const PAUSE_MS = { least: 2, most: 15 };
/** A holder on another machine cannot be asked; nobody needs longer than this for one file. */
const FOREIGN_MS = 60_000;

export interface FileLock {
  /** Whether nobody took it from us. */
  isHeld(): Promise<boolean>;
}

export async function withFileLock<Result>(
  path: string,
  act: (lock: FileLock) => Promise<Result>,
): Promise<Result> {
  const file = `${path}.lock`;
  const mine = JSON.stringify({ host: hostname(), pid: process.pid, token: randomBytes(8).toString("hex") });
  const until = performance.now() + WAIT_MS;
  while (!(await make(file, mine))) {
    await removeIfDead(file, mine);
    if (performance.now() > until) throw stillHeld(path, await content(file));
    await pause(PAUSE_MS.least + Math.random() * (PAUSE_MS.most - PAUSE_MS.least));
  }
  const isHeld = async (): Promise<boolean> => (await content(file)) === mine;
  try {
    return await act({ isHeld });
  } finally {
    if (await isHeld()) await rm(file, { force: true });
  }
}

async function make(file: string, mine: string): Promise<boolean> {
  try {
    const handle = await open(file, "wx");
    try {
      await handle.writeFile(mine);
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function removeIfDead(file: string, mine: string): Promise<void> {
  const seen = await content(file);
  if (seen === null || !(await isDead(file, seen))) return;
  const away = `${file}.${(JSON.parse(mine) as { token: string }).token}`;
  try {
    await rename(file, away);
    // What was moved may be the lock of somebody faster: then its owner finds it gone, writes nothing and tries again.
    await rm(away, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

async function isDead(file: string, seen: string): Promise<boolean> {
  let holder: { host?: unknown; pid?: unknown };
  try {
    holder = JSON.parse(seen) as typeof holder;
  } catch (error) {
    // Made, but not yet filled in: its maker is at it, or died there long ago.
    if (error instanceof SyntaxError) return (await ageOf(file)) > FOREIGN_MS;
    throw error;
  }
  if (holder.host !== hostname() || typeof holder.pid !== "number") return (await ageOf(file)) > FOREIGN_MS;
  try {
    process.kill(holder.pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

async function ageOf(file: string): Promise<number> {
  try {
    return Date.now() - (await stat(file)).mtimeMs;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0;
    throw error;
  }
}

async function content(file: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function stillHeld(path: string, holder: string | null): HoldfastError {
  return new HoldfastError("FILE_LOCKED", `${path} is being written by ${show(holder ?? "somebody")}`, {
    hint: "Try again. If that process is not there any more, remove the lock file beside it.",
    data: { path, holder },
  });
}
