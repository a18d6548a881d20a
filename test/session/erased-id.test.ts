// After an erase the id of a session is left in the tombstone, the lease and the once-ever keys, and nowhere
// else (decision 027). These places keep a later session of the same id apart from the erased one.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import * as z from "zod";
import { open, tool } from "../../src/index.ts";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { TestSchema } from "../stores/postgres/schema.ts";

const place = mkdtempSync(join(quickFolder(), "holdfast-erased-id-"));
afterAll(() => rmSync(place, { recursive: true }));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(place, "case-"));
  vi.stubEnv("XDG_STATE_HOME", join(folder, "home"));
});
afterEach(() => vi.unstubAllEnvs());

const ID = "ann-4711-example";

let charges = 0;
const charge = tool({
  name: "charge",
  description: "Charges",
  effect: "mutate",
  dedupe: "global",
  input: z.object({ order: z.string() }),
  execute: () => `charge ${++charges}`,
});

/** A session with everything that a session can have, and a fork, erased together. */
async function makeAndErase(...[address, options]: Parameters<typeof open>): Promise<void> {
  const holdfast = await open(address, options);
  const session = await holdfast.session(ID, { title: `About ${ID}`, metadata: { user: ID } });
  const artifact = await holdfast.putArtifact(Buffer.from(`a file of ${ID}`));
  const file = { kind: "file", artifact, mediaType: "text/plain" } as const;
  await session.append({ role: "user", blocks: [{ kind: "text", text: `I am ${ID}` }, file] });
  await session.call({ callId: `pay-${ID}`, tool: charge, args: { order: "17" } });
  await session.checkpoint(`for ${ID}`);
  await session.close();
  await holdfast.sessions.fork(ID, `${ID}-fork`);
  await holdfast.sessions.erase(ID);
  await holdfast.close();
}

/** The id can be used again; the erased session's once-ever call cannot. */
async function expectNextGeneration(...[address, options]: Parameters<typeof open>): Promise<void> {
  const holdfast = await open(address, options);
  const before = charges;
  const session = await holdfast.session(ID);
  expect(session.messages).toEqual([]);
  const other = await holdfast.session("bob");
  for (const each of [session, other]) {
    const again = await each.call({ callId: "again", tool: charge, args: { order: "17" } });
    expect(again).toMatchObject({ status: "failed" });
    expect(JSON.stringify(again), "no other log names the erased session").not.toContain(ID);
  }
  expect(charges).toBe(before);
  const { head } = await holdfast.journal.row(`session/${ID}`);
  expect(head.generation).toBe(2);
  await holdfast.close();
}

const filesBelow = (path: string): string[] =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));

const naming = (paths: readonly string[]): string[] =>
  paths.filter((path) => path.includes(ID) || readFileSync(path).includes(ID));

test("sqlite", async () => {
  const path = join(folder, "s.db");
  await makeAndErase(path);
  expect(naming(filesBelow(folder))).toEqual([path]);
  const connection = await Connection.open(path, true);
  const tables = connection.all<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table'");
  const found = tables.flatMap(({ name: table }) => {
    const columns = connection.all<{ name: string }>("SELECT name FROM pragma_table_info(?)", table);
    return columns.flatMap(({ name }) => {
      const sql = `SELECT count(*) AS rows FROM ${table} WHERE instr(CAST(${name} AS TEXT), ?) > 0`;
      return connection.get<{ rows: number }>(sql, ID)?.rows ? [`${table}.${name}`] : [];
    });
  });
  await connection.close();
  expect(found.sort()).toEqual(["leases.name", "streams.stream"]);
  await expectNextGeneration(path);
});

test("files", async () => {
  const path = join(folder, "files/");
  await makeAndErase(path);
  const journal = join(path, "journal.jsonl");
  expect(naming(filesBelow(folder))).toEqual([journal]);
  const lines = readFileSync(journal, "utf8").trim().split("\n");
  const acts = lines
    .filter((line) => line.includes(ID))
    .map((line) => (JSON.parse(line) as { act: { do: string } }).act.do);
  expect([...new Set(acts)].sort()).toEqual(["keys", "lease", "stream"]);
  await expectNextGeneration(path);
});

test("postgres", async () => {
  const schema = new TestSchema();
  try {
    await makeAndErase(undefined, { store: await schema.open() });
    const sql = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1";
    const tables = await schema.query<{ name: string }>(`${sql} AND table_type = 'BASE TABLE'`, [
      schema.name,
    ]);
    const found: string[] = [];
    for (const { name } of tables) {
      const columns = `SELECT DISTINCT e.key FROM $schema.${name} AS t, jsonb_each_text(to_jsonb(t)) AS e
        WHERE strpos(e.value, $1) > 0`;
      const rows = await schema.query<{ key: string }>(columns, [ID]);
      found.push(...rows.map(({ key }) => `${name}.${key}`));
    }
    expect(found.sort()).toEqual(["keys.stream", "leases.name", "streams.stream"]);
    await expectNextGeneration(undefined, { store: await schema.open() });
  } finally {
    await schema.dispose();
  }
});
