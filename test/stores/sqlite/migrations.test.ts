import { afterEach, beforeEach, expect, test } from "vitest";
import { allMigrations, Connection, FORMAT, migrate } from "../../../src/stores/sqlite/index.ts";
import { TestFolder } from "./folder.ts";

const MIGRATIONS = await allMigrations();

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

/** A file that was migrated version by version, as releases came out, starting with `first`. */
async function schemaAfter(migrations: readonly string[], first: number): Promise<unknown[]> {
  const connection = await Connection.open(folder.file(`from-${first}-of-${migrations.length}.db`), false);
  try {
    for (let version = first; version <= migrations.length; version++) {
      migrate(connection, migrations.slice(0, version));
      expect(connection.get("PRAGMA user_version")).toMatchObject({ user_version: version });
    }
    const schema = connection.all("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name");
    return [...schema, connection.get("PRAGMA application_id"), connection.get("PRAGMA user_version")];
  } finally {
    await connection.close();
  }
}

test("FORMAT is the number of migrations: files of that version skip loading the schema", () => {
  expect(FORMAT).toBe(MIGRATIONS.length);
});

test("an upgraded schema equals a fresh one, whatever version it began with", async () => {
  const fresh = await schemaAfter(MIGRATIONS, MIGRATIONS.length);
  for (let first = 1; first < MIGRATIONS.length; first++) {
    expect(await schemaAfter(MIGRATIONS, first)).toEqual(fresh);
  }
});

test("migrations run once each, in order, also when several are missing", async () => {
  const later = [...MIGRATIONS, "CREATE TABLE one (a)", "CREATE TABLE two (a); INSERT INTO one VALUES (1)"];
  const fresh = await schemaAfter(later, later.length);
  expect(await schemaAfter(later, 1)).toEqual(fresh);
  expect(fresh.length).toBe((await schemaAfter(MIGRATIONS, 1)).length + 2);
});

test("a migration that fails leaves the file as it was", async () => {
  const connection = await Connection.open(folder.file(), false);
  migrate(connection, MIGRATIONS);
  expect(() => migrate(connection, [...MIGRATIONS, "CREATE TABLE one (a)", "nonsense"])).toThrow();
  expect(connection.get("PRAGMA user_version")).toMatchObject({ user_version: MIGRATIONS.length });
  expect(connection.all("SELECT 1 FROM sqlite_schema WHERE name = 'one'")).toEqual([]);
  await connection.close();
});
