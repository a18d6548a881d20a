import type { Store } from "../../../src/store.ts";
import { type MemoryData, memoryData, type Opened, openMemory } from "../../../src/testing/index.ts";

/** Adds a fault to a handle; all handles of one case share `data`. */
export type Wrap = (store: Store, data: MemoryData) => Store;

/** Memory stores with a clock that only the test moves, or with `ownClock`. */
export async function openMemoryForTest(
  wrap: Wrap = (store) => store,
  ownClock?: () => number,
): Promise<Opened> {
  const data = memoryData();
  let now = 0;
  const clock = ownClock ?? (() => now);
  const handles: Store[] = [];
  const another = async (): Promise<Store> => {
    const store = wrap(openMemory({ data, clock }), data);
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
    },
  };
}
