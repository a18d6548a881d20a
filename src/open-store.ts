/**
 * The only place that turns an address into a store. It loads the store and nothing above it, so that whoever only
 * looks at what a store lists starts fast.
 *
 * An address is what the caller says, else `HOLDFAST_STORE`, else `.holdfast/` beside the git directory that all
 * worktrees of a repository share, else the nearest `.holdfast/` above the working directory, else a new one there.
 */

import { existsSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { HoldfastError, isHoldfastError } from "./model/errors.ts";
import type { Store } from "./store.ts";
import type { PostgresOptions } from "./stores/postgres/index.ts";
import { openSqlite } from "./stores/sqlite/index.ts";

export interface OpenStoreOptions {
  /** Look, and change nothing, which opens SQLite faster. Folders of files are opened so only where they cannot be written. */
  readonly readOnly?: boolean;
  /** Do not make what is not there. Whoever only looks makes nothing in any case. */
  readonly mustExist?: boolean;
  /** SQLite only: how long to wait for a lock of another process. */
  readonly busyMs?: number;
}

export async function openStore(address: string | undefined, options: OpenStoreOptions = {}): Promise<Store> {
  if (address !== undefined && (typeof address !== "string" || address.trim() === "")) {
    throw new HoldfastError("INPUT_INVALID", "the address of a store has to be a text that is not empty", {
      hint: 'Call open() for the default, open("./state.db") for a file; options come second: open(undefined, { … }).',
    });
  }
  if (address === "memory:") {
    const { openMemory } = await import("./stores/memory/index.ts");
    return openMemory();
  }
  if (address !== undefined && /^postgres(ql)?:/i.test(address)) {
    // Loaded there, so that whoever keeps to SQLite does not load the driver.
    const { readOnly = false, mustExist = readOnly } = options;
    return openPostgres({ url: address, mustExist });
  }
  // Also `:memory:`, as SQLite has it: a folder of that name is not what was meant, and one there is `./:memory:`.
  if (address !== undefined && /^([a-z][a-z0-9+.-]+)?:/i.test(address) && !address.startsWith("file:")) {
    throw new HoldfastError(
      "STORE_NOT_FOUND",
      `no store understands the address ${withoutPassword(address)}`,
      {
        hint: 'Use a path to a file or folder, "postgres://…", or "memory:".',
      },
    );
  }
  const path = address?.replace(/^file:(\/\/)?/, "");
  if (path === undefined) return openInFolder(findFolder(), options);
  if (/\.(db|sqlite3?)$/.test(path)) return openSqlite({ ...options, path: resolve(path) });
  const folder = resolve(path);
  const holds = (name: string): boolean => existsSync(join(folder, name));
  // What the journal of a folder of files has left is not to become another store's place.
  const isOfFiles = path.endsWith("/") || holds("live.jsonl");
  if (holds("journal.jsonl") || (isOfFiles && !holds("store.db"))) {
    // Most programs never need it, so it is not loaded with the rest.
    const { openFiles } = await import("./stores/files/index.ts");
    return keptOutOfGit(folder, "journal.jsonl", () =>
      openFiles({ path: folder, mustExist: options.mustExist ?? false }).catch((error: unknown) => {
        if (!options.readOnly || !isHoldfastError(error, "STORE_READONLY")) throw error;
        return openFiles({ path: folder, readOnly: true });
      }),
    );
  }
  return openInFolder(folder, options);
}

const OWN_FOLDER = ".holdfast";

function openInFolder(folder: string, options: OpenStoreOptions): Promise<Store> {
  const path = join(folder, "store.db");
  return keptOutOfGit(folder, "store.db", () => openSqlite({ ...options, path }));
}

/** The store is nobody's to commit: a folder of our own keeps itself out of git, whatever the repository's rules say. */
async function keptOutOfGit(folder: string, file: string, open: () => Promise<Store>): Promise<Store> {
  const isNew = basename(folder) === OWN_FOLDER && !existsSync(join(folder, file));
  const store = await open();
  const ignore = join(folder, ".gitignore");
  if (isNew && !existsSync(ignore)) writeFileSync(ignore, "*\n");
  return store;
}

/**
 * A store in Postgres with settings that an address cannot carry: your own `Pool`, limits on connections and waiting,
 * no NOTIFY. For `open(undefined, { store })`; where the address says it all, `open("postgres://…")` does.
 */
export async function openPostgres(options: PostgresOptions = {}): Promise<Store> {
  const postgres = await import("./stores/postgres/index.ts");
  return postgres.openPostgres(options);
}

function withoutPassword(address: string): string {
  return address.replace(/\/\/[^@/]*@/, "//");
}

function findFolder(): string {
  refuseEphemeralDisk();
  const repository = gitFolder();
  if (repository) return join(repository, OWN_FOLDER);
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    if (existsSync(join(folder, OWN_FOLDER))) return join(folder, OWN_FOLDER);
    if (dirname(folder) === folder) return join(process.cwd(), OWN_FOLDER);
  }
}

/** The folder that holds the git directory shared by all worktrees, or null outside a repository. */
function gitFolder(): string | null {
  try {
    const { execFileSync } = process.getBuiltinModule("node:child_process");
    const args = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    const common = execFileSync("git", args, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
    return common.endsWith("/.git") ? dirname(common) : null;
  } catch {
    // No git here, or not inside a repository: the nearest folder decides.
    return null;
  }
}

const EPHEMERAL = ["VERCEL", "AWS_LAMBDA_FUNCTION_NAME", "NETLIFY", "CF_PAGES"] as const;

/** A default store on a disk that is thrown away would look durable until it mattered. */
function refuseEphemeralDisk(): void {
  const platform = EPHEMERAL.find((name) => process.env[name]);
  if (!platform) return;
  throw new HoldfastError("STORE_NOT_DURABLE", `this platform (${platform} is set) does not keep its disk`, {
    hint: "Pass the address of a store that lasts, or set HOLDFAST_STORE to one.",
  });
}
