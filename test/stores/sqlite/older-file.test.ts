// An operator puts an older copy of the file in place, and something of the newer store is left: a process
// that has it open, or its WAL. Holdfast neither acknowledges writes to such a store nor shows its past as
// its present.

import { copyFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Journal } from "../../../src/journal/index.ts";
import type { Store } from "../../../src/store.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { said, words } from "../../journal/words.ts";
import { append, headSeq, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

/** Copies the WAL into the file. */
async function checkpoint(): Promise<void> {
  const connection = await Connection.open(folder.file(), false);
  connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  await connection.close();
}

/** Says `count` words of 2,000 characters, one per commit, then copies them all into the file. */
async function grow(store: Store, count: number): Promise<void> {
  const log = await new Journal({ store }).open(words, "w");
  for (let index = 0; index < count; index++) await log.commit(() => said("x".repeat(2_000)));
  await checkpoint();
}

test("a file that shrinks under an open store is refused for writes and reads", async () => {
  const store = await folder.open();
  await grow(store, 3);
  const backup = readFileSync(folder.file());
  await grow(store, 100);
  expect(await headSeq(store, "words/w")).toBe(103);
  const { ino } = statSync(folder.file());

  writeFileSync(folder.file(), backup);
  expect(statSync(folder.file()).ino).toBe(ino);
  const refused = {
    code: "STORE_REPLACED",
    unknown: false,
    message: expect.stringContaining(`to ${backup.length} bytes`),
    hint: expect.stringContaining("put it in place"),
  };
  await expect(append(store, write("session/a", 0, [1]))).rejects.toMatchObject(refused);
  await expect(headSeq(store, "words/w")).rejects.toMatchObject(refused);
});

test("a store that grows, also by another process, is still the same", async () => {
  const store = await folder.open();
  const other = await folder.open();
  await grow(other, 50);
  expect(await headSeq(store, "words/w")).toBe(50);
  expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
});

test("an older file under a newer WAL is STORE_CORRUPT, not an older state", async () => {
  const store = await folder.open();
  await grow(store, 5);
  const path = folder.file("older.db");
  copyFileSync(folder.file(), path);
  await grow(store, 300);
  await append(store, write("session/a", 0, [1]));
  const log = await new Journal({ store }).open(words, "w");
  await log.commit(() => said("last"));
  copyFileSync(`${folder.file()}-wal`, `${path}-wal`);

  const corrupt = { code: "STORE_CORRUPT", hint: expect.any(String) };
  const journal = new Journal({ store: await folder.open({ path, readOnly: true }) });
  await expect(journal.load(words, "w")).rejects.toMatchObject(corrupt);
  await expect(journal.open(words, "w")).rejects.toMatchObject(corrupt);
});
