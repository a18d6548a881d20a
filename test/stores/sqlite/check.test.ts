// A check that finds nothing proves nothing until it has found planted damage.

import { createHash } from "node:crypto";
import { closeSync, openSync, writeSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Problem, Store } from "../../../src/store.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { append, NAMESPACE, sumOf, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

const BYTES = Buffer.from("a picture");
const HASH = createHash("sha256").update(BYTES).digest("hex");

let folder: TestFolder;
let store: Store;

beforeEach(async () => {
  folder = await TestFolder.make();
  store = await folder.open();
  await store.put({ of: "artifact", namespace: NAMESPACE, hash: HASH, bytes: BYTES, at: 1 });
  for (let seq = 0; seq < 5; seq++) await append(store, write("session/a", seq, [seq]));
  const call = { kind: "call", id: "c1", seq: 6, at: 1 };
  const parts = {
    facets: { openCalls: 1 },
    items: [call],
    artifacts: [HASH],
    claims: [{ key: "k", event: 0 }],
  };
  await append(store, write("session/a", 5, ["call"], parts));
  const fork = { stream: "session/a", generation: 1, seq: 3 };
  await append(store, write("session/b", 3, ["fork"], { fork }));
  const odd = "\0 \ud800";
  await append(store, write("session/odd", 0, [1], { payload: odd, sum: sumOf(odd), codec: "odd" }));
  await store.lease({
    act: "take",
    namespace: NAMESPACE,
    name: "session/a",
    holder: { owner: "o", label: "o", host: "h", pid: 1, started: null, boot: null, pidNamespace: null },
    ttlMs: 1_000,
  });
});

afterEach(() => folder.dispose());

async function plant(sql: string): Promise<readonly Problem[]> {
  const connection = await Connection.open(folder.file(), false);
  connection.exec(`PRAGMA ignore_check_constraints = ON; ${sql}`);
  await connection.close();
  return store.check();
}

test("an intact store has no problems", async () => {
  expect(await store.check()).toEqual([]);
});

describe("planted damage is found", () => {
  test.each([
    [
      "a changed payload",
      "UPDATE writes SET payload = '[9]' WHERE id = 1 << 28 | 3",
      "I2",
      /events 3 to 3.*checksum/,
    ],
    [
      "a payload that became bytes",
      "UPDATE writes SET payload = x'01' WHERE id = 1 << 28 | 3",
      "I2",
      /checksum/,
    ],
    [
      "a write missing in the middle",
      "DELETE FROM writes WHERE id = 1 << 28 | 3",
      "I7",
      /event 4 follows event 2/,
    ],
    ["a missing last write", "DELETE FROM writes WHERE id = 1 << 28 | 6", "I7", /ends at event 5.*says 6/],
    ["a head that fell back", "UPDATE streams SET seq = 4 WHERE id = 1", "I7", /its head says 4/],
    ["events without a stream", "DELETE FROM streams WHERE stream = 'session/odd'", "I7", /no row/],
    ["a fork of nothing", "UPDATE streams SET generation = 7 WHERE id = 1", "I7", /forked from is gone/],
    ["a token of zero", "UPDATE leases SET token = 0", "I7", /token is 0/],
    [
      "a wrong count of open calls",
      "UPDATE streams SET open_calls = 3 WHERE id = 1",
      "I7",
      /says 3 .* but 1/,
    ],
    ["a key of no stream", "UPDATE keys SET stream = 99", "I2", /key|holds it/],
    ["a reference to no artifact", "DELETE FROM artifacts", "I2", /artifact/],
    ["a changed artifact", "UPDATE artifacts SET bytes = x'00'", "I2", /hash/],
    ["an item beyond the end", "UPDATE items SET seq = 100", "I2", /not there/],
  ])("%s", async (_, sql, invariant, what) => {
    const problems = await plant(sql);
    expect(problems).toContainEqual({
      invariant,
      where: expect.any(String),
      what: expect.stringMatching(what),
    });
  });
});

test("a damaged page is a problem of the medium, and check does not throw", async () => {
  const connection = await Connection.open(folder.file(), false);
  const { page } = connection.get(
    "SELECT rootpage AS page FROM sqlite_schema WHERE name = 'streams_latest'",
  ) as {
    page: number;
  };
  await connection.close();
  await store.close();
  const file = openSync(folder.file(), "r+");
  writeSync(file, Buffer.alloc(600, 0x55), 0, 600, page * 4_096 - 600);
  closeSync(file);
  const reopened = await folder.open();
  expect(await reopened.check()).toContainEqual(expect.objectContaining({ invariant: "medium" }));
});
