// A checker that cannot fail protects nothing: each kind of damage is planted and must be found.

import { createHash } from "node:crypto";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Store } from "../../../src/store.ts";
import { append, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestSchema } from "./schema.ts";

const schema = new TestSchema();
let store: Store;

const BYTES = new Uint8Array([7, 7, 7]);
const HASH = createHash("sha256").update(BYTES).digest("hex");

beforeEach(async () => {
  store = await schema.open({ pool: schema.pool });
  await store.put({ of: "artifact", namespace: NAMESPACE, hash: HASH, bytes: BYTES, at: 1 });
  const items = [{ kind: "call", id: "c1", seq: 1, at: 1, doneAt: null }];
  const parts = { artifacts: [HASH], claims: [{ key: "k", event: 0 }], items, facets: { openCalls: 1 } };
  await append(store, write("session/a", 0, [1, 2], parts));
  await append(store, write("session/a", 2, [3]));
  await append(store, write("session/b", 2, [4], { fork: { stream: "session/a", generation: 1, seq: 2 } }));
  const holder = { owner: "o", label: "", host: "", pid: 1, started: null, boot: null, pidNamespace: null };
  await store.lease({ act: "take", namespace: NAMESPACE, name: "session/a", holder, ttlMs: 1_000 });
});

afterEach(() => schema.empty());
afterAll(() => schema.dispose());

test("an intact store has no problems", async () => {
  expect(await store.check()).toEqual([]);
});

describe("check finds", () => {
  const damages: [what: string, sql: string, invariant: string, found: RegExp][] = [
    ["a changed payload", "UPDATE $schema.writes SET payload = '[9]' WHERE last = 3", "I2", /checksum/],
    ["a lost write", "DELETE FROM $schema.writes WHERE last = 2", "I7", /event 3 follows event 0/],
    [
      "a lost end",
      "DELETE FROM $schema.writes WHERE last = 3 AND stream = 'session/a'",
      "I7",
      /ends at event 2/,
    ],
    ["events without a row", "DELETE FROM $schema.streams WHERE stream = 'session/b'", "I7", /no row/],
    [
      "a lost parent",
      "UPDATE $schema.streams SET parent = 'session/x' WHERE parent IS NOT NULL",
      "I7",
      /forked/,
    ],
    [
      "a row without a generation",
      "UPDATE $schema.streams SET generation = 0, state = 'gone'",
      "I7",
      /no generation/,
    ],
    ["an invalid token", "UPDATE $schema.leases SET token = 0", "I7", /token is 0/],
    ["a wrong count of open calls", "UPDATE $schema.streams SET open_calls = 5", "I7", /5 calls are open/],
    ["a key without a stream", "UPDATE $schema.keys SET stream = 'session/x'", "I2", /holds it/],
    ["a changed artifact", "UPDATE $schema.artifacts SET bytes = '\\x00'", "I2", /hash/],
    ["a lost artifact", "DELETE FROM $schema.artifacts", "I2", /refers to/],
    ["an item that points at no event", "UPDATE $schema.items SET seq = 99", "I2", /not there/],
    ["an item before the first event", "UPDATE $schema.items SET seq = 0", "I2", /not there/],
    ["a row with an unknown state", "UPDATE $schema.streams SET state = 'odd'", "I7", /contradicts/],
    ["a base beyond the head", "UPDATE $schema.streams SET base = 9", "I7", /contradicts/],
    [
      "a parent without a generation",
      "UPDATE $schema.streams SET parent_generation = NULL",
      "I7",
      /contradicts/,
    ],
    ["a negative number of open calls", "UPDATE $schema.streams SET open_calls = -1", "I7", /contradicts/],
  ];

  test.each(damages)("%s", async (_, sql, invariant, found) => {
    await schema.query(sql);
    const problems = await store.check();
    expect(problems.some((each) => each.invariant === invariant && found.test(each.what))).toBe(true);
  });
});
