import type { Store } from "../../../src/store.ts";
import type { PostgresOptions } from "../../../src/stores/postgres/index.ts";
import type { Opened, StoreSubject } from "../../../src/testing/index.ts";
import { isServerOfRun, TestSchema } from "./schema.ts";

/** A clock for leases that only the test moves. */
const TEST_CLOCK = `
  CREATE TABLE $schema.test_clock (ms bigint NOT NULL);
  INSERT INTO $schema.test_clock VALUES (1000);
  CREATE OR REPLACE FUNCTION $schema.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT ms FROM $schema.test_clock'`;

/**
 * Schemas on the server of this run. Creating one takes longer than most cases, so used ones are emptied
 * and reused. `dispose` drops them.
 */
export function postgresForTest(url?: string): StoreSubject & { dispose(): Promise<void> } {
  const free: TestSchema[] = [];
  const all: TestSchema[] = [];
  return {
    name: "postgres",
    async open() {
      const schema = free.pop() ?? (await makeSchema(all, url));
      return openIn(schema, {}, () => free.push(schema));
    },
    async dispose() {
      await Promise.all(all.map((schema) => schema.dispose()));
    },
  };
}

/** Empty schemas. They end with the server of the run. */
const spare: TestSchema[] = [];

/**
 * The same for suites about other subjects. Their stores share the connections of a schema, which saves the
 * server a process per store, and the next test file reuses the schemas.
 */
export function pooledPostgresForTest(): StoreSubject & { dispose(): Promise<void> } {
  const all: TestSchema[] = [];
  return {
    name: "postgres",
    async open() {
      const schema = spare.pop() ?? (await makeSchema(all));
      return openIn(schema, { pool: schema.pool }, () => spare.push(schema));
    },
    async dispose() {
      if (isServerOfRun()) return;
      spare.splice(0);
      await Promise.all(all.map((schema) => schema.dispose()));
    },
  };
}

async function makeSchema(all: TestSchema[], url?: string): Promise<TestSchema> {
  const schema = new TestSchema(url);
  all.push(schema);
  await schema.open({ pool: schema.pool });
  await schema.close();
  await schema.query(TEST_CLOCK);
  return schema;
}

async function openIn(
  schema: TestSchema,
  options: Partial<PostgresOptions>,
  done: () => void,
): Promise<Opened> {
  const another = (): Promise<Store> => schema.open(options);
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
      await schema.empty();
      done();
    },
  };
}
