// After an erase nothing in a store has the id of the session, and a later session of the same id is kept
// apart from the erased one all the same (decision 027).

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import * as z from "zod";
import { open, tool } from "../../src/index.ts";
import { streamName } from "../../src/model/names.ts";
import { Context, OPERATIONS, perform } from "../../src/operations/index.ts";
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

/** An address is escaped inside: `ann.4711~40example.com`. */
const ID = "ann.4711@example.com";
const PERSON = "ann.4711";

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
    expect(JSON.stringify(again), "no other log names the erased session").not.toContain(PERSON);
  }
  expect(charges).toBe(before);
  const { head } = await holdfast.journal.row(streamName("session", ID));
  // Parent and fork are erased one after the other.
  expect(head.generation).toBeGreaterThan(1);
  expect(await holdfast.journal.store.check()).toEqual([]);
  await holdfast.close();
}

const filesBelow = (path: string): string[] =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));

const naming = (paths: readonly string[]): string[] =>
  paths.filter((path) => path.includes(PERSON) || readFileSync(path).includes(PERSON));

test("sqlite", async () => {
  const path = join(folder, "s.db");
  await makeAndErase(path);
  expect(naming(filesBelow(folder))).toEqual([]);
  await expectNextGeneration(path);
});

test("files", async () => {
  const path = join(folder, "files/");
  await makeAndErase(path);
  expect(naming(filesBelow(folder))).toEqual([]);
  await expectNextGeneration(path);
});

test("a pruned session leaves its id until it is erased", async () => {
  const path = join(folder, "s.db");
  const holdfast = await open(path);
  await (await holdfast.session(ID)).close();
  await holdfast.sessions.prune({ keep: 0 });
  expect((await holdfast.journal.row(streamName("session", ID))).head.generation).toBe(2);
  expect(naming([path, `${path}-wal`])).not.toEqual([]);
  await expect(holdfast.sessions.erase(ID)).rejects.toThrow("no session");
  await holdfast.close();
  expect(naming(filesBelow(folder))).toEqual([]);
});

async function act(name: "export" | "import", store: string, file: string): Promise<void> {
  const by = { name: "ann", role: "human" } as const;
  const context = await Context.of({ cwd: folder, store, by, caller: "person" });
  try {
    await perform(OPERATIONS.get(name) as NonNullable<ReturnType<typeof OPERATIONS.get>>, context, { file });
  } finally {
    await context.close();
  }
}

test("an export has the once-ever keys of erased sessions, and no id", async () => {
  const path = join(folder, "s.db");
  await makeAndErase(path);
  const file = join(folder, "all.hfx");
  const copy = join(folder, "copy.db");
  await act("export", path, file);
  expect(naming([file])).toEqual([]);
  await act("import", copy, file);
  await expectNextGeneration(copy);
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
      const rows = await schema.query<{ key: string }>(columns, [PERSON]);
      found.push(...rows.map(({ key }) => `${name}.${key}`));
    }
    expect(found).toEqual([]);
    await expectNextGeneration(undefined, { store: await schema.open() });
  } finally {
    await schema.dispose();
  }
});
