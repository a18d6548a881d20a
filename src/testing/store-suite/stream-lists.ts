import assert from "node:assert/strict";
import type { Store, StreamFacets } from "../../store.ts";
import { accept, listAll, removeStream, rowOf, SPACE, streamNames, write } from "./acts.ts";
import type { Cases } from "./trial.ts";

async function make(store: Store, stream: string, at: number, facets: StreamFacets = {}): Promise<void> {
  await accept(store, write(stream, 0, { at, facets }));
}

/** Streams `s00`, `s01`, … with the latest change last, two of them at each moment. */
async function makeMany(store: Store, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `session/s${String(index).padStart(2, "0")}`);
  for (const [index, name] of names.entries()) await make(store, name, 1_000 + Math.floor(index / 2));
  return names;
}

export const streamListCases: Cases = {
  "streams are listed with the latest change first": async ({ store }) => {
    await make(store, "session/old", 1_000);
    await make(store, "session/new", 3_000);
    await make(store, "session/mid", 2_000);
    assert.deepEqual(await streamNames(store), ["session/new", "session/mid", "session/old"]);
    await accept(store, write("session/old", 1, { at: 4_000 }));
    assert.deepEqual(await streamNames(store), ["session/old", "session/new", "session/mid"]);
  },

  "a listed stream is what a read says of it": async ({ store }) => {
    const facets = { status: "s", title: "t", goal: "g", openCalls: 3, expiresAt: 77, budget: '{"usd":1}' };
    await make(store, "session/a", 1_000, facets);
    const [listed] = await listAll(store, { of: "streams" });
    assert.deepEqual(listed, await rowOf(store, "session/a"));
    assert.deepEqual(listed?.facets, facets);
  },

  "pages of any size show every stream once, in one order": async ({ store }) => {
    const names = await makeMany(store, 25);
    const whole = await streamNames(store, { limit: 100 });
    assert.deepEqual([...whole].sort(), names);
    for (const limit of [1, 2, 7, 25]) assert.deepEqual(await streamNames(store, { limit }), whole);
  },

  "a page that ends with the last row has no cursor": async ({ store }) => {
    await makeMany(store, 4);
    const page = await store.list({ of: "streams", namespace: SPACE, limit: 4 });
    assert.equal(page.rows.length, 4);
    assert.equal(page.cursor, null);
    assert.equal((await store.list({ of: "streams", namespace: SPACE, limit: 3 })).cursor === null, false);
  },

  "what comes, changes and goes between two pages neither hides nor doubles the others": async ({
    store,
  }) => {
    const names = await makeMany(store, 20);
    const first = await store.list({ of: "streams", namespace: SPACE, limit: 8 });
    const seen = first.rows.map(({ stream }) => stream);
    const unseen = names.filter((name) => !seen.includes(name));
    await make(store, "session/newcomer", 9_000);
    await accept(store, write(seen[2] as string, 1, { at: 9_001 }));
    await removeStream(store, seen[5] as string);
    await removeStream(store, seen[7] as string);
    const rest: string[] = [];
    for (let cursor = first.cursor; cursor !== null; ) {
      const page = await store.list({ of: "streams", namespace: SPACE, limit: 5, cursor });
      rest.push(...page.rows.map(({ stream }) => stream));
      cursor = page.cursor;
    }
    assert.deepEqual([...rest].sort(), unseen.sort());
  },

  "a cursor is good in another handle and after reopening": async ({ store, another, reopen }) => {
    await makeMany(store, 9);
    const whole = await streamNames(store);
    const first = await store.list({ of: "streams", namespace: SPACE, limit: 3 });
    assert.ok(first.cursor);
    const second = await (await another()).list({
      of: "streams",
      namespace: SPACE,
      limit: 3,
      cursor: first.cursor,
    });
    assert.ok(second.cursor);
    const third = await (await reopen()).list({
      of: "streams",
      namespace: SPACE,
      limit: 3,
      cursor: second.cursor,
    });
    const rows = [...first.rows, ...second.rows, ...third.rows];
    assert.deepEqual(
      rows.map(({ stream }) => stream),
      whole,
    );
  },

  "a facet that a write does not name keeps its value, null clears it": async ({ store }) => {
    const all = { status: "s", title: "t", goal: "g", openCalls: 2, expiresAt: 5, budget: "{}" };
    await make(store, "session/a", 1_000, all);
    await accept(store, write("session/a", 1));
    assert.deepEqual((await rowOf(store, "session/a")).facets, all);
    await accept(store, write("session/a", 2, { facets: { title: "new", goal: null, openCalls: 0 } }));
    const kept = { ...all, title: "new", goal: null, openCalls: 0 };
    assert.deepEqual((await rowOf(store, "session/a")).facets, kept);
    const cleared = { status: null, title: null, expiresAt: null, budget: null };
    await accept(store, write("session/a", 3, { facets: cleared }));
    assert.deepEqual((await rowOf(store, "session/a")).facets, { ...kept, ...cleared });
  },

  "a stream without facets has none": async ({ store }) => {
    await make(store, "session/a", 1_000);
    const none = { status: null, title: null, goal: null, openCalls: 0, expiresAt: null, budget: null };
    assert.deepEqual((await rowOf(store, "session/a")).facets, none);
  },

  "streams are found by kind, and a kind is literal": async ({ store }) => {
    const names = ["session/a", "session-2/a", "sess_on/a", "Session/a", "goal/session", "sessio/n"];
    for (const [index, name] of names.entries()) await make(store, name, 1_000 + index);
    for (const name of names)
      assert.deepEqual(await streamNames(store, { kind: name.split("/")[0] as string }), [name]);
    assert.deepEqual(await streamNames(store, { kind: "sess" }), []);
  },

  "streams are found by status and by goal, also together": async ({ store }) => {
    await make(store, "session/a", 1_000, { status: "done", goal: "g1" });
    await make(store, "session/b", 2_000, { status: "running", goal: "g1" });
    await make(store, "session/c", 3_000, { status: "running", goal: "g2" });
    await make(store, "session/d", 4_000);
    assert.deepEqual(await streamNames(store, { status: "running" }), ["session/c", "session/b"]);
    assert.deepEqual(await streamNames(store, { goal: "g1" }), ["session/b", "session/a"]);
    assert.deepEqual(await streamNames(store, { goal: "g1", status: "running" }), ["session/b"]);
    assert.deepEqual(await streamNames(store, { goal: "g%" }), []);
  },

  "streams with open calls are found until the last of them is closed": async ({ store }) => {
    await make(store, "session/a", 1_000, { openCalls: 2 });
    await make(store, "session/b", 2_000, { openCalls: 0 });
    assert.deepEqual(await streamNames(store, { openCalls: true }), ["session/a"]);
    await accept(store, write("session/a", 1, { facets: { openCalls: 0 } }));
    assert.deepEqual(await streamNames(store, { openCalls: true }), []);
  },

  "streams are found when they have expired, not before and not without a date": async ({ store }) => {
    await make(store, "session/a", 1_000, { expiresAt: 5_000 });
    await make(store, "session/b", 2_000, { expiresAt: 8_000 });
    await make(store, "session/c", 3_000);
    assert.deepEqual(await streamNames(store, { expiredAt: 4_999 }), []);
    assert.deepEqual(await streamNames(store, { expiredAt: 5_001 }), ["session/a"]);
    assert.deepEqual(await streamNames(store, { expiredAt: 9_000 }), ["session/b", "session/a"]);
  },

  "streams are found that nobody changed since": async ({ store }) => {
    await make(store, "session/a", 1_000);
    await make(store, "session/b", 2_000);
    await make(store, "goal/g", 1_500);
    assert.deepEqual(await streamNames(store, { updatedBefore: 1_000 }), []);
    assert.deepEqual(await streamNames(store, { updatedBefore: 2_000 }), ["goal/g", "session/a"]);
    assert.deepEqual(await streamNames(store, { updatedBefore: 2_000, kind: "session" }), ["session/a"]);
  },

  "a filter and paging together leave nothing out": async ({ store }) => {
    const names = await makeMany(store, 21);
    for (const [index, name] of names.entries()) {
      if (index % 3 === 0) await accept(store, write(name, 1, { at: 5_000, facets: { status: "third" } }));
    }
    const expected = names.filter((_, index) => index % 3 === 0);
    assert.deepEqual((await streamNames(store, { status: "third", limit: 2 })).sort(), expected);
  },
};
