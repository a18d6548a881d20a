/**
 * Finds a project's `.holdfast/` folder, which may not exist yet:
 *
 *     inside a git repository   beside the git directory that all its worktrees share
 *     elsewhere                 the nearest `.holdfast/` above the folder, else in the folder itself
 *
 * The search upwards ends at the root of the repository and at the home folder: what lies above them is
 * not the project's. It reads git's files instead of running git: starting a process costs more than a
 * short command.
 *
 * An unpacked archive may contain a `.git` file that names another project on this machine. Such a folder
 * shares the `.holdfast/` of that project only if the repository there lists it as its worktree.
 */

import { existsSync, readFileSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, relative, resolve, sep } from "node:path";

export const OWN_FOLDER = ".holdfast";

export interface ProjectPlace {
  /** The folder that recorded paths are relative to: the worktree, else the parent of `.holdfast/`. */
  readonly root: string;
  /** The `.holdfast/` folder, which also holds the hooks' spool and the chosen goals. */
  readonly home: string;
  /** The configuration file that HOLDFAST_CONFIG names, else the one in `root`. `config/` reads it. */
  readonly configFile: string | null;
  readonly isConfigNamed: boolean;
  /** The git indexes that could list `home`, by `path`, or a file below `root`; null without a repository. */
  readonly index: Readonly<Record<"file" | "path" | "ofRoot" | "config", string>> | null;
}

const CONFIG_FILES = ["ts", "mjs", "js", "json"].map((end) => `holdfast.config.${end}`);

export function projectPlace(from: string): ProjectPlace {
  const limits = homeFolders();
  const worktree = nearest(from, ".git", limits);
  const git = worktree === null ? null : gitFolders(join(worktree, ".git"));
  // Null for a bare or otherwise unusual layout, whose worktrees have no common place.
  const shared = git?.isOfRepository && basename(git.common) === ".git" ? dirname(git.common) : null;
  const holder = shared ?? nearest(from, OWN_FOLDER, worktree === null ? limits : [worktree]) ?? from;
  const home = join(holder, OWN_FOLDER);
  const root = worktree ?? holder;
  const named = process.env["HOLDFAST_CONFIG"] || undefined;
  const found = CONFIG_FILES.find((name) => existsSync(join(root, name)));
  return {
    root,
    home,
    configFile: named === undefined ? (found === undefined ? null : join(root, found)) : resolve(from, named),
    isConfigNamed: named !== undefined,
    index: git && {
      file: join(shared === null ? git.own : git.common, "index"),
      ofRoot: join(git.own, "index"),
      config: join(git.common, "config"),
      path: relative(shared ?? root, home),
    },
  };
}

const CLONE_ID = /^[0-9a-f]{8}$/;

/**
 * The id of a clone, which its events name: 8 random digits in `.holdfast/clone`, made on first use. Null
 * without that folder, or if it cannot be written. It tells clones apart, and proves nothing.
 */
export function cloneId(root: string): string | null {
  const file = join(projectPlace(root).home, "clone");
  try {
    if (!existsSync(file) && existsSync(dirname(file)))
      writeFileSync(file, `${randomDigits()}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    // Another process was faster, or the folder is read-only.
    if (!["EEXIST", "EACCES", "EPERM", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? ""))
      throw error;
  }
  const id = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  return CLONE_ID.test(id) ? id : null;
}

/** By the global object: importing Node's crypto module would slow every hook. */
function randomDigits(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(4))).toString("hex");
}

/** The home folder under its two names, if it is reached by a link. */
function homeFolders(): readonly string[] {
  const home = homedir();
  try {
    return [home, realpathSync(home)];
  } catch {
    // A service user may have a home that does not exist.
    return [home];
  }
}

function nearest(from: string, name: string, last: readonly string[]): string | null {
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, name))) return folder;
    if (last.includes(folder) || dirname(folder) === folder) return null;
  }
}

interface GitFolders {
  /** The git directory of this worktree. */
  readonly own: string;
  /** The git directory that all worktrees share. */
  readonly common: string;
  /** False for a submodule, and for a `.git` file that the repository it names does not know. */
  readonly isOfRepository: boolean;
}

function gitFolders(git: string): GitFolders | null {
  if (statSync(git).isDirectory()) return { own: git, common: git, isOfRepository: true };
  // In a worktree or a submodule, `.git` is a file that names the real git directory.
  const named = /^gitdir: (.+)$/m.exec(readFileSync(git, "utf8"))?.[1];
  if (named === undefined) return null;
  const own = resolve(dirname(git), named.trim());
  const pointer = join(own, "commondir");
  const common = existsSync(pointer) ? resolve(own, readFileSync(pointer, "utf8").trim()) : own;
  const isOfRepository = listsWorktree(common, own, git);
  return { own, common: isOfRepository ? common : own, isOfRepository };
}

/** Whether `worktrees/<name>/gitdir` of the repository points back at this `.git` file. */
function listsWorktree(common: string, own: string, git: string): boolean {
  const real = realpathSync.native;
  // The folder is resolved, but not the file: `.git` may be a link to the file of another worktree.
  const placeOf = (file: string): string => join(real(dirname(file)), basename(file));
  try {
    const entry = real(own);
    if (dirname(entry) !== join(real(common), "worktrees")) return false;
    return placeOf(resolve(entry, readFileSync(join(entry, "gitdir"), "utf8").trim())) === placeOf(git);
  } catch {
    // A file or folder of the list is missing or unreadable, so nothing points back.
    return false;
  }
}

/**
 * Whether a link leads this folder of a project to a place outside of it. A commit can bring such a link.
 * False for a folder outside of the project, which its user must have named, and for one that is not there.
 */
export function leavesProject(folder: string, root?: string): boolean {
  const from = resolve(folder);
  if (!existsSync(from)) return false;
  const target = realpathSync.native(from);
  // Fast path: no link on the way.
  if (target === from) return false;
  const project = resolve(root ?? projectPlace(dirname(from)).root);
  const isBelow = (path: string, above: string): boolean => `${path}${sep}`.startsWith(`${above}${sep}`);
  return isBelow(from, project) && !isBelow(target, realpathSync.native(project));
}
