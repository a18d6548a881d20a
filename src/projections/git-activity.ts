/**
 * Whether git, and not a person, changed files a moment ago. Told as well as it can be: git writes what it did to HEAD
 * into its reflog, and it changes many files at once. A commit changes no file, so it does not count.
 */

import { open, readFile, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

const NEAR_MS = 2_000;
const TAIL_BYTES = 1_024;
const AT_ONCE = { files: 5, withinMs: 1_000 };

interface WrittenFile {
  readonly path: string;
  readonly modifiedMs: number;
}

/** The paths of those files that git most likely wrote. */
export async function writtenByGit(folder: string, files: readonly WrittenFile[]): Promise<Set<string>> {
  const movedAt = await headMovedAt(folder);
  const byHead = files.filter(
    ({ modifiedMs }) => movedAt !== null && Math.abs(modifiedMs - movedAt) <= NEAR_MS,
  );
  const times = files.map(({ modifiedMs }) => modifiedMs).sort((a, b) => a - b);
  const isBulk = times.some((time, index) => {
    const later = times[index + AT_ONCE.files - 1];
    return later !== undefined && later - time <= AT_ONCE.withinMs;
  });
  return new Set((isBulk ? files : byHead).map(({ path }) => path));
}

/** When a checkout, merge, reset, rebase or pull last moved HEAD; null when that is not the last thing it did. */
async function headMovedAt(folder: string): Promise<number | null> {
  const directory = await gitDirectory(folder);
  if (directory === null) return null;
  const log = join(directory, "logs", "HEAD");
  try {
    const { size, mtimeMs } = await stat(log);
    const file = await open(log, "r");
    try {
      const start = Math.max(0, size - TAIL_BYTES);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(TAIL_BYTES), 0, TAIL_BYTES, start);
      const last = buffer.subarray(0, bytesRead).toString("utf8").trimEnd().split("\n").at(-1) ?? "";
      return /\t(?:checkout|merge|reset|rebase|pull|cherry-pick|revert|clone)\b/.test(last) ? mtimeMs : null;
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** The git directory of the worktree that a folder is in. */
async function gitDirectory(folder: string): Promise<string | null> {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const path = join(at, ".git");
    try {
      if ((await stat(path)).isDirectory()) return path;
      const link = /^gitdir: (.*)$/m.exec(await readFile(path, "utf8"))?.[1];
      return link ? resolve(at, link.trim()) : null;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
    }
    if (dirname(at) === at) return null;
  }
}
