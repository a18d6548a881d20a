import assert from "node:assert/strict";
import type { Item, Store } from "../../store.ts";
import { accept, headOf, itemIds, listAll, SPACE, write } from "./acts.ts";
import type { Cases } from "./trial.ts";

/** Appends an event that carries these items. */
async function note(store: Store, stream: string, ...items: Item[]): Promise<void> {
  const { seq } = await headOf(store, stream);
  await accept(store, write(stream, seq, { items }));
}

const call = (id: string, rest: Partial<Item> = {}): Item => ({ kind: "call", id, ...rest });

export const itemListCases: Cases = {
  "an item keeps everything that it was given, and what it was not given is null": async ({ store }) => {
    const full = { seq: 1, endSeq: 4, status: "done", name: "charge", key: "k", at: 5, doneAt: 6 };
    await note(store, "session/a", call("c1", full), call("c2", { seq: 2 }));
    const rows = await listAll(store, { of: "items", kind: "call", stream: "session/a" });
    const empty = { endSeq: null, status: null, name: null, key: null, at: null, doneAt: null };
    assert.deepEqual(rows, [
      { stream: "session/a", kind: "call", id: "c1", ...full },
      { stream: "session/a", kind: "call", id: "c2", seq: 2, ...empty },
    ]);
  },

  "a field that a later write does not name keeps its value": async ({ store }) => {
    await note(store, "session/a", call("c1", { seq: 1, status: "issued", name: "charge", key: "k", at: 5 }));
    await note(store, "session/a", call("c1", { endSeq: 2, status: "completed", doneAt: 9 }));
    const [row] = await listAll(store, { of: "items", kind: "call", stream: "session/a" });
    const fields = { seq: 1, endSeq: 2, status: "completed", name: "charge", key: "k", at: 5, doneAt: 9 };
    assert.deepEqual(row, { stream: "session/a", kind: "call", id: "c1", ...fields });
  },

  "an item is open until it is done, and open again when that is taken back": async ({ store }) => {
    await note(store, "session/a", call("c1", { seq: 1, at: 1 }), call("c2", { seq: 2, at: 2 }));
    await note(store, "session/a", call("c1", { doneAt: 5 }));
    assert.deepEqual(await itemIds(store, { kind: "call", open: true }), ["c2"]);
    await note(store, "session/a", call("c1", { doneAt: null }));
    assert.deepEqual(await itemIds(store, { kind: "call", open: true }), ["c1", "c2"]);
    assert.deepEqual(await itemIds(store, { kind: "call", open: true, stream: "session/a" }), ["c1", "c2"]);
  },

  "the items of a stream are listed in the order of their seqs": async ({ store }) => {
    await note(store, "session/a", call("z", { seq: 1, at: 9 }), call("a", { seq: 3, at: 8 }));
    await note(store, "session/a", call("m", { seq: 2, at: 7 }));
    await note(store, "session/b", call("other", { seq: 1 }));
    assert.deepEqual(await itemIds(store, { kind: "call", stream: "session/a" }), ["z", "m", "a"]);
  },

  "the open items of all streams are listed oldest first": async ({ store }) => {
    await note(store, "session/b", call("b1", { seq: 1, at: 30 }));
    await note(store, "session/a", call("a1", { seq: 1, at: 20 }), call("a2", { seq: 2, at: 40 }));
    await note(store, "session/c", call("c1", { seq: 1, at: 10 }), call("c2", { seq: 2, at: 1, doneAt: 2 }));
    assert.deepEqual(await itemIds(store, { kind: "call", open: true }), ["c1", "a1", "b1", "a2"]);
  },

  "items of different kinds or streams may have the same id": async ({ store }) => {
    await note(store, "session/a", call("x", { seq: 1, status: "call of a" }));
    await note(store, "session/a", { kind: "checkpoint", id: "x", seq: 2, status: "checkpoint of a" });
    await note(store, "session/b", call("x", { seq: 1, status: "call of b" }));
    const statuses = async (kind: string, stream: string) =>
      (await listAll(store, { of: "items", kind, stream })).map(({ status }) => status);
    assert.deepEqual(await statuses("call", "session/a"), ["call of a"]);
    assert.deepEqual(await statuses("checkpoint", "session/a"), ["checkpoint of a"]);
    assert.deepEqual(await statuses("call", "session/b"), ["call of b"]);
    assert.deepEqual(await statuses("checkpoint", "session/b"), []);
  },

  "an item is found by its id": async ({ store }) => {
    await note(store, "session/a", call("c1", { seq: 1 }), call("c10", { seq: 2 }), call("C1", { seq: 3 }));
    assert.deepEqual(await itemIds(store, { kind: "call", stream: "session/a", id: "c1" }), ["c1"]);
    assert.deepEqual(await itemIds(store, { kind: "call", id: "C1" }), ["C1"]);
    assert.deepEqual(await itemIds(store, { kind: "call", stream: "session/a", id: "c%" }), []);
  },

  "pages of any size show every item once, in one order": async ({ store }) => {
    for (const stream of ["session/a", "session/b"]) {
      const items = Array.from({ length: 12 }, (_, index) =>
        call(`${stream} ${index}`, { seq: index + 1, at: 100 + Math.floor(index / 3) }),
      );
      await note(store, stream, ...items);
    }
    const one = await itemIds(store, { kind: "call", stream: "session/a" });
    const all = await itemIds(store, { kind: "call", open: true });
    assert.deepEqual([one.length, new Set(all).size], [12, 24]);
    for (const limit of [1, 5, 12]) {
      assert.deepEqual(await itemIds(store, { kind: "call", stream: "session/a", limit }), one);
      assert.deepEqual(await itemIds(store, { kind: "call", open: true, limit }), all);
    }
  },

  "items that are closed between two pages hide none of the others": async ({ store }) => {
    const ids = Array.from({ length: 12 }, (_, index) => `c${String(index).padStart(2, "0")}`);
    await note(store, "session/a", ...ids.map((id, index) => call(id, { seq: index + 1, at: index })));
    const asked = { of: "items", namespace: SPACE, kind: "call", open: true } as const;
    const first = await store.list<"items">({ ...asked, limit: 4 });
    await note(store, "session/a", ...ids.slice(0, 4).map((id) => call(id, { doneAt: 50 })));
    assert.ok(first.cursor);
    const rest = await store.list<"items">({ ...asked, limit: 100, cursor: first.cursor });
    assert.deepEqual(
      [...first.rows, ...rest.rows].map(({ id }) => id),
      ids,
    );
  },
};
