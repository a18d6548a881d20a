/** Lists of streams and of items: order, filters, pages. */

import assert from "node:assert/strict";
import type { Item, StreamFacets } from "../../store.ts";
import { type Cases, SPACE, type TestStore, times } from "./harness.ts";

async function make(store: TestStore, stream: string, at: number, facets: StreamFacets = {}): Promise<void> {
  await store.write(stream, 0, { at, facets });
}

/** Creates streams `s00`, `s01`, …, two per millisecond, the latest change last. */
async function makeMany(store: TestStore, count: number): Promise<string[]> {
  const names = times(count, (index) => `session/s${String(index).padStart(2, "0")}`);
  for (const [index, name] of names.entries()) await make(store, name, 1_000 + Math.floor(index / 2));
  return names;
}

/** One page of the list of streams. */
async function listPage(store: TestStore, limit: number, cursor: string | null = null) {
  const asked = { of: "streams", namespace: SPACE, limit, ...(cursor !== null && { cursor }) } as const;
  const page = await store.port.list<"streams">(asked);
  return { names: page.rows.map(({ stream }) => stream), cursor: page.cursor };
}

export const streamListCases: Cases = {
  "streams are listed with the latest change first": async ({ store }) => {
    await make(store, "session/old", 1_000);
    await make(store, "session/new", 3_000);
    await make(store, "session/mid", 2_000);
    assert.deepEqual(await store.streams(), ["session/new", "session/mid", "session/old"]);
    await store.write("session/old", 1, { at: 4_000 });
    assert.deepEqual(await store.streams(), ["session/old", "session/new", "session/mid"]);
  },

  "a listed stream equals the row of a read": async ({ store }) => {
    const facets = { status: "s", title: "t", goal: "g", openCalls: 3, expiresAt: 77, budget: '{"usd":1}' };
    await make(store, "session/a", 1_000, facets);
    const [listed] = await store.list({ of: "streams" });
    assert.deepEqual(listed, await store.row("session/a"));
    assert.deepEqual(listed?.facets, facets);
  },

  "pages of any size show every stream once, in one order": async ({ store }) => {
    const names = await makeMany(store, 25);
    const whole = await store.streams({ limit: 100 });
    assert.deepEqual([...whole].sort(), names);
    for (const limit of [1, 2, 7, 25]) assert.deepEqual(await store.streams({ limit }), whole);
  },

  "a page that ends with the last row has no cursor": async ({ store }) => {
    await makeMany(store, 4);
    const { names, cursor } = await listPage(store, 4);
    assert.deepEqual([names.length, cursor], [4, null]);
    assert.notEqual((await listPage(store, 3)).cursor, null);
  },

  "changes between two pages neither hide nor repeat other streams": async ({ store }) => {
    const names = await makeMany(store, 20);
    let { names: seen, cursor } = await listPage(store, 8);
    const unseen = names.filter((name) => !seen.includes(name));
    await make(store, "session/newcomer", 9_000);
    await store.write(seen[2] as string, 1, { at: 9_001 });
    await store.remove(seen[5] as string);
    await store.remove(seen[7] as string);
    const rest: string[] = [];
    while (cursor !== null) {
      ({ names: seen, cursor } = await listPage(store, 5, cursor));
      rest.push(...seen);
    }
    assert.deepEqual([...rest].sort(), unseen.sort());
  },

  "a cursor works in another handle and after reopening": async ({ store, another, reopen }) => {
    await makeMany(store, 9);
    const whole = await store.streams();
    const first = await listPage(store, 3);
    const second = await listPage(await another(), 3, first.cursor);
    const third = await listPage(await reopen(), 3, second.cursor);
    assert.deepEqual(
      [first, second, third].flatMap(({ names }) => names),
      whole,
    );
  },

  "a facet keeps its value until a write sets it, and null clears it": async ({ store }) => {
    const all = { status: "s", title: "t", goal: "g", openCalls: 2, expiresAt: 5, budget: "{}" };
    await make(store, "session/a", 1_000, all);
    await store.write("session/a", 1);
    assert.deepEqual((await store.row("session/a")).facets, all);
    await store.write("session/a", 2, { facets: { title: "new", goal: null, openCalls: 0 } });
    const kept = { ...all, title: "new", goal: null, openCalls: 0 };
    assert.deepEqual((await store.row("session/a")).facets, kept);
    const cleared = { status: null, title: null, expiresAt: null, budget: null };
    await store.write("session/a", 3, { facets: cleared });
    assert.deepEqual((await store.row("session/a")).facets, { ...kept, ...cleared });
  },

  "the facets of a stream without any are null and 0": async ({ store }) => {
    await make(store, "session/a", 1_000);
    const none = { status: null, title: null, goal: null, openCalls: 0, expiresAt: null, budget: null };
    assert.deepEqual((await store.row("session/a")).facets, none);
  },

  "streams are found by kind, compared literally": async ({ store }) => {
    const names = ["session/a", "session-2/a", "sess_on/a", "Session/a", "goal/session", "sessio/n"];
    for (const [index, name] of names.entries()) await make(store, name, 1_000 + index);
    for (const name of names) {
      assert.deepEqual(await store.streams({ kind: name.split("/")[0] as string }), [name]);
    }
    assert.deepEqual(await store.streams({ kind: "sess" }), []);
  },

  "streams are found by status, by goal and by both": async ({ store }) => {
    await make(store, "session/a", 1_000, { status: "done", goal: "g1" });
    await make(store, "session/b", 2_000, { status: "running", goal: "g1" });
    await make(store, "session/c", 3_000, { status: "running", goal: "g2" });
    await make(store, "session/d", 4_000);
    assert.deepEqual(await store.streams({ status: "running" }), ["session/c", "session/b"]);
    assert.deepEqual(await store.streams({ goal: "g1" }), ["session/b", "session/a"]);
    assert.deepEqual(await store.streams({ goal: "g1", status: "running" }), ["session/b"]);
    assert.deepEqual(await store.streams({ goal: "g%" }), []);
  },

  "streams are found by `openCalls` until their last call is closed": async ({ store }) => {
    await make(store, "session/a", 1_000, { openCalls: 2 });
    await make(store, "session/b", 2_000, { openCalls: 0 });
    assert.deepEqual(await store.streams({ openCalls: true }), ["session/a"]);
    await store.write("session/a", 1, { facets: { openCalls: 0 } });
    assert.deepEqual(await store.streams({ openCalls: true }), []);
  },

  "streams are found by `expiredAt` only from their expiry on": async ({ store }) => {
    await make(store, "session/a", 1_000, { expiresAt: 5_000 });
    await make(store, "session/b", 2_000, { expiresAt: 8_000 });
    await make(store, "session/c", 3_000);
    assert.deepEqual(await store.streams({ expiredAt: 4_999 }), []);
    assert.deepEqual(await store.streams({ expiredAt: 5_001 }), ["session/a"]);
    assert.deepEqual(await store.streams({ expiredAt: 9_000 }), ["session/b", "session/a"]);
  },

  "streams are found by `updatedBefore`": async ({ store }) => {
    await make(store, "session/a", 1_000);
    await make(store, "session/b", 2_000);
    await make(store, "goal/g", 1_500);
    assert.deepEqual(await store.streams({ updatedBefore: 1_000 }), []);
    assert.deepEqual(await store.streams({ updatedBefore: 2_000 }), ["goal/g", "session/a"]);
    assert.deepEqual(await store.streams({ updatedBefore: 2_000, kind: "session" }), ["session/a"]);
  },

  "a filtered list is complete over all pages": async ({ store }) => {
    const names = await makeMany(store, 21);
    for (const [index, name] of names.entries()) {
      if (index % 3 === 0) await store.write(name, 1, { at: 5_000, facets: { status: "third" } });
    }
    const expected = names.filter((_, index) => index % 3 === 0);
    assert.deepEqual((await store.streams({ status: "third", limit: 2 })).sort(), expected);
  },
};

/** Appends an event with these items. */
async function note(store: TestStore, stream: string, ...items: Item[]): Promise<void> {
  const { seq } = await store.head(stream);
  await store.write(stream, seq, { items });
}

const call = (id: string, rest: Partial<Item> = {}): Item => ({ kind: "call", id, ...rest });

export const itemListCases: Cases = {
  "an item has all its fields; missing fields are null": async ({ store }) => {
    const full = { seq: 1, endSeq: 4, status: "done", name: "charge", key: "k", at: 5, doneAt: 6 };
    await note(store, "session/a", call("c1", full), call("c2", { seq: 2 }));
    const rows = await store.list({ of: "items", kind: "call", stream: "session/a" });
    const empty = { endSeq: null, status: null, name: null, key: null, at: null, doneAt: null };
    assert.deepEqual(rows, [
      { stream: "session/a", kind: "call", id: "c1", ...full },
      { stream: "session/a", kind: "call", id: "c2", seq: 2, ...empty },
    ]);
  },

  "a field of an item keeps its value until a write sets it": async ({ store }) => {
    await note(store, "session/a", call("c1", { seq: 1, status: "issued", name: "charge", key: "k", at: 5 }));
    await note(store, "session/a", call("c1", { endSeq: 2, status: "completed", doneAt: 9 }));
    const [row] = await store.list({ of: "items", kind: "call", stream: "session/a" });
    const fields = { seq: 1, endSeq: 2, status: "completed", name: "charge", key: "k", at: 5, doneAt: 9 };
    assert.deepEqual(row, { stream: "session/a", kind: "call", id: "c1", ...fields });
  },

  "an item is open until `doneAt` is set, and again when it is null": async ({ store }) => {
    await note(store, "session/a", call("c1", { seq: 1, at: 1 }), call("c2", { seq: 2, at: 2 }));
    await note(store, "session/a", call("c1", { doneAt: 5 }));
    assert.deepEqual(await store.items({ kind: "call", open: true }), ["c2"]);
    await note(store, "session/a", call("c1", { doneAt: null }));
    assert.deepEqual(await store.items({ kind: "call", open: true }), ["c1", "c2"]);
    assert.deepEqual(await store.items({ kind: "call", open: true, stream: "session/a" }), ["c1", "c2"]);
  },

  "the items of a stream are listed in the order of their seqs": async ({ store }) => {
    await note(store, "session/a", call("z", { seq: 1, at: 9 }), call("a", { seq: 3, at: 8 }));
    await note(store, "session/a", call("m", { seq: 2, at: 7 }));
    await note(store, "session/b", call("other", { seq: 1 }));
    assert.deepEqual(await store.items({ kind: "call", stream: "session/a" }), ["z", "m", "a"]);
  },

  "the open items of all streams are listed oldest first": async ({ store }) => {
    await note(store, "session/b", call("b1", { seq: 1, at: 30 }));
    await note(store, "session/a", call("a1", { seq: 1, at: 20 }), call("a2", { seq: 2, at: 40 }));
    await note(store, "session/c", call("c1", { seq: 1, at: 10 }), call("c2", { seq: 2, at: 1, doneAt: 2 }));
    assert.deepEqual(await store.items({ kind: "call", open: true }), ["c1", "a1", "b1", "a2"]);
  },

  "items of different kinds or streams may have the same id": async ({ store }) => {
    await note(store, "session/a", call("x", { seq: 1, status: "call of a" }));
    await note(store, "session/a", { kind: "checkpoint", id: "x", seq: 2, status: "checkpoint of a" });
    await note(store, "session/b", call("x", { seq: 1, status: "call of b" }));
    const statuses = async (kind: string, stream: string) =>
      (await store.list({ of: "items", kind, stream })).map(({ status }) => status);
    assert.deepEqual(await statuses("call", "session/a"), ["call of a"]);
    assert.deepEqual(await statuses("checkpoint", "session/a"), ["checkpoint of a"]);
    assert.deepEqual(await statuses("call", "session/b"), ["call of b"]);
    assert.deepEqual(await statuses("checkpoint", "session/b"), []);
  },

  "an item is found by its id": async ({ store }) => {
    await note(store, "session/a", call("c1", { seq: 1 }), call("c10", { seq: 2 }), call("C1", { seq: 3 }));
    assert.deepEqual(await store.items({ kind: "call", stream: "session/a", id: "c1" }), ["c1"]);
    assert.deepEqual(await store.items({ kind: "call", id: "C1" }), ["C1"]);
    assert.deepEqual(await store.items({ kind: "call", stream: "session/a", id: "c%" }), []);
  },

  "pages of any size show every item once, in one order": async ({ store }) => {
    for (const stream of ["session/a", "session/b"]) {
      const at = (index: number) => ({ seq: index + 1, at: 100 + Math.floor(index / 3) });
      await note(store, stream, ...times(12, (index) => call(`${stream} ${index}`, at(index))));
    }
    const one = await store.items({ kind: "call", stream: "session/a" });
    const all = await store.items({ kind: "call", open: true });
    assert.deepEqual([one.length, new Set(all).size], [12, 24]);
    for (const limit of [1, 5, 12]) {
      assert.deepEqual(await store.items({ kind: "call", stream: "session/a", limit }), one);
      assert.deepEqual(await store.items({ kind: "call", open: true, limit }), all);
    }
  },

  "items that are closed between two pages do not hide others": async ({ store }) => {
    const ids = times(12, (index) => `c${String(index).padStart(2, "0")}`);
    await note(store, "session/a", ...ids.map((id, index) => call(id, { seq: index + 1, at: index })));
    const asked = { of: "items", namespace: SPACE, kind: "call", open: true } as const;
    const first = await store.port.list<"items">({ ...asked, limit: 4 });
    await note(store, "session/a", ...ids.slice(0, 4).map((id) => call(id, { doneAt: 50 })));
    assert.ok(first.cursor);
    const rest = await store.port.list<"items">({ ...asked, limit: 100, cursor: first.cursor });
    const found = [...first.rows, ...rest.rows].map(({ id }) => id);
    assert.deepEqual(found, ids);
  },
};
