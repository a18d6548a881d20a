/** Files as somebody names them, and as goals record them: below the root, relative to it, with / between names. */

import { realpathSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import type { FileAct } from "../model/goal/index.ts";
import type { Context } from "./context.ts";
import { PLANNING } from "./store-place.ts";

export interface NamedFile {
  readonly path: string;
  readonly act: FileAct;
}

/** What is kept by git and by us changes by itself: a hash of it says nothing about the work. */
const KEPT = [".git", ".holdfast", PLANNING];

/** A person types paths as a shell has them; an agent knows the project by its root. */
type Namer = Pick<Context, "place" | "caller" | "cwd">;

/** As goals keep it; it need not be there. */
export function projectPath({ place: { root }, caller, cwd }: Namer, typed: string): string {
  const path = pathBelowRoot(root, resolve(caller === "person" ? cwd : root, typed));
  if (path !== null) return path;
  throw refused(typed, "is not below the project's root", `Name a file below the project's root, ${root}.`);
}

export function recordedFile(namer: Namer, { path: typed, act }: NamedFile): NamedFile {
  const path = projectPath(namer, typed);
  const { root } = namer.place;
  if (!isWorkFile(path)) {
    throw refused(path, "is not a file of the work", `Leave out what lies in ${KEPT.join("/, ")}/.`);
  }
  const stats = statSync(join(root, path), { throwIfNoEntry: false });
  if (stats && act === "deleted") {
    const hint = "Delete it first, or do not say that it is deleted (--deleted).";
    throw refused(path, "is still there", hint);
  }
  if (stats?.isDirectory()) throw refused(path, "is a folder", "Name the files in it.");
  if (!stats && act !== "deleted") {
    const hint = "Check the name. If it is gone and meant to be, say that it is deleted (--deleted).";
    throw refused(path, null, hint);
  }
  return { path, act };
}

/** By its path below the root. */
export function isWorkFile(path: string): boolean {
  const [first = ""] = path.split("/");
  return !KEPT.includes(first.toLowerCase());
}

/** Null for what is not below it. A root that was reached by a link may be named by where that leads. */
export function pathBelowRoot(root: string, path: string): string | null {
  return below(root, path) ?? below(realOf(root), join(realOf(dirname(path)), basename(path)));
}

function below(base: string, file: string): string | null {
  const names = relative(base, file).split(sep);
  const isBelow = names[0] !== "" && names[0] !== ".." && resolve(base, ...names) === file;
  return isBelow ? names.join("/") : null;
}

/** The nearest folder that is there, followed to where it really is; the rest as it was named. */
function realOf(folder: string): string {
  const isThere = statSync(folder, { throwIfNoEntry: false }) !== undefined;
  if (isThere || dirname(folder) === folder) return realpathSync(folder);
  return join(realOf(dirname(folder)), basename(folder));
}

/** `what` null: there is none. */
function refused(path: string, what: string | null, hint: string): HoldfastError {
  const message = what === null ? `there is no file ${path}` : `${path} ${what}`;
  return new HoldfastError("INPUT_INVALID", message, {
    hint: `Nothing was recorded. ${hint}`,
    data: { path },
  });
}
