/**
 * One writer at a time for a file that has no store beside it. The lock is a file that names its holder.
 *
 * | situation | outcome |
 * |---|---|
 * | the holder crashed | the next process moves the lock away; a rename succeeds for one of two that try |
 * | the holder paused, and its lock was removed | it checks `isHeld` before it writes, and writes nothing |
 * | the holder is on another machine | the lock expires after a minute |
 *
 * A holder counts as dead if it ran in this boot and pid namespace and no process with its pid has its start
 * time: pids are reused. The lock's age decides if start times are unknown.
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
/** For a holder that cannot be checked, such as one on another machine: no write takes longer. */
const FOREIGN_MS = 60_000;
const NO_ROOM = ["ENOSPC", "EDQUOT", "EFBIG"];
const NO_LINKS = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"];

export interface FileLock {
  /** False when another process took the lock for abandoned. */
  isHeld(): Promise<boolean>;
}

/** Runs `act`, which writes the file at `path`, under the lock. A full disk throws `STORE_FULL`. */
export async function withFileLock<Result>(
  path: string,
  act: (lock: FileLock) => Promise<Result>,
  options: { readonly waitMs?: number } = {},
): Promise<Result> {
  try {
    return await lockAndAct(path, act, options.waitMs ?? WAIT_MS);
  } catch (error) {
    throw NO_ROOM.includes((error as NodeJS.ErrnoException | null)?.code ?? "") ? noRoom(path, error) : error;
  }
}

async function lockAndAct<Result>(
  path: string,
  act: (lock: FileLock) => Promise<Result>,
  waitMs: number,
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
 * Writes the lock under another name and links it: a lock without a holder's name would keep others out for a
 * minute if its maker were killed. Synchronous, to make a kill in between unlikely.
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

/** False: the lock is taken. Null: the file system has no hard links. */
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

/** For file systems without hard links: the lock is empty for a moment. */
function makeInPlace(file: string, mine: string): boolean {
  try {
    writeFileSync(file, mine, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    // An empty lock would keep others out for a minute.
    rmSync(file, { force: true });
    throw error;
  }
}

async function removeIfDead(file: string, token: string): Promise<void> {
  const seen = await content(file);
  if (seen === null || !(await isDead(file, seen))) return;
  const away = `${file}.${token}`;
  // This may move a newer lock: its owner then finds it gone, writes nothing and tries again.
  await rename(file, away).catch(ifMissing(undefined));
  await rm(away, { force: true });
}

async function isDead(file: string, seen: string): Promise<boolean> {
  const holder = holderIn(seen);
  const isOld = async (): Promise<boolean> =>
    Date.now() - (await stat(file).catch(ifMissing({ mtimeMs: Date.now() }))).mtimeMs > FOREIGN_MS;
  // An empty lock was made in place: its maker is about to fill it, or died there.
  if (holder === null || holder.host !== hostname()) return isOld();
  const here = holderFor("", "");
  const isKnown = holder.started && holder.boot && holder.pidNamespace && here.started;
  if (!isKnown) return hasNoProcess(holder.pid) || isOld();
  if (isProvablyDead(holder)) return true;
  const isNeighbour = holder.boot === here.boot && holder.pidNamespace === here.pidNamespace;
  // Start times of another time namespace cannot be compared.
  const isLiving = isNeighbour && holder.timeNamespace === here.timeNamespace;
  return !isLiving && isOld();
}

/** Earlier versions wrote only host and pid. */
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

/** For `catch`: a missing file counts as `value`. */
function ifMissing<Value>(value: Value): (error: NodeJS.ErrnoException) => Value {
  return (error) => {
    if (error.code === "ENOENT") return value;
    throw error;
  };
}

async function content(file: string): Promise<string | null> {
  return readFile(file, "utf8").catch(ifMissing(null));
}

function stillHeld(path: string, file: string, seen: string | null): HoldfastError {
  const holder = holderIn(seen ?? "");
  const who = holder ? `pid ${holder.pid} on ${holder.host}` : "another process";
  return new HoldfastError("FILE_LOCKED", `${path} is being written by ${who}`, {
    hint: `Try again. If that process no longer runs, remove ${file}.`,
    data: { path, holder: seen },
  });
}

function noRoom(path: string, cause: unknown): HoldfastError {
  const message = `${path} could not be written: there is no room for it (${(cause as Error).message})`;
  const hint = "Free some space on this disk, or raise the limit on files, then try again.";
  return new HoldfastError("STORE_FULL", message, { hint, cause, data: { path } });
}
