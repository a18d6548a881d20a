/**
 * The few things that are asked of the file system. All of it is synchronous: between taking the lock and answering,
 * nothing else of this process may come in between.
 */

import { closeSync, fsyncSync, mkdirSync, openSync, readSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { statOf, syncFolder, systemCode } from "../kit/index.ts";

/**
 * Like `mkdir -p`, but each new folder is durable in its parent, or a power cut could take the store with it. Made one by
 * one: Node's own recursion takes a disk that cannot be written for a path that is not there.
 */
export function makeFolder(folder: string): void {
  if (statOf(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
  syncFolder(parent);
}

const CHUNK_BYTES = 1024 * 1024;

export function writeAll(descriptor: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done);
  }
}

/** What is there of the asked range; shorter where the file ends. */
export function readUpTo(descriptor: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const got = readSync(descriptor, bytes, done, length - done, position + done);
    if (got === 0) break;
    done += got;
  }
  return bytes.subarray(0, done);
}

export const TEMPORARY = ".new";

/**
 * A whole file or the old one, never a torn one. The new name is only durable once its folder is synced, which is
 * left to the caller, who may have several files for one folder. What does not fit takes no room afterwards.
 */
export function replaceFile(path: string, bytes: Uint8Array, temporary = `${path}${TEMPORARY}`): void {
  const descriptor = openSync(temporary, "w", 0o600);
  try {
    try {
      writeAll(descriptor, bytes, 0);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Whether the file holds exactly this. What cannot be read does not: whoever writes it anew is told what is wrong. */
export function holdsBytes(path: string, bytes: Uint8Array): boolean {
  if (statOf(path)?.size !== bytes.length) return false;
  try {
    const descriptor = openSync(path, "r");
    try {
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
        const wanted = bytes.subarray(at, at + CHUNK_BYTES);
        if (!readUpTo(descriptor, at, wanted.length).equals(wanted)) return false;
      }
      return true;
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return false;
  }
}

const ZEROS = Buffer.alloc(CHUNK_BYTES);

/** Overwrites what is there, as well as a file system lets one. */
export function blacken(descriptor: number, size: number): void {
  for (let at = 0; at < size; at += ZEROS.length) {
    writeAll(descriptor, ZEROS.subarray(0, Math.min(ZEROS.length, size - at)), at);
  }
  fsyncSync(descriptor);
}

export function blackenFile(path: string): void {
  const descriptor = openSync(path, "r+");
  try {
    blacken(descriptor, statOf(path)?.size ?? 0);
  } finally {
    closeSync(descriptor);
  }
}
