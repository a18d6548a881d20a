import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Store } from "../../src/store.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import type { Opened, StoreSubject } from "../../src/testing/index.ts";
import { quickFolder } from "../quick-folder.ts";

/**
 * SQLite files whose leases run by a clock that only the test moves. Making an empty file takes longer than most
 * cases, so it is made once and copied. `dispose` throws the original away.
 */
export function sqliteForTest(): StoreSubject & { dispose(): Promise<void> } {
  let home: Promise<string> | undefined;
  return {
    name: "sqlite",
    async open() {
      home ??= makeEmptyFile();
      return openCopy(await home);
    },
    async dispose() {
      if (home) await rm(await home, { recursive: true });
    },
  };
}

async function makeEmptyFile(): Promise<string> {
  const folder = await mkdtemp(join(quickFolder(), "holdfast-conformance-"));
  const store = await openSqlite({ path: join(folder, "empty.db") });
  await store.close();
  return folder;
}

async function openCopy(home: string): Promise<Opened> {
  const folder = await mkdtemp(join(home, "case-"));
  const path = join(folder, "store.db");
  await copyFile(join(home, "empty.db"), path);
  let now = 1_000;
  const clock = { boot: "test", nowMs: () => now };
  const handles: Store[] = [];
  const another = async (): Promise<Store> => {
    const store = await openSqlite({ path, clock });
    handles.push(store);
    return store;
  };
  const store = await another();
  return {
    store,
    another,
    reopen: async () => {
      await store.close();
      return another();
    },
    advanceMs: (ms) => {
      now += ms;
    },
    dispose: async () => {
      await Promise.all(handles.map((handle) => handle.close()));
      await rm(folder, { recursive: true });
    },
  };
}
