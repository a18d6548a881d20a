import type { Store } from "../../src/store.ts";

/** Traffic of a store: payload bytes in and out, and rows per append. */
export interface Counts {
  appendedBytes: number;
  appendedItems: number;
  readBytes: number;
  listedRows: number;
}

/** A wrapper that counts. */
export function counting(store: Store): { readonly store: Store; readonly counts: Counts } {
  const counts: Counts = { appendedBytes: 0, appendedItems: 0, readBytes: 0, listedRows: 0 };
  const counted: Store = {
    address: store.address,
    append(batch) {
      for (const write of batch.writes) {
        counts.appendedBytes += write.payload.length;
        counts.appendedItems += write.items?.length ?? 0;
      }
      return store.append(batch);
    },
    async read(request) {
      const page = await store.read(request);
      for (const write of page.writes) counts.readBytes += write.payload.length;
      counts.readBytes += page.snapshot?.payload.length ?? 0;
      return page;
    },
    async get(request) {
      const blob = await store.get(request);
      counts.readBytes += blob?.payload.length ?? 0;
      return blob;
    },
    async list(request) {
      const page = await store.list(request);
      counts.listedRows += page.rows.length;
      return page;
    },
    put: (request) => store.put(request),
    lease: (request) => store.lease(request),
    remove: (request) => store.remove(request),
    watch: (request, changed) => store.watch(request, changed),
    check: () => store.check(),
    close: () => store.close(),
  };
  return { store: counted, counts };
}
