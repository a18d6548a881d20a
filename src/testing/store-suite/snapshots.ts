/** Snapshots: cached folds of a stream. */

import assert from "node:assert/strict";
import type { Payload, ReadRequest } from "../../store.ts";
import { bytesOf, type Cases, fork, headAt, numbered, outcomeIs, SPACE, type TestStore } from "./harness.ts";

const FOLD = "session@1";

async function put(
  store: TestStore,
  seq: number,
  payload: Payload,
  { fold = FOLD, generation = 1, stream = "session/a", codec = null as string | null } = {},
): Promise<void> {
  await store.port.put({ of: "snapshot", namespace: SPACE, stream, generation, seq, fold, payload, codec });
}

const get = (store: TestStore, upTo: number, { fold = FOLD, stream = "session/a" } = {}) =>
  store.port.get({ of: "snapshot", namespace: SPACE, stream, fold, upTo });

/** Reads a snapshot and the writes after it in one request. */
async function readWithFold(store: TestStore, range: Partial<ReadRequest> = {}) {
  const { stream, snapshot, writes } = await store.page("session/a", { fold: FOLD, ...range });
  return { stream, snapshot, bounds: writes.map(({ first, last }) => `${first}-${last}`).join(" ") };
}

const listed = async (store: TestStore, stream = "session/a") =>
  (await store.port.list({ of: "snapshots", namespace: SPACE, stream })).rows;

/** Writes ten events to `session/a`. */
const tenEvents = (store: TestStore, generation = 1) =>
  store.write("session/a", 0, { generation, events: numbered(0, 10) });

/** `session/a` has a snapshot, and is hidden because the fork `session/b` shares its past. */
async function hiddenAfterTenEvents(store: TestStore): Promise<void> {
  await tenEvents(store);
  await put(store, 3, "earlier");
  await store.accept(fork("session/b", "session/a", 2));
  outcomeIs(await store.remove("session/a"), "hidden");
}

export const snapshotCases: Cases = {
  "`get` returns null if there is no snapshot": async ({ store }) => {
    assert.equal(await get(store, 100), null);
    await tenEvents(store);
    assert.equal(await get(store, 100), null);
    assert.deepEqual(await listed(store), []);
  },

  "`get` returns the latest snapshot at or before `upTo`": async ({ store }) => {
    await tenEvents(store);
    for (const seq of [6, 2, 9]) await put(store, seq, `at ${seq}`);
    const found = async (upTo: number) => (await get(store, upTo))?.payload ?? null;
    const payloads = await Promise.all([1, 2, 5, 6, 8, 100].map(found));
    assert.deepEqual(payloads, [null, "at 2", "at 2", "at 6", "at 6", "at 9"]);
    assert.equal((await get(store, 8))?.seq, 6);
  },

  "a snapshot by another fold is not returned": async ({ store }) => {
    await tenEvents(store);
    await put(store, 5, "old fold", { fold: "session@1" });
    await put(store, 3, "new fold", { fold: "session@2" });
    assert.equal((await get(store, 10, { fold: "session@2" }))?.payload, "new fold");
    assert.equal((await get(store, 10, { fold: "session@1" }))?.payload, "old fold");
    assert.equal(await get(store, 10, { fold: "session@3" }), null);
  },

  "a snapshot comes back as text or bytes, with its codec": async ({ store, reopen }) => {
    await tenEvents(store);
    await put(store, 1, '{"text":"ä"}');
    await put(store, 2, new Uint8Array([0, 255, 10]), { codec: "sealed" });
    const reopened = await reopen();
    const text = { payload: '{"text":"ä"}', codec: null, seq: 1, generation: 1 };
    assert.deepEqual(await get(reopened, 1), text);
    const bytes = await get(reopened, 2);
    assert.deepEqual([...bytesOf(bytes?.payload)], [0, 255, 10]);
    assert.equal(bytes?.codec, "sealed");
  },

  "a snapshot at the same seq by the same fold replaces the first": async ({ store }) => {
    await tenEvents(store);
    await put(store, 5, "first");
    await put(store, 5, "second");
    assert.equal((await get(store, 5))?.payload, "second");
    assert.equal((await listed(store)).length, 1);
  },

  "a snapshot of another generation is ignored": async ({ store }) => {
    await tenEvents(store);
    await put(store, 5, "of the future", { generation: 2 });
    assert.equal(await get(store, 10), null);
    await store.remove("session/a");
    await tenEvents(store, 2);
    await put(store, 5, "of the past", { generation: 1 });
    assert.equal(await get(store, 10), null);
    await put(store, 5, "of now", { generation: 2 });
    const now = await get(store, 10);
    assert.deepEqual([now?.payload, now?.generation], ["of now", 2]);
  },

  "a new generation does not see snapshots of the old one": async ({ store }) => {
    await tenEvents(store);
    await put(store, 5, "earlier");
    await store.remove("session/a");
    assert.equal(await get(store, 10), null);
    await tenEvents(store, 2);
    assert.equal(await get(store, 10), null);
    assert.deepEqual(await listed(store), []);
  },

  "a snapshot put on a hidden stream is ignored": async ({ store, reopen }) => {
    await hiddenAfterTenEvents(store);
    await put(store, 10, "late");
    assert.equal(await get(store, 10), null);
    assert.equal((await readWithFold(store)).snapshot, null);
    assert.deepEqual(await listed(store), []);
    assert.equal(await get(await reopen(), 10), null);
  },

  "a new generation after a hidden one does not see its snapshots": async ({ store, another, reopen }) => {
    await hiddenAfterTenEvents(store);
    await put(store, 5, "late");
    await store.remove("session/b");
    assert.deepEqual(await listed(store), []);
    await tenEvents(store, 2);
    for (const each of [await another(), await reopen()]) {
      assert.equal(await get(each, 10), null);
      assert.equal((await readWithFold(each)).snapshot, null);
      assert.deepEqual(await listed(each), []);
    }
  },

  "a read with `fold` returns the latest snapshot and the writes after it": async ({ store }) => {
    for (const seq of [0, 2, 4, 6, 8]) await store.write("session/a", seq, { events: numbered(seq, 2) });
    for (const seq of [3, 8]) await put(store, seq, `at ${seq}`, { codec: "sealed" });
    const whole = await readWithFold(store);
    assert.deepEqual(whole.snapshot, { payload: "at 8", codec: "sealed", seq: 8, generation: 1 });
    assert.equal(whole.bounds, "9-10");
    assert.deepEqual(whole.stream.head, headAt(10));
    const early = await readWithFold(store, { upTo: 7 });
    assert.deepEqual([early.snapshot?.payload, early.bounds], ["at 3", "3-4 5-6 7-8"]);
    assert.equal((await readWithFold(store, { upTo: 8 })).bounds, "");
    assert.equal((await readWithFold(store, { after: 9 })).bounds, "9-10");
  },

  "a read with `fold` returns all writes if there is no snapshot": async ({ store }) => {
    assert.equal((await readWithFold(store)).snapshot, null);
    await tenEvents(store);
    await put(store, 5, "at 5");
    for (const range of [{ upTo: 4 }, { fold: "session@2" }]) {
      const { snapshot, bounds } = await readWithFold(store, range);
      assert.deepEqual([snapshot, bounds], [null, "1-10"]);
    }
    const unasked = await store.page("session/a");
    assert.deepEqual([unasked.snapshot, unasked.writes.length], [null, 1]);
  },

  "a read with `fold` ignores snapshots of an older generation": async ({ store }) => {
    await tenEvents(store);
    await put(store, 5, "earlier");
    await store.remove("session/a");
    assert.equal((await readWithFold(store)).snapshot, null);
    await tenEvents(store, 2);
    assert.equal((await readWithFold(store)).snapshot, null);
    await put(store, 5, "now", { generation: 2 });
    const { snapshot } = await readWithFold(store);
    assert.deepEqual(snapshot, { payload: "now", codec: null, seq: 5, generation: 2 });
  },

  "snapshots are listed with their sizes": async ({ store }) => {
    await tenEvents(store);
    await put(store, 7, "abc");
    await put(store, 2, new Uint8Array(5));
    const rows = [...(await listed(store))].sort((a, b) => a.seq - b.seq);
    assert.deepEqual(rows, [
      { seq: 2, fold: FOLD, bytes: 5 },
      { seq: 7, fold: FOLD, bytes: 3 },
    ]);
  },

  "removing a stream's snapshots leaves its events and other snapshots": async ({ store }) => {
    await tenEvents(store);
    await store.write("session/b", 0);
    await put(store, 2, "a");
    await put(store, 3, "a");
    await put(store, 1, "b", { stream: "session/b" });
    const outcome = await store.port.remove({ of: "snapshots", namespace: SPACE, stream: "session/a" });
    assert.deepEqual(outcome, { outcome: "removed", count: 2 });
    assert.equal(await get(store, 10), null);
    assert.equal((await get(store, 10, { stream: "session/b" }))?.payload, "b");
    assert.equal((await store.events("session/a")).length, 10);
  },
};
