/** Paths of project files as goals record them: relative to the project's root, with `/` between names. */

import { realpathSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import type { FileAct } from "../model/goal/index.ts";
import type { Context } from "./context.ts";
import { PLANNING } from "./store-place.ts";

type NamedFile = { readonly path: string; readonly act: FileAct };

/** Folders that git and Holdfast change: hashes of their files say nothing about the work. */
const MANAGED = [".git", ".holdfast", PLANNING];

/** A person's paths are relative to the working directory, an agent's to the project's root. */
type Caller = Pick<Context, "place" | "caller" | "cwd">;

/** The path as goals record it. The file need not exist. */
export function projectPath({ place: { root }, caller, cwd }: Caller, typed: string): string {
  const path = pathBelowRoot(root, resolve(caller === "person" ? cwd : root, typed));
  if (path !== null) return path;
  throw refused(typed, "is not below the project's root", `Name a file below the project's root, ${root}.`);
}

export function recordedFile(who: Caller, { path: typed, act }: NamedFile): NamedFile {
  const path = projectPath(who, typed);
  const { root } = who.place;
  if (!isWorkFile(path)) {
    throw refused(path, "is not a file of the project's work", `Leave out files in ${MANAGED.join("/, ")}/.`);
  }
  const stats = statSync(join(root, path), { throwIfNoEntry: false });
  if (stats && act === "deleted")
    throw refused(path, "still exists", "Delete it first, or leave out --deleted.");
  if (stats?.isDirectory()) throw refused(path, "is a folder", "Name the files in it.");
  if (!stats && act !== "deleted")
    throw refused(path, null, "Check the name. If it was deleted on purpose, pass --deleted.");
  return { path, act };
}

export function isWorkFile(path: string): boolean {
  const [first = ""] = path.split("/");
  return !MANAGED.includes(first.toLowerCase());
}

/** Null if `path` is not below the root. Both may be reached through links. */
export function pathBelowRoot(root: string, path: string): string | null {
  return below(root, path) ?? below(realOf(root), join(realOf(dirname(path)), basename(path)));
}

function below(base: string, file: string): string | null {
  const names = relative(base, file).split(sep);
  const isBelow = names[0] !== "" && names[0] !== ".." && resolve(base, ...names) === file;
  return isBelow ? names.join("/") : null;
}

/** Resolves links of the nearest existing folder, and keeps the rest of the path. */
function realOf(folder: string): string {
  const isThere = statSync(folder, { throwIfNoEntry: false }) !== undefined;
  if (isThere || dirname(folder) === folder) return realpathSync(folder);
  return join(realOf(dirname(folder)), basename(folder));
}

function refused(path: string, what: string | null, hint: string): HoldfastError {
  const message = what === null ? `there is no file ${path}` : `${path} ${what}`;
  return new HoldfastError("INPUT_INVALID", message, {
    hint: `Nothing was recorded. ${hint}`,
    data: { path },
  });
}
