import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { quickFolder } from "../quick-folder.ts";

/** A place where a store lives, with clocks that only the test moves. */
export interface Place {
  readonly store: Store;
  /** Another handle on the same data. */
  another(): Promise<Store>;
  /** Moves the clock of leases. */
  advanceMs(ms: number): void;
  /** Everything that is on the disk, as one string of bytes; empty in memory. */
  bytes(): Promise<string>;
  dispose(): Promise<void>;
}

async function memoryPlace(): Promise<Place> {
  const data = memoryData();
  let nowMs = 0;
  const another = async () => openMemory({ data, clock: () => nowMs });
  return {
    store: await another(),
    another,
    advanceMs: (ms) => {
      nowMs += ms;
    },
    bytes: async () => "",
    dispose: async () => undefined,
  };
}

async function sqlitePlace(): Promise<Place> {
  const folder = await mkdtemp(join(quickFolder(), "holdfast-journal-"));
  let nowMs = 1_000;
  const clock = { boot: "test", nowMs: () => nowMs };
  const handles: Store[] = [];
  const another = async () => {
    const store = await openSqlite({ path: join(folder, "store.db"), clock });
    handles.push(store);
    return store;
  };
  const close = () => Promise.all(handles.map((handle) => handle.close()));
  return {
    store: await another(),
    another,
    advanceMs: (ms) => {
      nowMs += ms;
    },
    bytes: async () => {
      await close();
      const files = await readdir(folder);
      return (await Promise.all(files.map((file) => readFile(join(folder, file), "latin1")))).join("");
    },
    dispose: async () => {
      await close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export const PLACES: Readonly<Record<string, () => Promise<Place>>> = {
  memory: memoryPlace,
  sqlite: sqlitePlace,
};

type Method = "append" | "read" | "list" | "put" | "get" | "lease" | "remove" | "close";

/** The same store with some of its verbs replaced; each replacement gets the original. */
export function altered(
  store: Store,
  changes: { [Name in Method]?: (original: Store[Name], ...args: Parameters<Store[Name]>) => unknown },
): Store {
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== "function") return value;
      const original = value.bind(target) as never;
      const change = changes[name as Method] as ((...args: unknown[]) => unknown) | undefined;
      return change ? async (...args: unknown[]) => change(original, ...args) : original;
    },
  });
}

/** Bytes of the payloads of a stream's own writes: what it costs to keep it. */
export async function storedBytes(store: Store, stream: string): Promise<number> {
  let bytes = 0;
  let after = 0;
  for (;;) {
    const page = await store.read({ namespace: "default", stream, after, limit: 500 });
    for (const { payload, last } of page.writes) {
      bytes += payload.length;
      after = last;
    }
    if (!page.more) return bytes;
  }
}
