/** Removal: tombstones, generations, hidden parents. */

import assert from "node:assert/strict";
import { ERASED } from "../../model/names.ts";
import type { Cases, TestStore } from "./harness.ts";
import { claiming, fork, guardedBy, headAt, numbered, outcomeIs, SPACE, write } from "./harness.ts";

const stateOf = async (store: TestStore, stream: string) => (await store.row(stream)).state;

export const removalCases: Cases = {
  "a removed stream is gone from reads and lists": async ({ store, another, reopen }) => {
    const items = [{ kind: "call", id: "c1", seq: 1, at: 1 }];
    await store.write("session/a", 0, { items, facets: { status: "s" } });
    assert.equal(outcomeIs(await store.remove("session/a"), "removed").count, 1);
    for (const each of [await another(), await reopen()]) {
      assert.equal(await stateOf(each, "session/a"), "gone");
      assert.deepEqual(await each.writes("session/a"), []);
      assert.deepEqual(await each.streams(), []);
      assert.deepEqual(await each.streams({ hidden: true }), []);
      assert.deepEqual(await each.items({ kind: "call" }), []);
      assert.deepEqual(await each.items({ kind: "call", stream: "session/a" }), []);
    }
  },

  "a removed stream starts again at seq 1 of the next generation": async ({ store, reopen }) => {
    await store.write("session/a", 0, { events: ["old", "old"], facets: { title: "old" } });
    await store.remove("session/a");
    assert.deepEqual(await store.head("session/a"), headAt(0, 2));
    const reopened = await reopen();
    await reopened.write("session/a", 0, { generation: 2, events: ["new"] });
    assert.deepEqual(await reopened.values("session/a"), ["new"]);
    assert.equal((await reopened.row("session/a")).facets.title, null);
    await reopened.remove("session/a");
    assert.deepEqual(await reopened.head("session/a"), headAt(0, 3));
  },

  "a writer of the old generation cannot write to the next": async ({ store }) => {
    await store.write("session/a", 0);
    await store.remove("session/a");
    await store.refuse("conflict", write("session/a", 1), { head: headAt(0, 2) });
    await store.refuse("conflict", write("session/a", 0));
    await store.write("session/a", 0, { generation: 2 });
    await store.refuse("conflict", write("session/a", 1), { head: headAt(1, 2) });
  },

  "a removal with an old head is a conflict": async ({ store }) => {
    await store.write("session/a", 0, { events: numbered(0, 2) });
    for (const expect of [headAt(1), headAt(3), headAt(2, 2)]) {
      const { head } = outcomeIs(await store.remove("session/a", { expect }), "conflict");
      assert.deepEqual(head, headAt(2));
    }
    assert.equal((await store.values("session/a")).length, 2);
  },

  "a removal with a lost lease is fenced": async ({ store }) => {
    await store.write("session/a", 0);
    const { token } = await store.grant("session/a", "one");
    const heir = await store.grant("session/a", "two", { evict: token });
    const { lease, now } = outcomeIs(await store.remove("session/a", guardedBy(token)), "fenced");
    assert.deepEqual([lease, now?.holder?.owner], ["session/a", "two"]);
    assert.equal(await stateOf(store, "session/a"), "live");
    outcomeIs(await store.remove("session/a", guardedBy(heir.token)), "removed");
  },

  "a removal keeps the lease's token, so that old writers stay fenced": async ({ store }) => {
    await store.write("session/a", 0);
    const old = await store.grant("session/a", "one");
    await store.remove("session/a");
    await store.release("session/a", old.token);
    const next = await store.grant("session/a", "two");
    assert.ok(next.token > old.token, `token ${next.token} follows ${old.token}`);
    await store.refuse("fenced", write("session/a", 0, { generation: 2, ...guardedBy(old.token) }));
  },

  "removing a stream that does not exist has no effect": async ({ store }) => {
    outcomeIs(await store.remove("session/never"), "removed");
    assert.deepEqual(await store.head("session/never"), headAt(0));
    await store.write("session/a", 0);
    await store.remove("session/a");
    const again = await store.remove("session/a", { expect: headAt(1) });
    assert.deepEqual(outcomeIs(again, "conflict").head, headAt(0, 2));
    outcomeIs(await store.remove("session/a"), "removed");
    assert.deepEqual(await store.head("session/a"), headAt(0, 2));
  },

  "a removal with `erase` removes the stream": async ({ store }) => {
    await store.write("session/a", 0);
    outcomeIs(await store.remove("session/a", { erase: true }), "removed");
    assert.equal(await stateOf(store, "session/a"), "gone");
    assert.deepEqual(await store.writes("session/a"), []);
    await store.write("session/a", 0, { generation: 2 });
  },

  "an erase leaves no name, and unused names begin after it": async ({ store, another, reopen }) => {
    await store.write("session/a", 0, { generation: 4, ...claiming("k") });
    const lease = await store.grant("session/a", "one");
    const below = await store.grant("session/a/T-1", "one");
    const again = await store.grant("session/a/T-1", "two", { evict: below.token });
    const beside = await store.grant("session/a-b", "one");
    outcomeIs(await store.remove("session/a", { erase: true, ...guardedBy(lease.token) }), "removed");
    for (const each of [await another(), await reopen()]) {
      const { rows } = await each.port.list<"leases">({ of: "leases", namespace: SPACE, limit: 9 });
      assert.deepEqual(rows.map(({ name }) => name).sort(), [ERASED, "session/a-b"].sort());
      assert.deepEqual((await each.holders(["k"])).get("k"), [ERASED, 1]);
      for (const name of ["session/a", "session/new"])
        await each.rowIs(name, { state: "gone", head: headAt(0, 5) });
      assert.deepEqual(await each.streams({ hidden: true }), []);
      assert.deepEqual(await each.port.check(), []);
    }
    const reopened = await reopen();
    assert.equal(await reopened.release("session/a", lease.token), false);
    const next = await reopened.grant("session/a", "three");
    assert.equal(next.token, Math.max(lease.token, again.token) + 1);
    await reopened.refuse("fenced", write("session/a", 0, { generation: 5, ...guardedBy(lease.token) }));
    await reopened.refuse("conflict", write("session/a", 1, { generation: 4 }), { head: headAt(0, 5) });
    await reopened.write("session/a", 0, { generation: 5, ...guardedBy(next.token) });
    assert.equal(
      (await reopened.grant("session/a-b", "two", { evict: beside.token })).token,
      beside.token + 1,
    );
  },

  "an erase of a removed stream forgets its tombstone and its lease": async ({ store, reopen }) => {
    await store.write("session/a", 0, claiming("k"));
    await store.grant("session/a", "one");
    await store.remove("session/a");
    outcomeIs(await store.remove("session/a", { erase: true }), "removed");
    const reopened = await reopen();
    assert.deepEqual(await reopened.head("session/never"), headAt(0, 2));
    assert.deepEqual((await reopened.holders(["k"])).get("k"), [ERASED, 1]);
    await reopened.refuse("taken", write("session/b", 0, { generation: 2, ...claiming("k") }));
    outcomeIs(await reopened.remove("session/never", { erase: true }), "removed");
    assert.deepEqual(await reopened.head("session/never"), headAt(0, 2));
  },

  "a removed parent of forks is hidden and stays readable": async ({ store, another, reopen }) => {
    await store.family(3, { "session/b": 2 });
    outcomeIs(await store.remove("session/a"), "hidden");
    for (const each of [await another(), await reopen()]) {
      await each.rowIs("session/a", { state: "hidden", head: headAt(3) });
      assert.deepEqual(await each.values("session/a"), numbered(0, 3));
      assert.deepEqual(await each.streams(), ["session/b"]);
      assert.deepEqual((await each.streams({ hidden: true })).sort(), ["session/a", "session/b"]);
    }
  },

  "a hidden stream cannot be written or created again": async ({ store }) => {
    await store.family(3, { "session/b": 2 });
    await store.remove("session/a");
    await store.refuse("conflict", write("session/a", 3), { head: headAt(3) });
    await store.refuse("conflict", write("session/a", 0, { generation: 2 }));
    assert.deepEqual(await store.values("session/a"), numbered(0, 3));
  },

  "a hidden stream loses its items and keeps its keys": async ({ store }) => {
    const items = [{ kind: "call", id: "c1", seq: 1, at: 1 }];
    await store.write("session/a", 0, { ...claiming("k"), items });
    await store.accept(fork("session/b", "session/a", 1));
    await store.remove("session/a");
    assert.deepEqual(await store.items({ kind: "call", open: true }), []);
    assert.deepEqual((await store.holders(["k"])).get("k"), ["session/a", 1]);
  },

  "a hidden parent is removed with its last fork": async ({ store }) => {
    await store.family(3, { "session/b": 2, "session/c": 3 });
    await store.removeEach({ "session/a": "hidden", "session/b": "removed" });
    assert.equal(await stateOf(store, "session/a"), "hidden");
    outcomeIs(await store.remove("session/c"), "removed");
    await store.rowIs("session/a", { state: "gone", head: headAt(0, 2) });
    await store.write("session/a", 0, { generation: 2 });
  },

  "a chain of hidden parents is removed with its last fork": async ({ store }) => {
    await store.family(1, { "session/b": 1 });
    await store.accept(fork("session/c", "session/b", 2));
    await store.removeEach({ "session/a": "hidden", "session/b": "hidden" });
    assert.equal(await stateOf(store, "session/a"), "hidden");
    outcomeIs(await store.remove("session/c"), "removed");
    for (const name of ["session/a", "session/b", "session/c"]) {
      await store.rowIs(name, { state: "gone", head: headAt(0, 2) });
    }
  },

  "a live parent stays when its last fork is removed": async ({ store }) => {
    await store.family(1, { "session/b": 1 });
    outcomeIs(await store.remove("session/b"), "removed");
    assert.equal(await stateOf(store, "session/a"), "live");
    outcomeIs(await store.remove("session/a"), "removed");
  },

  "removing a hidden stream again leaves it hidden": async ({ store }) => {
    await store.family(1, { "session/b": 1 });
    outcomeIs(await store.remove("session/a"), "hidden");
    outcomeIs(await store.remove("session/a"), "hidden");
    assert.equal(await stateOf(store, "session/a"), "hidden");
  },

  "a hidden stream can still be forked": async ({ store }) => {
    await store.family(2, { "session/b": 1 });
    await store.remove("session/a");
    await store.accept(fork("session/c", "session/a", 2));
    await store.remove("session/b");
    assert.equal(await stateOf(store, "session/a"), "hidden");
    await store.remove("session/c");
    assert.equal(await stateOf(store, "session/a"), "gone");
  },
};
