/**
 * A consistent copy of the folder, while others write to it. The journal only grows, and a compacted one is
 * another file, so its durable part is copied without the lock. Lines of that part name the artifacts; one
 * that another process collects meanwhile makes the copy fail. Snapshots can be computed again.
 */

import { closeSync, copyFileSync, fsyncSync, openSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { HoldfastError } from "../../model/errors.ts";
import { syncFile, syncFolder, systemCode } from "../kit/index.ts";
import { artifactPaths } from "./blobs.ts";
import { makeFolder, readUpTo, writeAll } from "./disk.ts";
import type { JournalFile } from "./journal-file.ts";
import type { OpenFolder } from "./open-folder.ts";

const CHUNK_BYTES = 1024 * 1024;

/** `path` must not exist. All of it is durable at the end, except its name. */
export function copyFolder(folder: OpenFolder, path: string): void {
  makeFolder(path);
  copyJournal(folder.journal, join(path, basename(folder.paths.journal)));
  const folders = new Set([path]);
  for (const file of artifactPaths(folder)) {
    const copy = join(path, file);
    makeFolder(dirname(copy));
    copyArtifact(join(folder.paths.folder, file), copy);
    for (let each = dirname(copy); each !== path; each = dirname(each)) folders.add(each);
  }
  for (const each of folders) syncFolder(each);
}

function copyJournal({ descriptor: from, end }: JournalFile, path: string): void {
  const to = openSync(path, "wx", 0o600);
  try {
    for (let at = 0; at < end; at += CHUNK_BYTES) {
      writeAll(to, readUpTo(from, at, Math.min(CHUNK_BYTES, end - at)), at);
    }
    fsyncSync(to);
  } finally {
    closeSync(to);
  }
}

function copyArtifact(from: string, to: string): void {
  try {
    copyFileSync(from, to);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    throw new HoldfastError("STORE_BUSY", `${from}: another process removed it during the backup`, {
      hint: "Make the backup again.",
      cause: error,
      data: { path: from },
    });
  }
  syncFile(to);
}
