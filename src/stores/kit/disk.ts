/** Files as the file system sees them: identity, permissions, durable names, network disks. */

import type { Stats } from "node:fs";
import { accessSync, closeSync, constants, fsyncSync, openSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { HoldfastError } from "../../model/errors.ts";

/** Tells a file from another that was put in its place. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
}

export function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

export function identityOf(stats: Stats): FileIdentity {
  return { device: stats.dev, inode: stats.ino };
}

export function isSameFile(identity: FileIdentity, stats: Stats | undefined): boolean {
  return stats !== undefined && stats.ino === identity.inode && stats.dev === identity.device;
}

/** The code of an error of the system, as in `ENOENT`. */
export function systemCode(error: unknown): string | undefined {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return typeof code === "string" ? code : undefined;
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

export function syncFolder(folder: string): void {
  if (process.platform === "win32") return;
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Errors of a folder above that is not ours, so that no store has made its name. */
const NOT_OURS = ["EACCES", "EPERM", "EINVAL", "ENOTSUP", "EROFS"];

/**
 * Makes the names in a new store's folder durable, and those of all folders above it on this disk. An earlier
 * process may have made them and ended before they were: killed, or by a sync that failed.
 */
export function syncNames(folder: string): void {
  syncFolder(folder);
  const { dev } = statSync(folder);
  for (let above = dirname(folder); statOf(above)?.dev === dev; above = dirname(above)) {
    try {
      syncFolder(above);
    } catch (error) {
      if (!NOT_OURS.includes(systemCode(error) ?? "")) throw error;
    }
    if (above === dirname(above)) return;
  }
}

/** Makes the bytes of a file durable that another part has written. */
export function syncFile(path: string): void {
  const descriptor = openSync(path, "r+");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Creates an empty file for this user alone; false if it exists. `syncFolder` makes its name durable. */
export function createEmptyFile(path: string): boolean {
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
  return true;
}

/** File systems whose locks or shared memory do not reach across machines: `statfs` type numbers on Linux. */
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

/** `path` need not exist: its nearest folder that exists decides. */
export function refuseNetworkDisk(path: string, typeOf: (folder: string) => number = fileSystemType): void {
  const name = networkDisk(path, typeOf);
  if (!name) return;
  throw new HoldfastError("STORE_ON_NETWORK_DISK", `${path} is on a network disk (${name})`, {
    hint:
      "SQLite's locks do not hold there. Use a local disk, or Postgres for several machines; " +
      "`allowNetworkDisk` overrules.",
    data: { path, fileSystem: name },
  });
}

/** The name of the network file system that the path is on, if it is on one. */
export function networkDisk(path: string, typeOf = fileSystemType): string | undefined {
  let folder = dirname(path);
  while (!statOf(folder) && dirname(folder) !== folder) folder = dirname(folder);
  return NETWORK_FILE_SYSTEMS[typeOf(folder) >>> 0];
}

function fileSystemType(folder: string): number {
  return process.platform === "linux" ? statfsSync(folder).type : 0;
}
