/** Reads: ranges and pages. */

import assert from "node:assert/strict";
import type { Store } from "../../store.ts";
import { accept, type Cases, eventsOf, numbered, readAll, SPACE, valuesOf, write } from "./harness.ts";

/** Appends writes of one, two, three and four events: 1 · 2 3 · 4 5 6 · 7 8 9 10. */
async function staircase(store: Store): Promise<void> {
  for (const [seq, count] of [
    [0, 1],
    [1, 2],
    [3, 3],
    [6, 4],
  ] as const) {
    await accept(store, write("session/a", seq, { events: numbered(seq, count) }));
  }
}

const bounds = async (store: Store, range: { after?: number; upTo?: number; limit?: number }) =>
  (await store.read({ namespace: SPACE, stream: "session/a", after: 0, ...range })).writes.map((row) => [
    row.first,
    row.last,
  ]);

export const readCases: Cases = {
  "events are read in the order of their seqs": async ({ store }) => {
    for (let seq = 0; seq < 30; seq++)
      await accept(store, write("session/a", seq, { events: numbered(seq, 1) }));
    assert.deepEqual(await valuesOf(store, "session/a"), numbered(0, 30));
    const firsts = (await readAll(store, "session/a")).map(({ first }) => first);
    assert.deepEqual(
      firsts,
      numbered(0, 30).map((_, index) => index + 1),
    );
  },

  "`after` leaves out writes that end at or before it": async ({ store }) => {
    await staircase(store);
    assert.deepEqual(await bounds(store, { after: 3 }), [
      [4, 6],
      [7, 10],
    ]);
    assert.deepEqual(await bounds(store, { after: 10 }), []);
    assert.deepEqual(await bounds(store, { after: Number.MAX_SAFE_INTEGER - 1 }), []);
  },

  "`upTo` leaves out writes that begin after it": async ({ store }) => {
    await staircase(store);
    assert.deepEqual(await bounds(store, { upTo: 3 }), [
      [1, 1],
      [2, 3],
    ]);
    assert.deepEqual(await bounds(store, { upTo: 0 }), []);
  },

  "a read returns whole writes, also at the ends of its range": async ({ store }) => {
    await staircase(store);
    assert.deepEqual(await bounds(store, { after: 2, upTo: 4 }), [
      [2, 3],
      [4, 6],
    ]);
    assert.deepEqual(await bounds(store, { after: 8, upTo: 9 }), [[7, 10]]);
    assert.deepEqual(await valuesOf(store, "session/a", { after: 8, upTo: 9 }), numbered(6, 4));
  },

  "a page ends at its limit with `more`": async ({ store }) => {
    await staircase(store);
    const page = await store.read({ namespace: SPACE, stream: "session/a", after: 0, limit: 3 });
    assert.equal(page.writes.length, 3);
    assert.equal(page.more, true);
    const rest = await store.read({ namespace: SPACE, stream: "session/a", after: 6, limit: 3 });
    assert.equal(rest.writes.length, 1);
    assert.equal(rest.more, false);
  },

  "a page that ends exactly with the range has no `more`": async ({ store }) => {
    await staircase(store);
    const whole = await store.read({ namespace: SPACE, stream: "session/a", after: 0, limit: 4 });
    assert.equal(whole.more, false);
    const part = await store.read({ namespace: SPACE, stream: "session/a", after: 0, upTo: 3, limit: 2 });
    assert.equal(part.more, false);
    assert.equal(part.writes.length, 2);
  },

  "pages of any size add up to the whole": async ({ store }) => {
    for (let seq = 0; seq < 60; seq += 2) {
      await accept(store, write("session/a", seq, { events: numbered(seq, 2) }));
    }
    const whole = await eventsOf(store, "session/a");
    assert.equal(whole.length, 60);
    for (const limit of [1, 7, 30, 1_000])
      assert.deepEqual(await eventsOf(store, "session/a", { limit }), whole);
  },

  "every read returns the stream's row, also without events": async ({ store }) => {
    await staircase(store);
    const { stream, writes } = await store.read({ namespace: SPACE, stream: "session/a", after: 99 });
    assert.deepEqual(writes, []);
    assert.equal(stream.state, "live");
    assert.deepEqual(stream.head, { generation: 1, seq: 10 });
    assert.equal(stream.base, 0);
  },

  "a read with `onlyEvents` returns the same events": async ({ store }) => {
    await staircase(store);
    await accept(store, write("session/a", 10, { payload: '["\0 and \ud800 and ä"]' }));
    const bytes = { payload: new Uint8Array([0, 255, 10]), codec: "sealed" };
    await accept(store, write("session/b", 0, bytes));
    for (const stream of ["session/a", "session/b"]) {
      const events = async (request: { onlyEvents?: true; limit?: number }) =>
        (await store.read({ namespace: SPACE, stream, after: 0, ...request })).writes.map(
          ({ first, last, payload, codec }) => ({ first, last, payload, codec }),
        );
      assert.deepEqual(await events({ onlyEvents: true }), await events({}));
      assert.deepEqual(await events({ onlyEvents: true, limit: 3 }), await events({ limit: 3 }));
    }
  },

  "streams that are written alternately do not mix": async ({ store }) => {
    for (let seq = 0; seq < 10; seq++) {
      for (const name of ["session/a", "session/b", "session/aa"]) {
        await accept(store, write(name, seq, { events: [`${name} ${seq}`] }));
      }
    }
    for (const name of ["session/a", "session/b", "session/aa"]) {
      const expected = numbered(0, 10).map((_, seq) => `${name} ${seq}`);
      assert.deepEqual(await valuesOf(store, name), expected);
    }
  },
};
