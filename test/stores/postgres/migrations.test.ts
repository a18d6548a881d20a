import pg from "pg";
import { afterEach, expect, test } from "vitest";
import { Database, MIGRATIONS, type Migration, migrate } from "../../../src/stores/postgres/index.ts";
import { serverUrl, TestSchema } from "./schema.ts";

const schemas: TestSchema[] = [];

afterEach(async () => {
  await Promise.all(schemas.splice(0).map((schema) => schema.dispose()));
});

const LIMITS = { busyMs: 10_000, statementMs: 10_000 };

/** Columns, constraints, indexes, functions and views of a schema, without its name. */
const DEFINITIONS = `
  SELECT 'column' AS what, table_name || '.' || column_name AS name,
    concat_ws(' ', data_type, is_nullable, column_default, collation_name) AS is
  FROM information_schema.columns WHERE table_schema = $1
  UNION ALL SELECT 'constraint', conrelid::regclass::text || ' ' || conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = $1::regnamespace AND contype <> 'n'
  UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = $1
  UNION ALL SELECT 'function', proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace
  UNION ALL SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = $1
  UNION ALL SELECT 'table', relname, array_to_string(reloptions, ' ')
  FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'
  ORDER BY 1, 2, 3`;

/** The functions of a schema of format 1, with their numbers of parameters. */
const FORMAT_1: readonly string[] = [
  "append_batch/3",
  "append_batches/7",
  "append_plain/10",
  "append_single/42",
  "change_lease/3",
  "collect_artifacts/7",
  "enter/3",
  "fence/2",
  "forget/2",
  "json_or_null/1",
  "key_holder/2",
  "missing_past/2",
  "now_ms/0",
  "refuse_lease/2",
  "release_lease/6",
  "remaining_ms/3",
  "remove_stream/9",
  "renew_leases/7",
  "store_write/5",
  "take_lease/9",
  "taken_key/2",
  "unused_generation/1",
];

/** A schema that was migrated version by version, starting with `first`. */
async function definitionsAfter(migrations: readonly Migration[], first: number): Promise<unknown[]> {
  const schema = new TestSchema();
  schemas.push(schema);
  const pool = new pg.Pool({ connectionString: serverUrl(), max: 1 });
  const database = new Database(pool, true, "test", schema.name, LIMITS);
  for (let version = first; version <= migrations.length; version++) {
    const format = await migrate(database, schema.name, migrations.slice(0, version));
    expect(format.version).toBe(version);
  }
  await database.close();
  const rows = await schema.query<{ what: string; name: string; is: string }>(DEFINITIONS, [schema.name]);
  return rows.map(({ what, name, is }) => [what, name, is].map((each) => each?.replaceAll(schema.name, "S")));
}

test("an upgraded schema equals a fresh one, from any version", async () => {
  const fresh = await definitionsAfter(MIGRATIONS, MIGRATIONS.length);
  expect(fresh.length).toBeGreaterThan(100);
  for (let first = 1; first < MIGRATIONS.length; first++) {
    expect(await definitionsAfter(MIGRATIONS, first)).toEqual(fresh);
  }
});

test("functions keep their names: a store of this format is not migrated, and the client calls them", async () => {
  const schema = new TestSchema();
  schemas.push(schema);
  await schema.open();
  const rows = await schema.query<{ is: string }>(
    "SELECT proname || '/' || pronargs AS is FROM pg_proc WHERE pronamespace = '$schema'::regnamespace ORDER BY 1",
  );
  expect(rows.map((row) => row.is)).toEqual(FORMAT_1);
});

test("missing migrations run once each, in order", async () => {
  const later: Migration[] = [
    ...MIGRATIONS,
    (schema) => `CREATE TABLE ${schema}.one (a integer)`,
    (schema) => `CREATE TABLE ${schema}.two (a integer); INSERT INTO ${schema}.one VALUES (1)`,
  ];
  const fresh = await definitionsAfter(later, later.length);
  expect(await definitionsAfter(later, 1)).toEqual(fresh);
  expect(fresh.length).toBe((await definitionsAfter(MIGRATIONS, 1)).length + 4);
});

test("a migration that fails leaves the schema as it was", async () => {
  const schema = new TestSchema();
  schemas.push(schema);
  await schema.open();
  const pool = new pg.Pool({ connectionString: serverUrl(), max: 1 });
  const database = new Database(pool, true, "test", schema.name, LIMITS);
  const broken: Migration[] = [
    ...MIGRATIONS,
    (name) => `CREATE TABLE ${name}.one (a integer)`,
    () => "nonsense",
  ];
  await expect(migrate(database, schema.name, broken)).rejects.toThrow(/nonsense/);
  await database.close();
  expect(await schema.query("SELECT value FROM $schema.meta WHERE name = 'format'")).toEqual([
    { value: String(MIGRATIONS.length) },
  ]);
  expect(await schema.query("SELECT to_regclass('$schema.one') AS found")).toEqual([{ found: null }]);
});

test("payloads are compressed by LZ4 if the server supports it", async () => {
  const schema = new TestSchema();
  schemas.push(schema);
  await (await schema.open()).close();
  const [server] = await schema.query<{ can: boolean }>(
    "SELECT 'lz4' = ANY (enumvals) AS can FROM pg_settings WHERE name = 'default_toast_compression'",
    [],
  );
  const columns = await schema.query<{ attname: string; attcompression: string }>(
    `SELECT attname, attcompression FROM pg_attribute
     WHERE attrelid = ($1 || '.writes')::regclass AND attname IN ('payload', 'bytes') ORDER BY 1`,
    [schema.name],
  );
  const by = server?.can ? "l" : "";
  expect(columns).toEqual([
    { attname: "bytes", attcompression: by },
    { attname: "payload", attcompression: by },
  ]);
});
