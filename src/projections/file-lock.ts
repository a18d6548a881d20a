/**
 * One writer at a time for a file that has no store beside it.
 *
 * The lock is a file of its own, made exclusively, that says who has it from its first moment on. One whose process is
 * gone is moved away by whoever meets it; a rename moves what is there, so two who do that at once cannot both get it.
 * Before a file is put into its place the holder looks whether the lock is still its own: a process that was stopped for
 * long, and whose lock was taken for dead, finds that out and writes nothing.
 *
 * Gone means: of this boot and this pid namespace, and no process with that pid began when it did. A pid alone says
 * little, for somebody else may have it now. Where that cannot be known, the age of the lock decides.
 *
 * A crash leaves a lock of a dead process, which the next one removes.
 */

import { randomBytes } from "node:crypto";
import { linkSync, rmSync, writeFileSync } from "node:fs";
import { readFile, rename, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { holderFor, isProvablyDead } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Holder } from "../store.ts";

const WAIT_MS = 10_000;
const PAUSE_MS = { least: 2, most: 15 };
/** A holder that cannot be asked, as on another machine: nobody needs longer than this for one file. */
const FOREIGN_MS = 60_000;
const NO_ROOM = ["ENOSPC", "EDQUOT", "EFBIG"];
const NO_LINKS = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"];

export interface FileLock {
  /** Whether nobody took it from us. */
  isHeld(): Promise<boolean>;
}

/** `act` writes the file at `path`. A disk that has no room for the lock or for what it writes is told as such. */
export async function withFileLock<Result>(
  path: string,
  act: (lock: FileLock) => Promise<Result>,
  options: { readonly waitMs?: number } = {},
): Promise<Result> {
  try {
    return await lockAndAct(path, act, options);
  } catch (error) {
    throw NO_ROOM.includes((error as NodeJS.ErrnoException | null)?.code ?? "") ? noRoom(path, error) : error;
  }
}

async function lockAndAct<Result>(
  path: string,
  act: (lock: FileLock) => Promise<Result>,
  { waitMs = WAIT_MS }: { readonly waitMs?: number } = {},
): Promise<Result> {
  const file = `${path}.lock`;
  const token = randomBytes(8).toString("hex");
  const { owner: _owner, label: _label, ...facts } = holderFor(token, "");
  const mine = JSON.stringify({ ...facts, token });
  const until = performance.now() + waitMs;
  while ((await content(file)) !== null || !make(file, mine, token)) {
    await removeIfDead(file, token);
    if (performance.now() > until) throw stillHeld(path, file, await content(file));
    await pause(PAUSE_MS.least + Math.random() * (PAUSE_MS.most - PAUSE_MS.least));
  }
  const isHeld = async (): Promise<boolean> => (await content(file)) === mine;
  try {
    return await act({ isHeld });
  } finally {
    if (await isHeld()) await rm(file, { force: true });
  }
}

/**
 * The lock gets its name when it says whose it is: one that said nothing yet would keep everybody out for a minute after
 * its maker was killed. At once and not awaited, so that hardly anybody dies in between; a file under the other name,
 * which is what that leaves, is in nobody's way.
 */
function make(file: string, mine: string, token: string): boolean {
  const named = `${file}.${token}`;
  try {
    writeFileSync(named, mine, { flag: "wx" });
    return link(named, file) ?? makeInPlace(file, mine);
  } finally {
    rmSync(named, { force: true });
  }
}

/** False when somebody has the lock; null where a disk has no links. */
function link(named: string, file: string): boolean | null {
  try {
    linkSync(named, file);
    return true;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (code === "EEXIST") return false;
    if (NO_LINKS.includes(code)) return null;
    throw error;
  }
}

/** Where a disk has no links: empty for a moment. */
function makeInPlace(file: string, mine: string): boolean {
  try {
    writeFileSync(file, mine, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    // An empty one would keep everybody out for a minute.
    rmSync(file, { force: true });
    throw error;
  }
}

async function removeIfDead(file: string, token: string): Promise<void> {
  const seen = await content(file);
  if (seen === null || !(await isDead(file, seen))) return;
  const away = `${file}.${token}`;
  try {
    await rename(file, away);
    // What was moved may be the lock of somebody faster: then its owner finds it gone, writes nothing and tries again.
    await rm(away, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

async function isDead(file: string, seen: string): Promise<boolean> {
  const holder = holderIn(seen);
  const isOld = async (): Promise<boolean> => (await ageOf(file)) > FOREIGN_MS;
  // Made in place, but not yet filled in: its maker is at it, or died there long ago.
  if (holder === null || holder.host !== hostname()) return isOld();
  const here = holderFor("", "");
  const isKnown = holder.started && holder.boot && holder.pidNamespace && here.started;
  if (!isKnown) return hasNoProcess(holder.pid) || isOld();
  if (isProvablyDead(holder)) return true;
  const isNeighbour = holder.boot === here.boot && holder.pidNamespace === here.pidNamespace;
  // Without the same time it cannot be told whether the process with its pid is the same.
  const isLiving = isNeighbour && holder.timeNamespace === here.timeNamespace;
  return !isLiving && isOld();
}

/** Earlier versions said no more than host and pid. */
function holderIn(seen: string): Holder | null {
  try {
    const holder = JSON.parse(seen) as Holder | null;
    return typeof holder?.pid === "number" && typeof holder.host === "string" ? holder : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function hasNoProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
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

function stillHeld(path: string, file: string, seen: string | null): HoldfastError {
  const holder = holderIn(seen ?? "");
  const who = holder ? `pid ${holder.pid} on ${holder.host}` : "somebody";
  return new HoldfastError("FILE_LOCKED", `${path} is being written by ${who}`, {
    hint: `Try again. If that process is not there any more, remove ${file}.`,
    data: { path, holder: seen },
  });
}

function noRoom(path: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    "STORE_FULL",
    `${path} could not be written: there is no room for it (${(cause as Error).message})`,
    {
      hint: "Free some space on this disk, or raise the limit on files, then try again. The file is as it was.",
      cause,
      data: { path },
    },
  );
}
