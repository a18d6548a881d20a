/**
 * Recorded files against the disk for whoever cannot wait: the same verdicts as `check-files.ts`, one after another, the
 * latest first, for so long and no longer. What there was no time for, or is too large for it, is counted.
 */

import { lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { sha256 } from "../model/digest.ts";
import { type FileRecord, isRelativePath } from "../model/goal/index.ts";
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
} from "./file-verdict.ts";

const MOST_BYTES = 4 << 20;

export interface BriefLook {
  readonly files: readonly FileCheck[];
  readonly notLookedAt: number;
}

export function checkFilesWithin(
  root: string,
  recorded: Iterable<FileRecord>,
  limits: { readonly files: number; readonly ms: number },
): BriefLook {
  const at = ({ examinedAt, modifiedAt }: FileRecord): number => Math.max(examinedAt ?? 0, modifiedAt ?? 0);
  const all = [...recorded].sort((a, b) => at(b) - at(a));
  const base = realpathSync.native(root);
  const folders = new Map<string, string>();
  const until = Date.now() + limits.ms;
  const files: FileCheck[] = [];
  for (const each of all.slice(0, limits.files)) {
    if (Date.now() > until) break;
    const found = look(base, folders, each.path);
    if (found) files.push(judged(each, found));
  }
  return { files, notLookedAt: all.length - files.length };
}

/** Null: too large for a brief look. */
function look(base: string, folders: Map<string, string>, path: string): Look | null {
  if (!isRelativePath(path)) return { hash: null, why: OUTSIDE };
  try {
    const real = realPath(base, folders, path);
    if (!real.startsWith(base.endsWith(sep) ? base : base + sep)) return { hash: null, why: LINKED_OUTSIDE };
    const stats = statSync(real);
    if (!stats.isFile()) return { hash: null, why: NO_FILE };
    return stats.size > MOST_BYTES ? null : { hash: sha256(readFileSync(real)), why: null };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (isAbsence(code)) return { hash: null, why: null };
    if (code === "ELOOP") return { hash: null, why: IN_A_CIRCLE };
    if (code === "EACCES") return { hash: null, why: NOT_READABLE };
    throw error;
  }
}

/** Many files lie in few folders: each folder is resolved once, and a file by itself only where it is a link. */
function realPath(base: string, folders: Map<string, string>, path: string): string {
  const full = join(base, path);
  const folder = dirname(full);
  const real = folders.get(folder) ?? realpathSync.native(folder);
  folders.set(folder, real);
  const place = join(real, full.slice(folder.length + 1));
  return lstatSync(place).isSymbolicLink() ? realpathSync.native(place) : place;
}
