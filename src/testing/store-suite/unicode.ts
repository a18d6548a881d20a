import assert from "node:assert/strict";
import {
  accept,
  bytesOf,
  itemIds,
  listAll,
  readAll,
  rowOf,
  SPACE,
  streamNames,
  valuesOf,
  write,
} from "./acts.ts";
import type { Cases } from "./trial.ts";

/** What texts of people and models are made of, and what has broken one database or another. */
const TEXTS = [
  "plain",
  "zażółć gęślą jaźń",
  "日本語、한국어, العربية",
  "👩‍👩‍👧‍👦 🏳️‍🌈 𝒳",
  "e\u0301 against \u00e9",
  "\u202eright to left",
  "\ufeffbyte order mark",
  "line\nbreak\r\nand\ttab",
  "\u2028 and \u2029",
  `"double" 'single' \`back\` \\ slash`,
  "'); DROP TABLE writes; --",
  "%_?*[]{}$1 :name @name",
  "\u0001\u001f\u007f\u0080\u009f",
  "\ufffd \ufffe \uffff \u{10ffff}",
  " leading and trailing ",
];

/** JSON escapes these, so that what a store sees is well-formed text; it must not tidy the escapes up. */
const ESCAPED = ["\0", "before\0after", "\ud800", "\udc00 alone", "\ud83d\ud83d\ude00", "\0\ud800\0"];

export const unicodeCases: Cases = {
  "any text in an event comes back the same, also after reopening": async ({ store, reopen }) => {
    const values = [...TEXTS, ...ESCAPED];
    await accept(store, write("session/a", 0, { events: values }));
    assert.deepEqual(await valuesOf(store, "session/a"), values);
    assert.deepEqual(await valuesOf(await reopen(), "session/a"), values);
  },

  "NUL and half a surrogate pair survive as JSON escapes, byte for byte": async ({ store }) => {
    const payload = String.raw`["\u0000","a\u0000b","\ud800","\uDC00","\ud83d\ude00","\u00e9"]`;
    await accept(store, write("session/a", 0, { events: Array(6).fill(0), payload }));
    const [row] = await readAll(store, "session/a");
    assert.equal(row?.payload, payload);
  },

  "a text payload is kept as it is written, spaces, order and doubles included": async ({ store }) => {
    const payload = ' [ { "b" : 1.0e2 , "a" : -0 , "a" : 12345678901234567890 } ]\n';
    await accept(store, write("session/a", 0, { payload }));
    const [row] = await readAll(store, "session/a");
    assert.equal(row?.payload, payload);
  },

  "all bytes survive in a payload of bytes": async ({ store, reopen }) => {
    const bytes = new Uint8Array(512).map((_, index) => index % 256);
    await accept(store, write("session/a", 0, { payload: bytes, codec: "raw" }));
    const [row] = await readAll(await reopen(), "session/a");
    assert.deepEqual([...bytesOf(row?.payload)], [...bytes]);
  },

  "bytes that begin inside a larger buffer are stored alone": async ({ store }) => {
    const large = new Uint8Array(100).map((_, index) => index);
    await accept(store, write("session/a", 0, { payload: large.subarray(10, 14), codec: "raw" }));
    const [row] = await readAll(store, "session/a");
    assert.deepEqual([...bytesOf(row?.payload)], [10, 11, 12, 13]);
  },

  "any text can be a title, a status, a goal and a budget": async ({ store, reopen }) => {
    for (const [index, text] of TEXTS.entries()) {
      const facets = { title: text, status: text, goal: text, budget: text };
      await accept(store, write(`session/s${index}`, 0, { facets }));
    }
    const reopened = await reopen();
    for (const [index, text] of TEXTS.entries()) {
      const { facets } = await rowOf(reopened, `session/s${index}`);
      assert.deepEqual([facets.title, facets.status, facets.goal, facets.budget], [text, text, text, text]);
      assert.deepEqual(await streamNames(reopened, { status: text }), [`session/s${index}`]);
    }
  },

  "any text can be an item's id, name, status and key": async ({ store }) => {
    const items = TEXTS.map((text, index) => ({
      kind: "call",
      id: text,
      name: text,
      status: text,
      key: text,
      seq: index + 1,
    }));
    await accept(store, write("session/a", 0, { items }));
    const rows = await listAll(store, { of: "items", kind: "call", stream: "session/a", limit: 4 });
    assert.deepEqual(
      rows.map(({ id, name, status, key }) => [id, name, status, key]),
      TEXTS.map((text) => [text, text, text, text]),
    );
    for (const id of TEXTS)
      assert.deepEqual(await itemIds(store, { kind: "call", stream: "session/a", id }), [id]);
  },

  "any text can be a key": async ({ store }) => {
    const claims = TEXTS.map((key) => ({ key, event: 0 }));
    await accept(store, write("session/a", 0, { claims }));
    const { rows } = await store.list({ of: "keys", namespace: SPACE, keys: TEXTS });
    assert.deepEqual(rows.map(({ key }) => key).sort(), [...TEXTS].sort());
  },

  "a snapshot keeps any text": async ({ store }) => {
    await accept(store, write("session/a", 0));
    const payload = JSON.stringify([...TEXTS, ...ESCAPED]);
    const at = { of: "snapshot", namespace: SPACE, stream: "session/a", fold: "f" } as const;
    await store.put({ ...at, generation: 1, seq: 1, payload, codec: null });
    assert.equal((await store.get({ ...at, upTo: 1 }))?.payload, payload);
  },
};
