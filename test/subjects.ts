import type { StoreSubject } from "../src/testing/index.ts";
import { openMemoryForTest } from "./stores/conformance/memory-subject.ts";
import { sqliteForTest } from "./stores/conformance/sqlite-subject.ts";
import { filesForTest } from "./stores/files/subject.ts";
import { pooledPostgresForTest } from "./stores/postgres/subject.ts";

/** Every store that a suite has to hold on, fresh for one test file. Call `dispose` when the file is done. */
export function storeSubjects(): (StoreSubject & { dispose(): Promise<void> })[] {
  return [
    { name: "memory", open: () => openMemoryForTest(), dispose: async () => undefined },
    sqliteForTest(),
    filesForTest(),
    pooledPostgresForTest(),
  ];
}
