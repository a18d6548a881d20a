import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "../../src/store.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import type { Opened } from "../../src/testing/index.ts";

/** A SQLite file of its own, with leases that run by a clock that only the test moves. */
export async function openSqliteForTest(): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-conformance-"));
  let now = 1_000;
  const clock = { boot: "test", nowMs: () => now };
  const handles: Store[] = [];
  const another = async (): Promise<Store> => {
    const store = await openSqlite({ path: join(folder, "store.db"), clock });
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
