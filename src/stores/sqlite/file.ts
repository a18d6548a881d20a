/**
 * The store's file as the file system sees it: where it lies, which one it is, whether it may live there.
 *
 * None of this opens the file, its -wal or its -shm: closing any descriptor of theirs would drop the locks that
 * SQLite holds in this process. The one exception creates the file and therefore cannot meet a lock.
 */

import {
  accessSync,
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  openSync,
  type Stats,
  statfsSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { HoldfastError } from "../../model/errors.ts";

/** Tells this file from one that was put in its place. */
export interface Identity {
  readonly device: number;
  readonly inode: number;
}

export function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

/** The file of a store that was opened is never empty: one that is has been emptied since. */
export function isSame(identity: Identity, stats: Stats | undefined): boolean {
  return (
    stats !== undefined && stats.ino === identity.inode && stats.dev === identity.device && stats.size > 0
  );
}

/** Makes the folder and the empty file, both durable, for this user alone. False when the file was there already. */
export function createFile(path: string): boolean {
  const folder = dirname(path);
  makeFolder(folder);
  let descriptor: number;
  try {
    descriptor = openSync(path, "wx", 0o600);
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error;
  }
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  syncFolder(folder);
  return true;
}

/** Like `mkdir -p`, but each new folder is durable in its parent, or a power cut could take the store with it. */
function makeFolder(folder: string): void {
  const first = mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = dirname(made)) syncFolder(dirname(made));
}

function syncFolder(folder: string): void {
  if (process.platform === "win32") return;
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

export function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch (error) {
    if (["EACCES", "EPERM", "EROFS"].includes(systemCode(error) ?? "")) return false;
    throw error;
  }
}

export function systemCode(error: unknown): string | undefined {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return typeof code === "string" ? code : undefined;
}

/** File systems whose locks or whose shared memory do not reach across machines: `statfs` type numbers on Linux. */
const NETWORK_FILE_SYSTEMS: Readonly<Record<number, string>> = {
  26985: "NFS",
  20859: "SMB",
  4266872130: "SMB2",
  4283649346: "CIFS",
  16914839: "9p",
  1397113167: "AFS",
  1799439955: "AFS",
  12805120: "Ceph",
  198183888: "Lustre",
  1196443219: "GPFS",
  22092: "NCP",
  1937076805: "Coda",
};

/** `path` need not exist yet: its nearest folder that does decides. */
export function refuseNetworkDisk(path: string, typeOf: (folder: string) => number = fileSystemType): void {
  let folder = dirname(path);
  while (!statOf(folder) && dirname(folder) !== folder) folder = dirname(folder);
  const name = NETWORK_FILE_SYSTEMS[typeOf(folder) >>> 0];
  if (!name) return;
  throw new HoldfastError("STORE_ON_NETWORK_DISK", `${path} is on a network disk (${name})`, {
    hint: "SQLite's locks do not hold there. Use a local disk, or Postgres for several machines; `allowNetworkDisk` overrules.",
    data: { path, fileSystem: name },
  });
}

function fileSystemType(folder: string): number {
  return process.platform === "linux" ? statfsSync(folder).type : 0;
}
