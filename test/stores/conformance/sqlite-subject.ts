import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Store } from "../../../src/store.ts";
import { openSqlite } from "../../../src/stores/sqlite/index.ts";
import type { Opened, StoreSubject } from "../../../src/testing/index.ts";
import { quickFolder } from "../../quick-folder.ts";

/**
 * SQLite files with a clock that only the test moves. Creating an empty file takes longer than most cases,
 * so one is made and copied. Closing one takes longer still on Node 20, but many at once no longer than
 * one, so used files are closed together. `dispose` deletes everything.
 */
export function sqliteForTest(): StoreSubject & { dispose(): Promise<void> } {
  let home: Promise<string> | undefined;
  const done: Store[] = [];
  const closeAll = () => Promise.all(done.splice(0).map((store) => store.close()));
  return {
    name: "sqlite",
    async open() {
      home ??= makeEmptyFile();
      return openCopy(await home, async (handles) => {
        done.push(...handles);
        if (done.length >= CLOSED_TOGETHER) await closeAll();
      });
    },
    async dispose() {
      await closeAll();
      if (home) await rm(await home, { recursive: true });
    },
  };
}

const CLOSED_TOGETHER = 20;

async function makeEmptyFile(): Promise<string> {
  const folder = await mkdtemp(join(quickFolder(), "holdfast-conformance-"));
  const store = await openSqlite({ path: join(folder, "empty.db") });
  await store.close();
  return folder;
}

async function openCopy(home: string, leave: (handles: readonly Store[]) => Promise<void>): Promise<Opened> {
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
    dispose: () => leave(handles),
  };
}
