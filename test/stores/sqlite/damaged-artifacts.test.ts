// A repeated put repairs an artifact's damaged bytes: an acknowledged put means that the bytes are there.

import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Store } from "../../../src/store.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { NAMESPACE } from "./acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

const BYTES = Buffer.alloc(300_000, "A");
const HASH = createHash("sha256").update(BYTES).digest("hex");

const put = (store: Store, at: number) =>
  store.put({ of: "artifact", namespace: NAMESPACE, hash: HASH, bytes: BYTES, at });

async function expectWhole(store: Store): Promise<void> {
  const found = await store.get({ of: "artifact", namespace: NAMESPACE, hash: HASH });
  expect(BYTES.equals(found?.payload as Uint8Array)).toBe(true);
  expect(await store.check()).toEqual([]);
}

test.each([
  ["changed", "CAST('B' || substr(bytes, 2) AS BLOB)"],
  ["cut short", "substr(bytes, 1, 1000)"],
  ["lost", "zeroblob(0)"],
])("bytes that were %s are repaired by putting them again", async (_, damage) => {
  const store = await folder.open();
  await put(store, 1_000);
  const other = await Connection.open(folder.file(), false);
  other.exec(`UPDATE artifacts SET bytes = ${damage}`);
  await other.close();
  expect(await store.check()).toMatchObject([{ invariant: "I2" }]);
  // Also by a process whose clock is behind.
  await put(store, 500);
  await expectWhole(store);
});

test("correct bytes are not written again", async () => {
  const store = await folder.open();
  await put(store, 1_700_000_000_000);
  const before = statSync(`${folder.file()}-wal`).size;
  await put(store, 1_700_000_000_001);
  const written = statSync(`${folder.file()}-wal`).size - before;
  expect(written).toBeGreaterThan(0);
  expect(written).toBeLessThan(BYTES.length / 4);
  await expectWhole(store);
});
