/**
 * The tortured store: a SQLite file, or a folder of files with `--store files`. Every process of a run
 * reads the choice from the environment. A store lies in the folder of its case and is only opened, copied
 * and traced through this module.
 */

import { cpSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "../src/store.ts";
import { openFiles } from "../src/stores/files/index.ts";
import { openSqlite } from "../src/stores/sqlite/index.ts";

export type SyncCall = "fsync" | "fdatasync";

interface StoreUnderTest {
  /** Its place in the folder of a case. */
  readonly path: string;
  /** The file that every fresh handle opens. */
  readonly opened: string;
  /** Files whose system calls count. */
  readonly files: readonly string[];
  /** Its calls that make something durable. The first is the one of an append. */
  readonly syncCalls: readonly [SyncCall, ...SyncCall[]];
  /** Whether the names of all its files are known before it runs. */
  readonly isTracedByName: boolean;
  open(path: string): Promise<Store>;
}

/** Small, so that a few removals rewrite the journal. */
const WASTE_BYTES = 4_000;

const STORES = {
  sqlite: {
    path: "store.db",
    opened: "store.db",
    files: ["store.db", "store.db-wal", "store.db-shm", "store.db-journal"],
    syncCalls: ["fsync"],
    isTracedByName: true,
    open: (path) => openSqlite({ path }),
  },
  files: {
    path: "store",
    opened: "store/journal.jsonl",
    files: [
      "store",
      "store/journal.jsonl",
      "store/journal.jsonl.new",
      "store/live.jsonl",
      "store/lock.db",
      "store/lock.db-journal",
    ],
    syncCalls: ["fdatasync", "fsync"],
    isTracedByName: false,
    open: (path) => openFiles({ path, wasteBytes: WASTE_BYTES }),
  },
} as const satisfies Record<string, StoreUnderTest>;

export type StoreName = keyof typeof STORES;

const CHOICE = "HOLDFAST_TORTURE_STORE";

export function chooseStore(name: string): void {
  if (!(name in STORES))
    throw new Error(`there is no store ${name} to torture: ${Object.keys(STORES).join(", ")}`);
  process.env[CHOICE] = name;
}

export function chosenStore(): StoreUnderTest & { readonly name: StoreName } {
  const name = (process.env[CHOICE] ?? "sqlite") as StoreName;
  return { name, ...STORES[name] };
}

/** The store of the case whose folder this is. */
export function openStore(dir: string): Promise<Store> {
  const { path, open } = chosenStore();
  return open(join(dir, path));
}

/** Everything whose system calls count, the folder of the case included. */
export function storeFiles(dir: string): string[] {
  return [dir, ...chosenStore().files.map((name) => join(dir, name))];
}

/** Copies the store of one folder into another. */
export function layStore(from: string, to: string): void {
  const { path } = chosenStore();
  cpSync(join(from, path), join(to, path), { recursive: true });
}
