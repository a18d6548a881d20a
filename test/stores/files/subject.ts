import { cp, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Store } from "../../../src/store.ts";
import { openFiles } from "../../../src/stores/files/index.ts";
import type { Opened, StoreSubject } from "../../../src/testing/index.ts";
import { quickFolder } from "../../quick-folder.ts";

/**
 * Folders whose leases run by a clock that only the test moves. Creating an empty store takes longer than
 * most cases, so one is made and copied. `dispose` deletes the original.
 */
export function filesForTest(): StoreSubject & { dispose(): Promise<void> } {
  let home: Promise<string> | undefined;
  return {
    name: "files",
    async open() {
      home ??= makeEmptyStore();
      return openCopy(await home);
    },
    async dispose() {
      if (home) await rm(await home, { recursive: true });
    },
  };
}

async function makeEmptyStore(): Promise<string> {
  const folder = await mkdtemp(join(quickFolder(), "holdfast-files-"));
  const store = await openFiles({ path: join(folder, "empty") });
  await store.close();
  return folder;
}

async function openCopy(home: string): Promise<Opened> {
  const folder = await mkdtemp(join(home, "case-"));
  const path = join(folder, "store");
  await cp(join(home, "empty"), path, { recursive: true });
  let now = 1_000;
  const clock = { boot: "test", nowMs: () => now };
  const handles: Store[] = [];
  const another = async (): Promise<Store> => {
    const store = await openFiles({ path, clock });
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
