/**
 * Finds a project's `.holdfast/` folder, which may not exist yet:
 *
 *     inside a git repository   beside the git directory that all its worktrees share
 *     elsewhere                 the nearest `.holdfast/` above the folder, else in the folder itself
 *
 * It reads git's files instead of running git: starting a process costs more than a short command.
 */

import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

export const OWN_FOLDER = ".holdfast";

export interface ProjectPlace {
  /** The folder that recorded paths are relative to: the worktree, else the parent of `.holdfast/`. */
  readonly root: string;
  /** The `.holdfast/` folder, which also holds the hooks' spool and the chosen goals. */
  readonly home: string;
  /** The configuration file that HOLDFAST_CONFIG names, else the one in `root`. `config/` reads it. */
  readonly configFile: string | null;
  readonly isConfigNamed: boolean;
}

const CONFIG_FILES = ["ts", "mjs", "js", "json"].map((end) => `holdfast.config.${end}`);

export function projectPlace(from: string): ProjectPlace {
  const worktree = nearest(from, ".git");
  const repository = worktree === null ? null : repositoryOf(join(worktree, ".git"));
  const holder = nearest(from, OWN_FOLDER) ?? from;
  const root = worktree ?? holder;
  const named = process.env["HOLDFAST_CONFIG"] || undefined;
  const found = CONFIG_FILES.find((name) => existsSync(join(root, name)));
  return {
    root,
    home: join(repository ?? holder, OWN_FOLDER),
    configFile: named === undefined ? (found === undefined ? null : join(root, found)) : resolve(from, named),
    isConfigNamed: named !== undefined,
  };
}

function nearest(from: string, name: string): string | null {
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, name))) return folder;
    if (dirname(folder) === folder) return null;
  }
}

/** The parent of the git directory that all worktrees share; null for a bare or otherwise unusual layout. */
function repositoryOf(git: string): string | null {
  if (statSync(git).isDirectory()) return dirname(git);
  // In a worktree or a submodule, `.git` is a file that names the real git directory.
  const named = /^gitdir: (.+)$/m.exec(readFileSync(git, "utf8"))?.[1];
  if (named === undefined) return null;
  const own = resolve(dirname(git), named.trim());
  const pointer = join(own, "commondir");
  const common = existsSync(pointer) ? resolve(own, readFileSync(pointer, "utf8").trim()) : own;
  return basename(common) === ".git" ? dirname(common) : null;
}
