/** Forks: streams that share the past of another. */

import assert from "node:assert/strict";
import type { Head } from "../../store.ts";
import { type Cases, fork, headAt, kindsOf, numbered, type TestStore } from "./harness.ts";

/** All events of a stream as a reader sees them: its shared past, then its own. */
async function historyOf(
  store: TestStore,
  stream: string,
  upTo = Number.MAX_SAFE_INTEGER,
): Promise<unknown[]> {
  const { base, parent } = await store.row(stream);
  const past = parent ? await historyOf(store, parent.stream, Math.min(base, upTo)) : [];
  const own = await store.events(stream, { after: base, upTo });
  return [...past, ...own.filter(([seq]) => seq <= upTo).map(([, value]) => value)];
}

export const forkCases: Cases = {
  "a fork's own events begin after its shared past": async ({ store }) => {
    await store.write("session/a", 0, { events: numbered(0, 3) });
    const heads = await store.accept(fork("session/b", "session/a", 3, { events: ["own"] }));
    assert.deepEqual(heads, [headAt(4)]);
    const parent = { stream: "session/a", generation: 1 };
    await store.rowIs("session/b", { base: 3, parent, head: headAt(4), state: "live" });
    assert.deepEqual(await store.events("session/b", { after: 3 }), [[4, "own"]]);
    assert.deepEqual(await historyOf(store, "session/b"), [...numbered(0, 3), "own"]);
  },

  "after a fork, neither stream sees the other's new events": async ({ store }) => {
    await store.write("session/a", 0, { events: numbered(0, 2) });
    await store.accept(fork("session/b", "session/a", 2, { events: ["b3"] }));
    await store.write("session/a", 2, { events: ["a3", "a4"] });
    await store.write("session/b", 3, { events: ["b4"] });
    assert.deepEqual(await historyOf(store, "session/b"), [...numbered(0, 2), "b3", "b4"]);
    assert.deepEqual(await historyOf(store, "session/a"), [...numbered(0, 2), "a3", "a4"]);
    assert.deepEqual(await store.head("session/a"), headAt(4));
  },

  "a fork can begin in the middle of its parent's write": async ({ store }) => {
    await store.write("session/a", 0, { events: numbered(0, 5) });
    await store.accept(fork("session/b", "session/a", 3, { events: ["b4"] }));
    assert.deepEqual(await historyOf(store, "session/b"), [...numbered(0, 3), "b4"]);
    assert.deepEqual(await store.values("session/a"), numbered(0, 5));
  },

  "a fork of a fork shares the past of both": async ({ store }) => {
    await store.write("session/a", 0, { events: numbered(0, 4) });
    await store.accept(fork("session/b", "session/a", 2, { events: ["b3", "b4", "b5"] }));
    await store.accept(fork("session/c", "session/b", 4, { events: ["c5"] }));
    await store.accept(fork("session/d", "session/b", 1, { events: ["d2"] }));
    assert.deepEqual(await historyOf(store, "session/c"), [...numbered(0, 2), "b3", "b4", "c5"]);
    assert.deepEqual(await historyOf(store, "session/d"), [...numbered(0, 1), "d2"]);
  },

  "a fork at a seq beyond its parent's head is a conflict on the parent": async ({ store }) => {
    await store.write("session/a", 0, { events: numbered(0, 2) });
    const conflict = { stream: "session/a", head: headAt(2) };
    await store.refuse("conflict", fork("session/b", "session/a", 3), conflict);
    assert.equal((await store.row("session/b")).state, "gone");
  },

  "a fork of a parent that is gone, or of an older generation, is a conflict on the parent": async ({
    store,
  }) => {
    const refused = async (head: Head) =>
      store.refuse("conflict", fork("session/b", "session/a", 1), { stream: "session/a", head });
    await refused(headAt(0));
    await store.write("session/a", 0, { events: numbered(0, 2) });
    await store.remove("session/a");
    await refused(headAt(0, 2));
    await store.write("session/a", 0, { generation: 2, events: numbered(0, 2) });
    await refused(headAt(2, 2));
    await store.write("session/b", 1, { fork: { stream: "session/a", generation: 2, seq: 1 } });
  },

  "a fork to the name of a live stream is a conflict on that stream": async ({ store }) => {
    await store.write("session/a", 0, { events: numbered(0, 2) });
    await store.write("session/b", 0, { events: numbered(0, 2) });
    const conflict = { stream: "session/b", head: headAt(2) };
    await store.refuse("conflict", fork("session/b", "session/a", 2), conflict);
  },

  "if two handles fork to one name, exactly one succeeds": async ({ store, another }) => {
    await store.write("session/a", 0, { events: numbered(0, 2) });
    const other = await another();
    const sent = [store, other].map((each, index) => each.send(fork("session/b", "session/a", index + 1)));
    assert.deepEqual(await kindsOf(sent), ["conflict", "ok"]);
  },

  "forks are listed by their parent": async ({ store }) => {
    await store.family(2, { "session/b": 1, "session/c": 2 });
    await store.accept(fork("session/d", "session/b", 2));
    assert.deepEqual((await store.streams({ parent: "session/a" })).sort(), ["session/b", "session/c"]);
    assert.deepEqual(await store.streams({ parent: "session/b" }), ["session/d"]);
    assert.deepEqual(await store.streams({ parent: "session/d" }), []);
  },

  "a fork inherits neither facets nor items": async ({ store }) => {
    const facets = { status: "running", title: "T", openCalls: 2 };
    const items = [{ kind: "call", id: "c1", seq: 1, at: 1 }];
    await store.write("session/a", 0, { facets, items });
    await store.accept(fork("session/b", "session/a", 1));
    const row = await store.row("session/b");
    assert.deepEqual([row.facets.status, row.facets.title, row.facets.openCalls], [null, null, 0]);
    const [item, ...others] = await store.list<"items">({ of: "items", kind: "call" });
    assert.deepEqual([item?.stream, others], ["session/a", []]);
  },

  "a fork survives reopening": async ({ store, reopen }) => {
    await store.write("session/a", 0, { events: numbered(0, 3) });
    await store.accept(fork("session/b", "session/a", 2, { events: ["b3"] }));
    const reopened = await reopen();
    assert.deepEqual(await historyOf(reopened, "session/b"), [...numbered(0, 2), "b3"]);
    await reopened.write("session/b", 3);
  },
};
