/** Reads: ranges and pages. */

import assert from "node:assert/strict";
import type { ReadRequest } from "../../store.ts";
import { type Cases, headAt, numbered, type TestStore, times } from "./harness.ts";

/** Appends writes of one, two, three and four events: 1 · 2 3 · 4 5 6 · 7 8 9 10. */
async function staircase(store: TestStore): Promise<void> {
  for (const [seq, count] of Object.entries({ 0: 1, 1: 2, 3: 3, 6: 4 })) {
    await store.write("session/a", Number(seq), { events: numbered(Number(seq), count) });
  }
}

/** The writes of a page as text: `1-1 2-3`. */
const bounds = async (store: TestStore, range: Partial<ReadRequest>) =>
  (await store.page("session/a", range)).writes.map(({ first, last }) => `${first}-${last}`).join(" ");

export const readCases: Cases = {
  "events are read in the order of their seqs": async ({ store }) => {
    for (let seq = 0; seq < 30; seq++) await store.write("session/a", seq, { events: numbered(seq, 1) });
    assert.deepEqual(await store.values("session/a"), numbered(0, 30));
    const firsts = (await store.writes("session/a")).map(({ first }) => first);
    assert.deepEqual(
      firsts,
      times(30, (index) => index + 1),
    );
  },

  "`after` leaves out writes that end at or before it": async ({ store }) => {
    await staircase(store);
    assert.equal(await bounds(store, { after: 3 }), "4-6 7-10");
    assert.equal(await bounds(store, { after: 10 }), "");
    assert.equal(await bounds(store, { after: Number.MAX_SAFE_INTEGER - 1 }), "");
  },

  "`upTo` leaves out writes that begin after it": async ({ store }) => {
    await staircase(store);
    assert.equal(await bounds(store, { upTo: 3 }), "1-1 2-3");
    assert.equal(await bounds(store, { upTo: 0 }), "");
  },

  "a read returns whole writes, also at the ends of its range": async ({ store }) => {
    await staircase(store);
    assert.equal(await bounds(store, { after: 2, upTo: 4 }), "2-3 4-6");
    assert.equal(await bounds(store, { after: 8, upTo: 9 }), "7-10");
    assert.deepEqual(await store.values("session/a", { after: 8, upTo: 9 }), numbered(6, 4));
  },

  "a page ends at its limit with `more`": async ({ store }) => {
    await staircase(store);
    const page = await store.page("session/a", { limit: 3 });
    assert.deepEqual([page.writes.length, page.more], [3, true]);
    const rest = await store.page("session/a", { after: 6, limit: 3 });
    assert.deepEqual([rest.writes.length, rest.more], [1, false]);
  },

  "a page that ends exactly with the range has no `more`": async ({ store }) => {
    await staircase(store);
    assert.equal((await store.page("session/a", { limit: 4 })).more, false);
    const part = await store.page("session/a", { upTo: 3, limit: 2 });
    assert.deepEqual([part.writes.length, part.more], [2, false]);
  },

  "pages of any size add up to the whole": async ({ store }) => {
    for (let seq = 0; seq < 60; seq += 2) await store.write("session/a", seq, { events: numbered(seq, 2) });
    const whole = await store.events("session/a");
    assert.equal(whole.length, 60);
    for (const limit of [1, 7, 30, 1_000]) {
      assert.deepEqual(await store.events("session/a", { limit }), whole);
    }
  },

  "every read returns the stream's row, also without events": async ({ store }) => {
    await staircase(store);
    const { stream, writes } = await store.page("session/a", { after: 99 });
    assert.deepEqual(writes, []);
    assert.deepEqual([stream.state, stream.head, stream.base], ["live", headAt(10), 0]);
  },

  "a read with `onlyEvents` returns the same events": async ({ store }) => {
    await staircase(store);
    await store.write("session/a", 10, { payload: '["\0 and \ud800 and ä"]' });
    await store.write("session/b", 0, { payload: new Uint8Array([0, 255, 10]), codec: "sealed" });
    for (const stream of ["session/a", "session/b"]) {
      const events = async (range: Partial<ReadRequest>) => {
        const { writes } = await store.page(stream, range);
        return writes.map(({ first, last, payload, codec }) => ({ first, last, payload, codec }));
      };
      assert.deepEqual(await events({ onlyEvents: true }), await events({}));
      assert.deepEqual(await events({ onlyEvents: true, limit: 3 }), await events({ limit: 3 }));
    }
  },

  "streams that are written alternately do not mix": async ({ store }) => {
    const names = ["session/a", "session/b", "session/aa"];
    for (let seq = 0; seq < 10; seq++) for (const name of names) await store.write(name, seq);
    for (const name of names) {
      assert.deepEqual(
        await store.values(name),
        times(10, (seq) => `${name} ${seq + 1}`),
      );
    }
  },
};
