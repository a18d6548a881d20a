/**
 * Recorded files against the disk: OK, DRIFTED or MISSING, one by one.
 *
 * Paths come from the log, so they are not trusted: each has to stay below the root, also after following links.
 * What leads outside is never opened and counts as drifted.
 */

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import { pipeline } from "node:stream/promises";
import { HoldfastError } from "../model/errors.ts";
import { isRelativePath } from "../model/goal/index.ts";
import { quoteValue } from "../model/names.ts";
import {
  type FileCheck,
  IN_A_CIRCLE,
  isAbsence,
  judged,
  LINKED_OUTSIDE,
  type Look,
  NO_FILE,
  NOT_READABLE,
  OUTSIDE,
  type Recorded,
} from "./file-verdict.ts";

export interface FileReport {
  readonly isOk: boolean;
  readonly files: readonly FileCheck[];
}

const AT_ONCE = 16;

export async function checkFiles(root: string, recorded: Iterable<Recorded>): Promise<FileReport> {
  const base = await realpath(root);
  const waiting = [...recorded];
  const files: FileCheck[] = new Array(waiting.length);
  let index = 0;
  const worker = async (): Promise<void> => {
    while (index < waiting.length) {
      const mine = index++;
      const each = waiting[mine] as Recorded;
      files[mine] = judged(each, await look(base, each.path));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { isOk: files.every(({ verdict }) => verdict === "OK"), files };
}

/** SHA-256 of a file below the root, as evidence records it. Throws when there is no such file. */
export async function hashFile(root: string, path: string): Promise<string> {
  if (!isRelativePath(path)) throw unusable(path, "it is not a path below the root");
  const { hash, why } = await look(await realpath(root), path);
  if (hash !== null) return hash;
  throw unusable(path, why ?? "there is no such file");
}

async function look(base: string, path: string): Promise<Look> {
  if (!isRelativePath(path)) return { hash: null, why: OUTSIDE };
  let real: string;
  try {
    real = await realpath(join(base, path));
  } catch (error) {
    if (isAbsence(codeOf(error))) return { hash: null, why: null };
    if (codeOf(error) === "ELOOP") return { hash: null, why: IN_A_CIRCLE };
    throw unreadable(path, error);
  }
  if (!real.startsWith(base.endsWith(sep) ? base : base + sep)) {
    return { hash: null, why: LINKED_OUTSIDE };
  }
  try {
    if (!(await stat(real)).isFile()) return { hash: null, why: NO_FILE };
    return { hash: await hashContent(real), why: null };
  } catch (error) {
    if (isAbsence(codeOf(error))) return { hash: null, why: null };
    if (codeOf(error) === "EACCES") return { hash: null, why: NOT_READABLE };
    throw unreadable(path, error);
  }
}

async function hashContent(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(resolve(file)), hash);
  return hash.digest("hex");
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function unreadable(path: string, cause: unknown): HoldfastError {
  return new HoldfastError("STORE_IO", `${quoteValue(path)} cannot be read: ${(cause as Error).message}`, {
    hint: "See to the disk or the permissions of the file, then check again.",
    cause,
  });
}

function unusable(path: string, why: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `file ${quoteValue(path)} cannot be recorded: ${why}`, {
    hint: "Name a file that is there, below the root of the goal: to a command as your shell would, in code relative to that root.",
    data: { path },
  });
}
