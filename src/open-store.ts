/**
 * Turns an address into a store. It loads the store and nothing above it, so that commands that only list
 * start fast. Without an address, the store is in the project's `.holdfast/` (`project-place.ts`).
 */

import { existsSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { Encryption } from "./encryption/index.ts";
import { HoldfastError, isHoldfastError } from "./model/errors.ts";
import { OWN_FOLDER, projectPlace } from "./project-place.ts";
import { refuseUntrusted } from "./project-trust.ts";
import type { Store } from "./store.ts";
import type { PostgresOptions } from "./stores/postgres/index.ts";
import { openSqlite } from "./stores/sqlite/index.ts";

export interface OpenStoreOptions {
  /** Opens SQLite for reading, which is faster. A folder of files only if it cannot be written. */
  readonly readOnly?: boolean;
  /** Does not create a store. A read-only store is never created. */
  readonly mustExist?: boolean;
  /** How long to wait for a lock of another process; SQLite only. */
  readonly busyMs?: number;
  /** Opens a store although it is older than it was. Without it such a store can only be read. */
  readonly despiteRewind?: boolean;
  /** For callers that read titles, names or payloads. */
  readonly encryption?: Encryption | undefined;
}

export async function openStore(address: string | undefined, options: OpenStoreOptions = {}): Promise<Store> {
  const { encryption, ...rest } = options;
  const store = await openPlain(address, rest);
  return encryption?.protect(store) ?? store;
}

async function openPlain(address: string | undefined, options: OpenStoreOptions): Promise<Store> {
  if (address !== undefined && (typeof address !== "string" || address.trim() === "")) {
    throw new HoldfastError("INPUT_INVALID", "the address of a store is empty or not a string", {
      hint: 'Call open() or open("./state.db"); options come second: open(undefined, { readOnly: true }).',
    });
  }
  if (address === "memory:") {
    const { openMemory } = await import("./stores/memory/index.ts");
    return openMemory();
  }
  if (address !== undefined && /^postgres(ql)?:/i.test(address)) {
    const { readOnly = false, mustExist = readOnly } = options;
    return openPostgres({ url: address, mustExist });
  }
  // Also rejects SQLite's `:memory:`, which is hardly meant as a folder. A folder of that name is
  // `./:memory:`.
  if (address !== undefined && /^([a-z][a-z0-9+.-]+)?:/i.test(address) && !address.startsWith("file:")) {
    throw new HoldfastError(
      "STORE_NOT_FOUND",
      `no store understands the address ${withoutPassword(address)}`,
      { hint: 'Use a path to a file or folder, "postgres://…", or "memory:".' },
    );
  }
  const path = address?.replace(/^file:(\/\/)?/, "");
  if (path === undefined) {
    refuseEphemeralDisk();
    const place = projectPlace(process.cwd());
    refuseUntrusted(place, process.cwd());
    return openInFolder(place.home, options);
  }
  if (/\.(db|sqlite3?)$/.test(path)) return openSqlite({ ...options, path: resolve(path) });
  const folder = resolve(path);
  const holds = (name: string): boolean => existsSync(join(folder, name));
  // `live.jsonl` is left over if the journal of a folder of files is lost: do not create another store there.
  const isOfFiles = path.endsWith("/") || holds("live.jsonl");
  if (holds("journal.jsonl") || (isOfFiles && !holds("store.db"))) {
    const { openFiles } = await import("./stores/files/index.ts");
    const { mustExist = false, despiteRewind = false } = options;
    return keptOutOfGit(folder, "journal.jsonl", () =>
      openFiles({ path: folder, mustExist, despiteRewind }).catch((error: unknown) => {
        const codes: readonly unknown[] = ["STORE_READONLY", "STORE_REWOUND"];
        if (!options.readOnly || !isHoldfastError(error) || !codes.includes(error.code)) throw error;
        return openFiles({ path: folder, readOnly: true });
      }),
    );
  }
  return openInFolder(folder, options);
}

function openInFolder(folder: string, options: OpenStoreOptions): Promise<Store> {
  const path = join(folder, "store.db");
  return keptOutOfGit(folder, "store.db", () => openSqlite({ ...options, path }));
}

/** Puts a `.gitignore` into a new `.holdfast/`: a store must not be committed. */
async function keptOutOfGit(folder: string, file: string, open: () => Promise<Store>): Promise<Store> {
  const isNew = basename(folder) === OWN_FOLDER && !existsSync(join(folder, file));
  const store = await open();
  const ignore = join(folder, ".gitignore");
  if (isNew && !existsSync(ignore)) writeFileSync(ignore, "*\n");
  return store;
}

/**
 * A Postgres store with settings that an address cannot carry: your own `Pool`, limits on connections and
 * waiting, no NOTIFY. Otherwise `open("postgres://…")` is enough.
 *
 * @example
 * const holdfast = await open(undefined, { store: await openPostgres({ pool }) });
 */
export async function openPostgres(options: PostgresOptions = {}): Promise<Store> {
  const postgres = await import("./stores/postgres/index.ts").catch((cause: unknown) => {
    throw new HoldfastError(
      "STORE_DRIVER_MISSING",
      `the Postgres driver pg could not be loaded (${String(cause).split("\n")[0]})`,
      {
        cause,
        hint:
          'Keep it out of the bundle: esbuild `--external:pg`, webpack `externals: { pg: "commonjs pg" }`, ' +
          'Next `serverExternalPackages: ["pg"]`. Run `npm install pg` where the program runs.',
      },
    );
  });
  return postgres.openPostgres(options);
}

function withoutPassword(address: string): string {
  return address.replace(/\/\/[^@/]*@/, "//");
}

const EPHEMERAL = ["VERCEL", "AWS_LAMBDA_FUNCTION_NAME", "NETLIFY", "CF_PAGES"] as const;

/** A default store on a disk that is thrown away would seem durable until it matters. */
function refuseEphemeralDisk(): void {
  const platform = EPHEMERAL.find((name) => process.env[name]);
  if (!platform) return;
  throw new HoldfastError("STORE_NOT_DURABLE", `this platform (${platform} is set) does not keep its disk`, {
    hint: "Pass the address of a durable store, or set HOLDFAST_STORE to one.",
  });
}
