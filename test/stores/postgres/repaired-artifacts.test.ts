// A damaged artifact is whole again once the correct bytes are put.

import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sha256 } from "../../../src/model/digest.ts";
import type { Store } from "../../../src/store.ts";
import { NAMESPACE } from "../sqlite/acts.ts";
import { TestSchema } from "./schema.ts";

let schema: TestSchema;
let store: Store;

beforeEach(async () => {
  schema = new TestSchema();
  store = await schema.open();
});

afterEach(() => schema.dispose());

const BYTES = randomBytes(300_000);
const HASH = sha256(BYTES);

const put = (at: number) => store.put({ of: "artifact", namespace: NAMESPACE, hash: HASH, bytes: BYTES, at });

async function expectWhole(): Promise<void> {
  const found = await store.get({ of: "artifact", namespace: NAMESPACE, hash: HASH });
  expect(BYTES.equals(found?.payload as Uint8Array)).toBe(true);
  expect(await store.check()).toEqual([]);
}

test.each([
  ["changed", "set_byte(bytes, 7, (get_byte(bytes, 7) + 1) % 256)"],
  ["cut short", "substr(bytes, 1, 1000)"],
])("bytes that were %s are repaired by putting them again", async (_, damage) => {
  await put(1_000);
  await schema.query(`UPDATE $schema.artifacts SET bytes = ${damage}`);
  expect(await store.check()).toMatchObject([{ invariant: "I2" }]);
  // Also by a writer whose clock is behind.
  await put(500);
  await expectWhole();
});

test("correct bytes are not written again", async () => {
  const size = async (): Promise<number> => {
    const [row] = await schema.query<{ size: string }>(
      "SELECT pg_total_relation_size('$schema.artifacts') AS size",
    );
    return Number(row?.size);
  };
  await put(1_000);
  const before = await size();
  for (let at = 2_000; at < 6_000; at += 1_000) await put(at);
  expect((await size()) - before).toBeLessThan(BYTES.length);
  await expectWhole();
});
