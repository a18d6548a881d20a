/**
 * Compares recorded files with the disk: OK, DRIFTED or MISSING, one by one.
 *
 * Paths come from the log, so they are not trusted. Each must stay below the root, also after following
 * links; a path that leads outside is never opened and counts as drifted.
 *
 * The calls are synchronous: a cold hook pays more for a thread pool and promises than for the files. Without
 * a budget, the loop yields between files, so that a server keeps renewing its leases.
 */

import { createHash } from "node:crypto";
import { createReadStream, lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { isRelativePath, UNSEEN_HASH } from "../model/goal/index.ts";
import { quoteValue } from "../model/names.ts";

export interface FileCheck {
  readonly path: string;
  readonly verdict: "OK" | "DRIFTED" | "MISSING";
  readonly expected: string | null;
  readonly actual: string | null;
  /** Why it drifted, when its content is not simply another one. */
  readonly why: string | null;
}

/** The recorded files against the disk. `isOk` is false if any of them is DRIFTED or MISSING. */
export interface FileReport {
  readonly isOk: boolean;
  readonly files: readonly FileCheck[];
}

interface RecordedFile {
  readonly path: string;
  readonly hash: string | null;
  readonly examinedAt?: number | null;
  readonly modifiedAt?: number | null;
}

/** Larger files are streamed; with a budget they are skipped. */
const MAX_READ_BYTES = 4 << 20;

/**
 * Checks the files in their order. With a budget, such as `{ files: 200, ms: 25 }`, it checks the latest
 * first and leaves the rest out of the report.
 */
export async function checkFiles(
  root: string,
  recorded: Iterable<RecordedFile>,
  budget?: { readonly files: number; readonly ms: number },
): Promise<FileReport> {
  const all = [...recorded];
  const queue = budget ? all.sort((a, b) => lastSeen(b) - lastSeen(a)).slice(0, budget.files) : all;
  const deadline = Date.now() + (budget?.ms ?? Number.POSITIVE_INFINITY);
  const disk = new Disk(root);
  const files: FileCheck[] = [];
  for (const each of queue) {
    if (Date.now() > deadline) break;
    const found = await disk.find(each.path, budget !== undefined);
    if (found) files.push(compare(each, found));
    if (!budget) await new Promise(setImmediate);
  }
  return { isOk: files.every(({ verdict }) => verdict === "OK"), files };
}

/** SHA-256 of a file below the root, as evidence records it. Throws when there is no such file. */
export async function hashFile(root: string, path: string): Promise<string> {
  if (!isRelativePath(path)) throw unusable(path, "it is not a path below the root");
  const found = await new Disk(root).find(path);
  if (typeof found?.hash === "string") return found.hash;
  throw unusable(path, found?.why ?? "there is no such file");
}

function lastSeen({ examinedAt, modifiedAt }: RecordedFile): number {
  return Math.max(examinedAt ?? 0, modifiedAt ?? 0);
}

/** `hash: null` without `why`: there is no such file. With `why`: it cannot be compared. */
interface FoundFile {
  readonly hash: string | null;
  readonly why?: string;
}

function compare({ path, hash: expected }: RecordedFile, found: FoundFile): FileCheck {
  const { hash: actual, why = null } = found;
  const result = { path, expected, actual, why };
  if (why !== null) return { ...result, verdict: "DRIFTED" };
  if (actual === expected) return { ...result, verdict: "OK" };
  if (actual === null) return { ...result, verdict: "MISSING" };
  const reasons = { [UNSEEN_HASH]: "its content was never recorded" };
  const reason = expected === null ? "it was deleted and is there again" : (reasons[expected] ?? null);
  return { ...result, verdict: "DRIFTED", why: reason };
}

class Disk {
  private readonly base: string;
  /** Real paths of folders: many files lie in few folders, so each is resolved once. */
  private readonly folders = new Map<string, string>();

  constructor(root: string) {
    this.base = realpathSync.native(root);
  }

  /** Null: the file is large, and `skipLarge` is set. */
  async find(path: string, skipLarge = false): Promise<FoundFile | null> {
    if (!isRelativePath(path)) return { hash: null, why: "its path leads outside the root" };
    try {
      const real = this.realPath(path);
      if (!real.startsWith(this.base.endsWith(sep) ? this.base : this.base + sep))
        return { hash: null, why: "a link leads outside the root" };
      const stats = statSync(real);
      if (!stats.isFile()) return { hash: null, why: "it is not a file" };
      if (stats.size <= MAX_READ_BYTES) return { hash: sha256(readFileSync(real)) };
      return skipLarge ? null : { hash: await hashStream(real) };
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (["ENOENT", "ENOTDIR", "ENAMETOOLONG"].includes(code)) return { hash: null };
      if (code === "ELOOP") return { hash: null, why: "its links go in a circle" };
      if (code === "EACCES") return { hash: null, why: "it may not be read" };
      throw unreadable(path, error);
    }
  }

  private realPath(path: string): string {
    const full = join(this.base, path);
    const folder = dirname(full);
    const real = this.folders.get(folder) ?? realpathSync.native(folder);
    this.folders.set(folder, real);
    const place = join(real, full.slice(folder.length + 1));
    return lstatSync(place).isSymbolicLink() ? realpathSync.native(place) : place;
  }
}

async function hashStream(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Uint8Array);
  return hash.digest("hex");
}

function unreadable(path: string, cause: unknown): HoldfastError {
  const message = `${quoteValue(path)} cannot be read: ${(cause as Error).message}`;
  const hint = "Check the disk and the permissions of the file, then check again.";
  return new HoldfastError("STORE_IO", message, { hint, cause });
}

const NAME_FILE =
  "Name an existing file below the goal's root: in a command as in your shell, in code relative to the root.";

function unusable(path: string, why: string): HoldfastError {
  const message = `file ${quoteValue(path)} cannot be recorded: ${why}`;
  return new HoldfastError("INPUT_INVALID", message, { hint: NAME_FILE, data: { path } });
}
