/**
 * Files that are whole at every instant: written under another name, synced, renamed into place, and the
 * folder synced. A crash leaves a temporary file that nothing reads.
 */

import { randomBytes } from "node:crypto";
import { type BigIntStats, lstatSync } from "node:fs";
import { open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

const TEMPORARY = /^\.holdfast-[0-9a-f]{12}\.tmp$/;

/** Tells whether a file changed, without reading it. A rename keeps all three. */
export interface Signature {
  readonly inode: bigint;
  readonly size: bigint;
  readonly modifiedNs: bigint;
}

function signatureOf(stat: BigIntStats): Signature {
  return { inode: stat.ino, size: stat.size, modifiedNs: stat.mtimeNs };
}

export function sameSignature(a: Signature | null, b: Signature | null): boolean {
  if (a === null || b === null) return a === b;
  return a.inode === b.inode && a.size === b.size && a.modifiedNs === b.modifiedNs;
}

export function signatureAt(path: string): Signature | null {
  try {
    const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    return stat ? signatureOf(stat) : null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") return null;
    throw error;
  }
}

export interface PreparedFile {
  readonly path: string;
  readonly signature: Signature;
  place(): Promise<void>;
  discard(): Promise<void>;
}

export async function prepareFile(path: string, text: string): Promise<PreparedFile> {
  const temporary = join(dirname(path), `.holdfast-${randomBytes(6).toString("hex")}.tmp`);
  const discard = (): Promise<void> => rm(temporary, { force: true });
  let signature: Signature;
  try {
    const file = await open(temporary, "wx", 0o644);
    try {
      await file.writeFile(text);
      await file.sync();
      signature = signatureOf(await file.stat({ bigint: true }));
    } finally {
      await file.close();
    }
  } catch (error) {
    await discard();
    throw error;
  }
  return { path, signature, place: () => rename(temporary, path), discard };
}

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export async function writeFileWhole(path: string, text: string): Promise<void> {
  const prepared = await prepareFile(path, text);
  try {
    await prepared.place();
  } catch (error) {
    await prepared.discard();
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Removes the temporary files of crashed writers. Only the holder of the folder's lease may call it. */
export async function removeTemporaries(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (TEMPORARY.test(basename(name))) await rm(join(folder, name), { force: true });
  }
}
