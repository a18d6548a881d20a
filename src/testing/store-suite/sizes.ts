import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import {
  accept,
  batchOf,
  bytesOf,
  hasArtifact,
  headOf,
  listAll,
  numbered,
  putArtifact,
  readAll,
  SPACE,
  streamNames,
  valuesOf,
  write,
} from "./acts.ts";
import type { Cases } from "./trial.ts";

const MEBIBYTE = 2 ** 20;
/** More than 16 MiB, where databases and their wires often have a limit. */
const HUGE = 17 * MEBIBYTE;

export const sizeCases: Cases = {
  "a text of 17 MB comes back unchanged": async ({ store }) => {
    const text = `["${"0123456789abcdéf".repeat(HUGE / 16)}"]`;
    await accept(store, write("session/a", 0, { payload: text }));
    await accept(store, write("session/a", 1));
    const [row] = await readAll(store, "session/a", { upTo: 1 });
    assert.ok(row?.payload === text, "the text has changed");
  },

  "17 MB of bytes come back unchanged": async ({ store }) => {
    const payload = randomBytes(HUGE);
    await accept(store, write("session/a", 0, { payload, codec: "raw", sum: crc32(payload) }));
    const [row] = await readAll(store, "session/a");
    assert.ok(payload.equals(bytesOf(row?.payload)), "the bytes have changed");
  },

  "an artifact of 8 MB comes back unchanged": async ({ store }) => {
    const bytes = new Uint8Array(randomBytes(8 * MEBIBYTE));
    const hash = await putArtifact(store, bytes);
    const found = await store.get({ of: "artifact", namespace: SPACE, hash });
    assert.ok(Buffer.from(bytes).equals(bytesOf(found?.payload)), "the bytes have changed");
    assert.equal(await hasArtifact(store, hash), true);
  },

  "a write of 1,000 events is one row and all of them are there": async ({ store }) => {
    const claims = numbered(0, 1_000).map((key, event) => ({ key, event }));
    const items = numbered(0, 1_000).map((id, index) => ({ kind: "call", id, seq: index + 1, at: index }));
    await accept(store, write("session/a", 0, { events: numbered(0, 1_000), claims, items }));
    assert.equal((await readAll(store, "session/a")).length, 1);
    assert.deepEqual(await valuesOf(store, "session/a"), numbered(0, 1_000));
    assert.equal((await listAll(store, { of: "items", kind: "call", stream: "session/a" })).length, 1_000);
  },

  "a stream of 1,000 writes is read in order": async ({ store }) => {
    for (let seq = 0; seq < 1_000; seq += 50) {
      const batches = Array.from({ length: 50 }, (_, index) => batchOf(write("session/a", seq + index)));
      for (const batch of batches) assert.equal((await store.append(batch)).outcome, "ok");
    }
    assert.deepEqual(
      (await readAll(store, "session/a", { limit: 300 })).map(({ first }) => first),
      Array.from({ length: 1_000 }, (_, index) => index + 1),
    );
  },

  "2,000 streams are written at once, and listed": async ({ store }) => {
    const names = Array.from({ length: 2_000 }, (_, index) => `session/s${index}`);
    const outcomes = await Promise.all(names.map((name) => store.append(batchOf(write(name, 0)))));
    assert.ok(outcomes.every(({ outcome }) => outcome === "ok"));
    assert.deepEqual((await streamNames(store, { limit: 300 })).sort(), [...names].sort());
    assert.deepEqual(await headOf(store, "session/s1999"), { generation: 1, seq: 1 });
  },
};
