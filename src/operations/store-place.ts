/**
 * Where the store is, found without opening or creating it: what was said, else `.holdfast/` beside the git directory
 * that all worktrees of a repository share, else the nearest `.holdfast/` above the working directory.
 *
 * Git's own files are read instead of asking git: starting a process costs more than everything else that a short
 * command does.
 */

import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { HoldfastError } from "../model/errors.ts";

/** The folder of a project in which its goal is readable, and which git carries. */
export const PLANNING = ".planning";

export interface StorePlace {
  /** For `open`; undefined lets it make a new one in the usual place. */
  readonly address: string | undefined;
  /** In words, for messages. */
  readonly shown: string;
  /** Whether something is there; true for what cannot be looked at from here, as a database server. */
  readonly exists: boolean;
  /** Whether something may be there that belongs to somebody else, who keeps us out. */
  readonly isKeptOut: boolean;
  /** The file of a store in which nothing is any more, or nothing yet; else null. */
  readonly emptied: string | null;
  /** The folder that recorded paths are relative to: the worktree, else where the store's folder lies. */
  readonly root: string;
  /** The folder beside the repository's git directory where everything of ours but the files of goals lies. */
  readonly home: string;
}

export function findStore(address: string | undefined, from: string): StorePlace {
  const worktree = nearest(from, ".git");
  const root = worktree ?? nearest(from, ".holdfast") ?? from;
  const repository = worktree === null ? null : sharedBy(join(worktree, ".git"));
  const home = join(repository ?? nearest(from, ".holdfast") ?? from, ".holdfast");
  if (address !== undefined && address !== "") return { ...said(address, from), root, home };
  const found = storeIn(home);
  return { address: found.exists ? home : undefined, shown: home, ...found, root, home };
}

/**
 * A fresh clone has the events of its goals and no store yet: the store is made from them. False where there is nothing
 * to make it from, or where somebody named a store.
 */
export async function restoreFromRepository(
  place: StorePlace,
  options: { readonly warn?: (error: unknown) => void } = {},
): Promise<boolean> {
  const folder = join(place.root, PLANNING);
  const { exists, isKeptOut, emptied, address } = place;
  if (exists || isKeptOut || emptied !== null || address !== undefined) return false;
  if (!existsSync(join(folder, "events"))) return false;
  const { open } = await import("../open.ts");
  const { mergeEventFolder } = await import("../projections/index.ts");
  const holdfast = await open(place.home, options);
  try {
    // What stays out is told by whoever looks for news next, which is before anything is said of goals.
    await mergeEventFolder(holdfast.journal, folder, undefined, () => undefined);
  } finally {
    await holdfast.close();
  }
  return true;
}

/** Looking at a store does not make one. */
export function refuseMissing({ exists, isKeptOut, emptied, shown }: StorePlace): void {
  if (exists) return;
  if (emptied !== null) {
    throw new HoldfastError("STORE_CORRUPT", `${emptied} is empty: what was in it, if anything, is gone`, {
      hint: "Put a backup in its place. To begin anew, remove that file, then: holdfast init",
      data: { path: emptied },
    });
  }
  if (isKeptOut) {
    const what = existsSync(shown) ? "there is a store at" : "there may be a store at";
    throw new HoldfastError("STORE_READONLY", `${what} ${shown}, but you may not read it`, {
      hint: "Work as its owner, or let the owner give you access to it, or name another: --store, or HOLDFAST_STORE.",
      data: { path: shown },
    });
  }
  if (statSync(shown, { throwIfNoEntry: false })?.isFile()) {
    throw new HoldfastError("STORE_FOREIGN", `${shown} is a file that is no store`, {
      hint: "Name a folder, or a file that ends in .db, .sqlite or .sqlite3: --store, or HOLDFAST_STORE.",
      data: { path: shown },
    });
  }
  throw new HoldfastError("STORE_NOT_FOUND", `there is no store at ${shown}`, {
    hint: "Make one here: holdfast init. Or say where it is: --store, or HOLDFAST_STORE.",
    data: { path: shown },
  });
}

/** Whether an address leads to a server, or nowhere at all, instead of to the disk. */
export function isRemote(address: string): boolean {
  return /^([a-z][a-z0-9+.-]+)?:/i.test(address) && !address.startsWith("file:");
}

type Found = Pick<StorePlace, "exists" | "isKeptOut" | "emptied">;

const THERE: Found = { exists: true, isKeptOut: false, emptied: null };

function said(address: string, from: string): Found & Pick<StorePlace, "address" | "shown"> {
  if (isRemote(address)) return { address, shown: address.replace(/\/\/[^@/]*@/, "//"), ...THERE };
  const path = resolve(from, address.replace(/^file:(\/\/)?/, ""));
  const isFile = /\.(db|sqlite3?)$/.test(path);
  const slash = address.endsWith("/") ? "/" : "";
  return { address: path + slash, shown: path, ...(isFile ? lookAt(path) : storeIn(path)) };
}

function storeIn(folder: string): Found {
  const [database, journal] = [lookAt(join(folder, "store.db")), lookAt(join(folder, "journal.jsonl"))];
  // A journal is never empty, not even at first: whoever opens it says what is wrong with it.
  if (database.exists || journal.exists || journal.emptied !== null) return THERE;
  return { ...database, isKeptOut: database.isKeptOut || journal.isKeptOut };
}

function lookAt(path: string): Found {
  try {
    accessSync(path, constants.R_OK);
    // While a store is made, its file is empty too, but not alone.
    const isEmptied = statSync(path).size === 0 && !existsSync(`${path}-journal`);
    return isEmptied ? { exists: false, isKeptOut: false, emptied: path } : THERE;
  } catch (error) {
    // Anything else is as good as nothing: no such file, or no folder around it.
    const isKeptOut = ["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");
    return { exists: false, isKeptOut, emptied: null };
  }
}

function nearest(from: string, name: string): string | null {
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, name))) return folder;
    if (dirname(folder) === folder) return null;
  }
}

/** The folder of the git directory that all worktrees share; null where that is no ordinary repository. */
function sharedBy(git: string): string | null {
  if (statSync(git).isDirectory()) return dirname(git);
  // In a worktree or a submodule, `.git` is a file that names the real one.
  const named = /^gitdir: (.+)$/m.exec(readFileSync(git, "utf8"))?.[1];
  if (named === undefined) return null;
  const own = resolve(dirname(git), named.trim());
  const pointer = join(own, "commondir");
  const common = existsSync(pointer) ? resolve(own, readFileSync(pointer, "utf8").trim()) : own;
  return basename(common) === ".git" ? dirname(common) : null;
}
