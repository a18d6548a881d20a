/** Forks: streams that share the past of another. */

import assert from "node:assert/strict";
import type { Store, Write } from "../../store.ts";
import {
  accept,
  batchOf,
  type Cases,
  eventsOf,
  headOf,
  numbered,
  outcomeIs,
  refuse,
  removeStream,
  rowOf,
  streamNames,
  valuesOf,
  write,
} from "./harness.ts";

/** The first write of `stream`, which shares the past of `parent` up to `seq`. */
export function fork(
  stream: string,
  parent: string,
  seq: number,
  parts: { generation?: number; parentGeneration?: number; events?: readonly unknown[] } = {},
): Write {
  const { parentGeneration = 1, ...rest } = parts;
  return write(stream, seq, { ...rest, fork: { stream: parent, generation: parentGeneration, seq } });
}

/** All events of a stream as a reader sees them: its shared past, then its own. */
async function historyOf(store: Store, stream: string, upTo = Number.MAX_SAFE_INTEGER): Promise<unknown[]> {
  const { base, parent } = await rowOf(store, stream);
  const past = parent ? await historyOf(store, parent.stream, Math.min(base, upTo)) : [];
  const own = await eventsOf(store, stream, { after: base, upTo });
  return [...past, ...own.filter(([seq]) => seq <= upTo).map(([, value]) => value)];
}

export const forkCases: Cases = {
  "a fork's own events begin after its shared past": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 3) }));
    const heads = await accept(store, fork("session/b", "session/a", 3, { events: ["own"] }));
    assert.deepEqual(heads, [{ generation: 1, seq: 4 }]);
    const { base, parent, head, state } = await rowOf(store, "session/b");
    assert.equal(base, 3);
    assert.deepEqual(parent, { stream: "session/a", generation: 1 });
    assert.deepEqual(head, { generation: 1, seq: 4 });
    assert.equal(state, "live");
    assert.deepEqual(await eventsOf(store, "session/b", { after: 3 }), [[4, "own"]]);
    assert.deepEqual(await historyOf(store, "session/b"), [...numbered(0, 3), "own"]);
  },

  "after a fork, neither stream sees the other's new events": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    await accept(store, fork("session/b", "session/a", 2, { events: ["b3"] }));
    await accept(store, write("session/a", 2, { events: ["a3", "a4"] }));
    await accept(store, write("session/b", 3, { events: ["b4"] }));
    assert.deepEqual(await historyOf(store, "session/b"), [...numbered(0, 2), "b3", "b4"]);
    assert.deepEqual(await historyOf(store, "session/a"), [...numbered(0, 2), "a3", "a4"]);
    assert.deepEqual(await headOf(store, "session/a"), { generation: 1, seq: 4 });
  },

  "a fork can begin in the middle of its parent's write": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 5) }));
    await accept(store, fork("session/b", "session/a", 3, { events: ["b4"] }));
    assert.deepEqual(await historyOf(store, "session/b"), [...numbered(0, 3), "b4"]);
    assert.deepEqual(await valuesOf(store, "session/a"), numbered(0, 5));
  },

  "a fork of a fork shares the past of both": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 4) }));
    await accept(store, fork("session/b", "session/a", 2, { events: ["b3", "b4", "b5"] }));
    await accept(store, fork("session/c", "session/b", 4, { events: ["c5"] }));
    await accept(store, fork("session/d", "session/b", 1, { events: ["d2"] }));
    assert.deepEqual(await historyOf(store, "session/c"), [...numbered(0, 2), "b3", "b4", "c5"]);
    assert.deepEqual(await historyOf(store, "session/d"), [...numbered(0, 1), "d2"]);
  },

  "a fork at a seq beyond its parent's head is a conflict on the parent": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    const { stream, head } = await refuse(store, "conflict", fork("session/b", "session/a", 3));
    assert.equal(stream, "session/a");
    assert.deepEqual(head, { generation: 1, seq: 2 });
    assert.equal((await rowOf(store, "session/b")).state, "gone");
  },

  "a fork of a parent that is gone, or of an older generation, is a conflict on the parent": async ({
    store,
  }) => {
    const never = await refuse(store, "conflict", fork("session/b", "session/a", 1));
    assert.deepEqual([never.stream, never.head], ["session/a", { generation: 1, seq: 0 }]);
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    await removeStream(store, "session/a");
    const gone = await refuse(store, "conflict", fork("session/b", "session/a", 1));
    assert.deepEqual([gone.stream, gone.head], ["session/a", { generation: 2, seq: 0 }]);
    await accept(store, write("session/a", 0, { generation: 2, events: numbered(0, 2) }));
    const again = await refuse(store, "conflict", fork("session/b", "session/a", 1));
    assert.deepEqual([again.stream, again.head], ["session/a", { generation: 2, seq: 2 }]);
    await accept(store, fork("session/b", "session/a", 1, { parentGeneration: 2 }));
  },

  "a fork to the name of a live stream is a conflict on that stream": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    await accept(store, write("session/b", 0, { events: numbered(0, 2) }));
    const { stream, head } = await refuse(store, "conflict", fork("session/b", "session/a", 2));
    assert.equal(stream, "session/b");
    assert.deepEqual(head, { generation: 1, seq: 2 });
  },

  "if two handles fork to one name, exactly one succeeds": async ({ store, another }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    const other = await another();
    const outcomes = await Promise.all([
      store.append(batchOf(fork("session/b", "session/a", 1))),
      other.append(batchOf(fork("session/b", "session/a", 2))),
    ]);
    assert.deepEqual(outcomes.map(({ outcome }) => outcome).sort(), ["conflict", "ok"]);
  },

  "forks are listed by their parent": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 2) }));
    await accept(store, fork("session/b", "session/a", 1));
    await accept(store, fork("session/c", "session/a", 2));
    await accept(store, fork("session/d", "session/b", 2));
    assert.deepEqual((await streamNames(store, { parent: "session/a" })).sort(), ["session/b", "session/c"]);
    assert.deepEqual(await streamNames(store, { parent: "session/b" }), ["session/d"]);
    assert.deepEqual(await streamNames(store, { parent: "session/d" }), []);
  },

  "a fork inherits neither facets nor items": async ({ store }) => {
    const facets = { status: "running", title: "T", openCalls: 2 };
    const items = [{ kind: "call", id: "c1", seq: 1, at: 1 }];
    await accept(store, write("session/a", 0, { facets, items }));
    await accept(store, fork("session/b", "session/a", 1));
    const row = await rowOf(store, "session/b");
    assert.deepEqual([row.facets.status, row.facets.title, row.facets.openCalls], [null, null, 0]);
    const listed = await store.list({ of: "items", namespace: "default", kind: "call", limit: 9 });
    assert.deepEqual(
      listed.rows.map(({ stream }) => stream),
      ["session/a"],
    );
  },

  "a fork survives reopening": async ({ store, reopen }) => {
    await accept(store, write("session/a", 0, { events: numbered(0, 3) }));
    await accept(store, fork("session/b", "session/a", 2, { events: ["b3"] }));
    const reopened = await reopen();
    assert.deepEqual(await historyOf(reopened, "session/b"), [...numbered(0, 2), "b3"]);
    outcomeIs(await reopened.append(batchOf(write("session/b", 3))), "ok");
  },
};
