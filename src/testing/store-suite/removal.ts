/** Removal: tombstones, generations, hidden parents. */

import assert from "node:assert/strict";
import type { Store } from "../../store.ts";
import { fork } from "./forks.ts";
import {
  accept,
  type Cases,
  grant,
  headOf,
  holdersOf,
  itemIds,
  numbered,
  outcomeIs,
  readAll,
  refuse,
  release,
  removeStream,
  rowOf,
  SPACE,
  streamNames,
  valuesOf,
  write,
} from "./harness.ts";

const stateOf = async (store: Store, stream: string) => (await rowOf(store, stream)).state;

export const removalCases: Cases = {
  "a removed stream is gone from reads and lists": async ({ store, another, reopen }) => {
    const items = [{ kind: "call", id: "c1", seq: 1, at: 1 }];
    await accept(store, write("session/a", 0, { items, facets: { status: "s" } }));
    assert.equal(outcomeIs(await removeStream(store, "session/a"), "removed").count, 1);
    for (const each of [await another(), await reopen()]) {
      assert.equal(await stateOf(each, "session/a"), "gone");
      assert.deepEqual(await readAll(each, "session/a"), []);
      assert.deepEqual(await streamNames(each), []);
      assert.deepEqual(await streamNames(each, { hidden: true }), []);
      assert.deepEqual(await itemIds(each, { kind: "call" }), []);
      assert.deepEqual(await itemIds(each, { kind: "call", stream: "session/a" }), []);
    }
  },

  "a removed stream starts again at seq 1 of the next generation": async ({ store, reopen }) => {
    await accept(store, write("session/a", 0, { events: ["old", "old"], facets: { title: "old" } }));
    await removeStream(store, "session/a");
    assert.deepEqual(await headOf(store, "session/a"), { generation: 2, seq: 0 });
    const reopened = await reopen();
    await accept(reopened, write("session/a", 0, { generation: 2, events: ["new"] }));
    assert.deepEqual(await valuesOf(reopened, "session/a"), ["new"]);
    assert.equal((await rowOf(reopened, "session/a")).facets.title, null);
    await removeStream(reopened, "session/a");
    assert.deepEqual(await headOf(reopened, "session/a"), { generation: 3, seq: 0 });
  },

  "a writer of the old generation cannot write to the next": async ({ store }) => {
    await accept(store, write("session/a", 0));
    await removeStream(store, "session/a");
    const gone = await refuse(store, "conflict", write("session/a", 1));
    assert.deepEqual(gone.head, { generation: 2, seq: 0 });
    await refuse(store, "conflict", write("session/a", 0));
    await accept(store, write("session/a", 0, { generation: 2 }));
    const again = await refuse(store, "conflict", write("session/a", 1));
    assert.deepEqual(again.head, { generation: 2, seq: 1 });
  },

  "a removal with an old head is a conflict": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    for (const expect of [
      { generation: 1, seq: 1 },
      { generation: 1, seq: 3 },
      { generation: 2, seq: 2 },
    ]) {
      const outcome = await store.remove({ of: "stream", namespace: SPACE, stream: "session/a", expect });
      assert.deepEqual(outcomeIs(outcome, "conflict").head, { generation: 1, seq: 2 });
    }
    assert.equal((await valuesOf(store, "session/a")).length, 2);
  },

  "a removal with a lost lease is fenced": async ({ store }) => {
    await accept(store, write("session/a", 0));
    const { token } = await grant(store, "session/a", "one");
    const heir = await grant(store, "session/a", "two", { evict: token });
    const removal = {
      of: "stream",
      namespace: SPACE,
      stream: "session/a",
      expect: { generation: 1, seq: 1 },
    } as const;
    const outcome = await store.remove({ ...removal, guards: [{ lease: "session/a", token }] });
    const { lease, now } = outcomeIs(outcome, "fenced");
    assert.deepEqual([lease, now?.holder?.owner], ["session/a", "two"]);
    assert.equal(await stateOf(store, "session/a"), "live");
    const guards = [{ lease: "session/a", token: heir.token }];
    outcomeIs(await store.remove({ ...removal, guards }), "removed");
  },

  "a removal keeps the lease's token, so that old writers stay fenced": async ({ store }) => {
    await accept(store, write("session/a", 0));
    const old = await grant(store, "session/a", "one");
    await removeStream(store, "session/a");
    await release(store, "session/a", old.token);
    const next = await grant(store, "session/a", "two");
    assert.ok(next.token > old.token, `token ${next.token} follows ${old.token}`);
    const guards = [{ lease: "session/a", token: old.token }];
    await refuse(store, "fenced", write("session/a", 0, { generation: 2, guards }));
  },

  "removing a stream that does not exist has no effect": async ({ store }) => {
    outcomeIs(await removeStream(store, "session/never"), "removed");
    assert.deepEqual(await headOf(store, "session/never"), { generation: 1, seq: 0 });
    await accept(store, write("session/a", 0));
    await removeStream(store, "session/a");
    const expect = { generation: 1, seq: 1 };
    const again = await store.remove({ of: "stream", namespace: SPACE, stream: "session/a", expect });
    assert.deepEqual(outcomeIs(again, "conflict").head, { generation: 2, seq: 0 });
    outcomeIs(await removeStream(store, "session/a"), "removed");
    assert.deepEqual(await headOf(store, "session/a"), { generation: 2, seq: 0 });
  },

  "a removal with `erase` removes the stream": async ({ store }) => {
    await accept(store, write("session/a", 0));
    const expect = { generation: 1, seq: 1 };
    const outcome = await store.remove({
      of: "stream",
      namespace: SPACE,
      stream: "session/a",
      expect,
      erase: true,
    });
    outcomeIs(outcome, "removed");
    assert.equal(await stateOf(store, "session/a"), "gone");
    assert.deepEqual(await readAll(store, "session/a"), []);
    await accept(store, write("session/a", 0, { generation: 2 }));
  },

  "a removed parent of forks is hidden and stays readable": async ({ store, another, reopen }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 3) }));
    await accept(store, fork("session/b", "session/a", 2));
    outcomeIs(await removeStream(store, "session/a"), "hidden");
    for (const each of [await another(), await reopen()]) {
      const row = await rowOf(each, "session/a");
      assert.equal(row.state, "hidden");
      assert.deepEqual(row.head, { generation: 1, seq: 3 });
      assert.deepEqual(await valuesOf(each, "session/a"), numbered(0, 3));
      assert.deepEqual(await streamNames(each), ["session/b"]);
      assert.deepEqual((await streamNames(each, { hidden: true })).sort(), ["session/a", "session/b"]);
    }
  },

  "a hidden stream cannot be written or created again": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 3) }));
    await accept(store, fork("session/b", "session/a", 2));
    await removeStream(store, "session/a");
    const { head } = await refuse(store, "conflict", write("session/a", 3));
    assert.deepEqual(head, { generation: 1, seq: 3 });
    await refuse(store, "conflict", write("session/a", 0, { generation: 2 }));
    assert.deepEqual(await valuesOf(store, "session/a"), numbered(0, 3));
  },

  "a hidden stream loses its items and keeps its keys": async ({ store }) => {
    const claims = [{ key: "k", event: 0 }];
    await accept(
      store,
      write("session/a", 0, { claims, items: [{ kind: "call", id: "c1", seq: 1, at: 1 }] }),
    );
    await accept(store, fork("session/b", "session/a", 1));
    await removeStream(store, "session/a");
    assert.deepEqual(await itemIds(store, { kind: "call", open: true }), []);
    assert.deepEqual((await holdersOf(store, ["k"])).get("k"), ["session/a", 1]);
  },

  "a hidden parent is removed with its last fork": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 3) }));
    await accept(store, fork("session/b", "session/a", 2));
    await accept(store, fork("session/c", "session/a", 3));
    outcomeIs(await removeStream(store, "session/a"), "hidden");
    outcomeIs(await removeStream(store, "session/b"), "removed");
    assert.equal(await stateOf(store, "session/a"), "hidden");
    outcomeIs(await removeStream(store, "session/c"), "removed");
    assert.equal(await stateOf(store, "session/a"), "gone");
    assert.deepEqual(await headOf(store, "session/a"), { generation: 2, seq: 0 });
    await accept(store, write("session/a", 0, { generation: 2 }));
  },

  "a chain of hidden parents is removed with its last fork": async ({ store }) => {
    await accept(store, write("session/a", 0));
    await accept(store, fork("session/b", "session/a", 1));
    await accept(store, fork("session/c", "session/b", 2));
    outcomeIs(await removeStream(store, "session/a"), "hidden");
    outcomeIs(await removeStream(store, "session/b"), "hidden");
    assert.equal(await stateOf(store, "session/a"), "hidden");
    outcomeIs(await removeStream(store, "session/c"), "removed");
    for (const name of ["session/a", "session/b", "session/c"]) {
      assert.equal(await stateOf(store, name), "gone");
      assert.deepEqual(await headOf(store, name), { generation: 2, seq: 0 });
    }
  },

  "a live parent stays when its last fork is removed": async ({ store }) => {
    await accept(store, write("session/a", 0));
    await accept(store, fork("session/b", "session/a", 1));
    outcomeIs(await removeStream(store, "session/b"), "removed");
    assert.equal(await stateOf(store, "session/a"), "live");
    outcomeIs(await removeStream(store, "session/a"), "removed");
  },

  "removing a hidden stream again leaves it hidden": async ({ store }) => {
    await accept(store, write("session/a", 0));
    await accept(store, fork("session/b", "session/a", 1));
    outcomeIs(await removeStream(store, "session/a"), "hidden");
    outcomeIs(await removeStream(store, "session/a"), "hidden");
    assert.equal(await stateOf(store, "session/a"), "hidden");
  },

  "a hidden stream can still be forked": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    await accept(store, fork("session/b", "session/a", 1));
    await removeStream(store, "session/a");
    await accept(store, fork("session/c", "session/a", 2));
    await removeStream(store, "session/b");
    assert.equal(await stateOf(store, "session/a"), "hidden");
    await removeStream(store, "session/c");
    assert.equal(await stateOf(store, "session/a"), "gone");
  },
};
