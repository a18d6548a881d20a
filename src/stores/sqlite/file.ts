/**
 * The store's file as the file system sees it: where it lies, which one it is, whether it may live there.
 *
 * None of this opens the file, its -wal or its -shm: closing any descriptor of theirs would drop the locks that
 * SQLite holds in this process. The one exception creates the file and therefore cannot meet a lock.
 */

import { mkdirSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { createEmptyFile, type FileIdentity, isSameFile, syncFolder } from "../kit/index.ts";

/** The file of a store that was opened is never empty: one that is has been emptied since. */
export function isSame(identity: FileIdentity, stats: Stats | undefined): boolean {
  return isSameFile(identity, stats) && (stats?.size ?? 0) > 0;
}

/** Makes the folder and the empty file, both durable, for this user alone. False when the file was there already. */
export function createFile(path: string): boolean {
  const folder = dirname(path);
  makeFolder(folder);
  const isNew = createEmptyFile(path);
  if (isNew) syncFolder(folder);
  return isNew;
}

/** Like `mkdir -p`, but each new folder is durable in its parent, or a power cut could take the store with it. */
function makeFolder(folder: string): void {
  const first = mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = dirname(made)) syncFolder(dirname(made));
}
