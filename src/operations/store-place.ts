/**
 * Finds the store without opening or creating it: the one that `--store` or HOLDFAST_STORE names, else that
 * of the configuration file, else the one in the project's `.holdfast/` (`project-place.ts`).
 */

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { HoldfastConfig } from "../config/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { checkId } from "../model/names.ts";
import type { OpenOptions } from "../open.ts";
import { type ProjectPlace, projectPlace } from "../project-place.ts";
import { refuseUntrusted } from "../project-trust.ts";

export const PLANNING = ".planning";
export const DEFAULT_NAMESPACE = "default";

export interface StorePlace extends ProjectPlace {
  /** For `open`; undefined lets `open` create a store in the default place. */
  readonly address: string | undefined;
  /** The address for messages, without a password. */
  readonly label: string;
  /** Whether a store is there; true for a database server, which cannot be inspected from here. */
  readonly exists: boolean;
  readonly isUnreadable: boolean;
  readonly emptyFile: string | null;
  readonly namespace: string;
  /** No option or variable names a namespace: `status`, `calls`, `doctor` and `export` cover all of them. */
  readonly coversAll: boolean;
  /** An option or a variable names another store or namespace: `.planning/` does not belong to it. */
  readonly isNamed: boolean;
  readonly config: HoldfastConfig;
}

/** The typed options that choose a store. Variables count where an option is not typed. */
export interface StoreOptions {
  readonly store?: string | undefined;
  readonly namespace?: string | undefined;
}

/** Reads the configuration file, and finds the store by options, variables, that file and the default. */
export async function locateStore(typed: StoreOptions, from: string): Promise<StorePlace> {
  const { configFile } = projectPlace(from);
  const config = configFile === null ? {} : await readProjectConfig(from);
  const { HOLDFAST_STORE, HOLDFAST_NAMESPACE } = process.env;
  const namespace = typed.namespace || HOLDFAST_NAMESPACE || undefined;
  return findStore(typed.store || HOLDFAST_STORE, from, config, namespace);
}

/** Loaded on demand: most projects have no such file, and hooks must start fast. */
async function readProjectConfig(from: string): Promise<HoldfastConfig> {
  const { readConfig } = await import("../config/index.ts");
  return readConfig(projectPlace(from));
}

export function findStore(
  address: string | undefined,
  from: string,
  config: HoldfastConfig = {},
  typedNamespace?: string,
): StorePlace {
  const project = projectPlace(from);
  // Also if a store is named: hooks and the choice of a goal write to the project's folder.
  refuseUntrusted(project, from);
  const own = config.namespace ?? DEFAULT_NAMESPACE;
  const namespace = checkId(typedNamespace ?? own, "namespace");
  const isStoreNamed = address !== undefined && address !== "";
  const isNamed = isStoreNamed || namespace !== own;
  const about = { ...project, namespace, coversAll: typedNamespace === undefined, isNamed, config };
  const chosen = isStoreNamed ? address : config.store;
  if (chosen !== undefined) return { ...about, ...namedStore(chosen, from) };
  const { home } = project;
  const found = storeIn(home);
  return { ...about, address: found.exists ? home : undefined, label: home, ...found };
}

/** The options of `open` and of a journal that follow from the place. */
export function openOptionsOf({
  namespace,
  config: { codecs, encryption },
}: StorePlace): Pick<OpenOptions, "codecs" | "encryption"> & { readonly namespace: string } {
  return { namespace, ...(codecs && { codecs }), ...(encryption && { encryption }) };
}

/** Creates the store of a fresh clone from its event files. False if there are none or a store is named. */
export async function restoreFromRepository(
  place: StorePlace,
  options: { readonly warn?: (error: unknown) => void } = {},
): Promise<boolean> {
  const folder = join(place.root, PLANNING);
  const { exists, isUnreadable, emptyFile, isNamed } = place;
  if (exists || isUnreadable || emptyFile !== null || isNamed) return false;
  if (!existsSync(join(folder, "events"))) return false;
  const { open } = await import("../open.ts");
  const { mergeEventFolder } = await import("../projections/index.ts");
  const holdfast = await open(place.address ?? place.home, { ...options, ...openOptionsOf(place) });
  try {
    // The next merge of the command reports files that cannot be read, so this one stays silent.
    await mergeEventFolder(holdfast.journal, folder, undefined, () => undefined);
  } finally {
    await holdfast.close();
  }
  return true;
}

/** Throws unless the store exists: reading a store never creates one. */
export function requireStore({ exists, isUnreadable, emptyFile, label }: StorePlace): void {
  if (exists) return;
  if (emptyFile !== null) {
    throw new HoldfastError("STORE_CORRUPT", `store ${emptyFile}: the file is empty, its content is lost`, {
      hint: "Restore a backup. To start over, remove that file, then run: holdfast init",
      data: { path: emptyFile },
    });
  }
  if (isUnreadable) {
    const what = existsSync(label) ? "permission denied" : "permission denied, so it may or may not exist";
    throw new HoldfastError("STORE_READONLY", `store ${label}: ${what}`, {
      hint: "Run as its owner, ask the owner for access, or name another store: --store, or HOLDFAST_STORE.",
      data: { path: label },
    });
  }
  if (statSync(label, { throwIfNoEntry: false })?.isFile()) {
    throw new HoldfastError("STORE_FOREIGN", `${label}: this file is not a store`, {
      hint: "Name a folder, or a file that ends in .db, .sqlite or .sqlite3: --store, or HOLDFAST_STORE.",
      data: { path: label },
    });
  }
  throw new HoldfastError("STORE_NOT_FOUND", `there is no store at ${label}`, {
    hint: "Create one here: holdfast init. Or name one: --store, or HOLDFAST_STORE.",
    data: { path: label },
  });
}

/** True for a database server and `memory:`; false for a path on this disk. */
export function isRemote(address: string): boolean {
  return /^([a-z][a-z0-9+.-]+)?:/i.test(address) && !address.startsWith("file:");
}

type Found = Pick<StorePlace, "exists" | "isUnreadable" | "emptyFile">;

const EXISTS: Found = { exists: true, isUnreadable: false, emptyFile: null };

function namedStore(address: string, from: string): Found & Pick<StorePlace, "address" | "label"> {
  if (isRemote(address)) return { address, label: address.replace(/\/\/[^@/]*@/, "//"), ...EXISTS };
  const path = resolve(from, address.replace(/^file:(\/\/)?/, ""));
  const isFile = /\.(db|sqlite3?)$/.test(path);
  const slash = address.endsWith("/") ? "/" : "";
  return { address: path + slash, label: path, ...(isFile ? inspectFile(path) : storeIn(path)) };
}

function storeIn(folder: string): Found {
  const database = inspectFile(join(folder, "store.db"));
  const journal = inspectFile(join(folder, "journal.jsonl"));
  // A files store's journal is never empty, not even when new. Opening an empty one reports the damage.
  if (database.exists || journal.exists || journal.emptyFile !== null) return EXISTS;
  return { ...database, isUnreadable: database.isUnreadable || journal.isUnreadable };
}

function inspectFile(path: string): Found {
  try {
    accessSync(path, constants.R_OK);
    // A database that is being created is empty too, but has a rollback journal beside it.
    const isEmpty = statSync(path).size === 0 && !existsSync(`${path}-journal`);
    return isEmpty ? { exists: false, isUnreadable: false, emptyFile: path } : EXISTS;
  } catch (error) {
    // Any other error means that the file, or a folder above it, does not exist.
    const isUnreadable = ["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");
    return { exists: false, isUnreadable, emptyFile: null };
  }
}
