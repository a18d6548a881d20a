import type { Store } from "../../src/store.ts";
import type { Opened, StoreSubject } from "../../src/testing/index.ts";
import { TestSchema } from "./schema.ts";

const TABLES = ["streams", "writes", "items", "leases", "keys", "artifacts", "artifact_refs", "snapshots"];

/** Leases in the schema run by a clock that only the test moves. */
const TEST_CLOCK = `
  CREATE TABLE $schema.test_clock (ms bigint NOT NULL);
  INSERT INTO $schema.test_clock VALUES (1000);
  CREATE OR REPLACE FUNCTION $schema.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT ms FROM $schema.test_clock'`;

/**
 * Schemas on the server of this run. Making one takes longer than most cases, so those that are done with are emptied
 * and used again. `dispose` drops them.
 */
export function postgresForTest(url?: string): StoreSubject & { dispose(): Promise<void> } {
  const free: TestSchema[] = [];
  const all: TestSchema[] = [];
  return {
    name: "postgres",
    async open() {
      const schema = free.pop() ?? (await makeSchema(all, url));
      return openIn(schema, () => free.push(schema));
    },
    async dispose() {
      await Promise.all(all.map((schema) => schema.dispose()));
    },
  };
}

async function makeSchema(all: TestSchema[], url?: string): Promise<TestSchema> {
  const schema = new TestSchema(url);
  all.push(schema);
  await schema.open();
  await schema.close();
  await schema.query(TEST_CLOCK);
  return schema;
}

async function openIn(schema: TestSchema, done: () => void): Promise<Opened> {
  const another = (): Promise<Store> => schema.open();
  const store = await another();
  return {
    store,
    another,
    reopen: async () => {
      await store.close();
      return another();
    },
    advanceMs: async (ms) => {
      await schema.query("UPDATE $schema.test_clock SET ms = ms + $1", [Math.round(ms)]);
    },
    dispose: async () => {
      await schema.close();
      await schema.query(TABLES.map((table) => `DELETE FROM $schema.${table}`).join(";"));
      await schema.query("DELETE FROM $schema.meta WHERE name = 'seal'");
      done();
    },
  };
}
