// All lives of a stream share one row, and snapshots refer to that row. Removal and the next life delete any
// snapshot that was left there.

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Store } from "../../../src/store.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { append, NAMESPACE, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;
let store: Store;

beforeEach(async () => {
  folder = await TestFolder.make();
  store = await folder.open();
});

afterEach(() => folder.dispose());

async function leaveSnapshot(): Promise<void> {
  const connection = await Connection.open(folder.file(), false);
  connection.exec(`INSERT INTO snapshots (stream, fold, seq, codec, payload)
    SELECT id, 'session@1', 1, NULL, 'left' FROM streams WHERE stream = 'session/a'`);
  await connection.close();
}

const listed = async () =>
  (await store.list<"snapshots">({ of: "snapshots", namespace: NAMESPACE, stream: "session/a" })).rows;

const remove = (stream: string, seq: number) =>
  store.remove({ of: "stream", namespace: NAMESPACE, stream, expect: { generation: 1, seq } });

test("a snapshot of a hidden stream is deleted with its last fork", async () => {
  await append(store, write("session/a", 0, [1]));
  const fork = { stream: "session/a", generation: 1, seq: 1 };
  await append(store, write("session/b", 1, [2], { fork }));
  expect(await remove("session/a", 1)).toEqual({ outcome: "hidden" });
  await leaveSnapshot();
  expect(await listed()).toHaveLength(1);
  expect(await remove("session/b", 2)).toEqual({ outcome: "removed", count: 2 });
  expect(await listed()).toEqual([]);
});

test("a snapshot of a removed stream is not found in its next life", async () => {
  await append(store, write("session/a", 0, [1]));
  await remove("session/a", 1);
  await leaveSnapshot();
  expect(await listed()).toHaveLength(1);
  await append(store, write("session/a", 0, [2], { expect: { generation: 2, seq: 0 } }));
  expect(await listed()).toEqual([]);
});
