import type { StoreSubject } from "../src/testing/index.ts";
import { openMemoryForTest } from "./stores/conformance/memory-subject.ts";
import { sqliteForTest } from "./stores/conformance/sqlite-subject.ts";
import { filesForTest } from "./stores/files/subject.ts";
import { pooledPostgresForTest } from "./stores/postgres/subject.ts";

type Subject = StoreSubject & { dispose(): Promise<void> };

const SUBJECTS: Readonly<Record<string, () => Subject>> = {
  memory: () => ({ name: "memory", open: () => openMemoryForTest(), dispose: async () => undefined }),
  sqlite: sqliteForTest,
  files: filesForTest,
  postgres: pooledPostgresForTest,
};

/**
 * Every store, fresh for one test file. Call `dispose` at the end of the file. `HOLDFAST_STORES=memory,sqlite`
 * names some of them, for a shorter run.
 */
export function storeSubjects(): Subject[] {
  const { HOLDFAST_STORES: named = Object.keys(SUBJECTS).join(",") } = process.env;
  return named.split(",").flatMap((name) => SUBJECTS[name]?.() ?? []);
}
