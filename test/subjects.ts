import type { StoreSubject } from "../src/testing/index.ts";
import { openMemoryForTest } from "./stores/conformance/memory-subject.ts";
import { sqliteForTest } from "./stores/conformance/sqlite-subject.ts";
import { filesForTest } from "./stores/files/subject.ts";
import { pooledPostgresForTest } from "./stores/postgres/subject.ts";

/** Every store, fresh for one test file. Call `dispose` at the end of the file. */
export function storeSubjects(): (StoreSubject & { dispose(): Promise<void> })[] {
  return [
    { name: "memory", open: () => openMemoryForTest(), dispose: async () => undefined },
    sqliteForTest(),
    filesForTest(),
    pooledPostgresForTest(),
  ];
}
