/** Values of any size and any characters. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { bytesOf, type Cases, claiming, headAt, numbered, SPACE, times } from "./harness.ts";

const MEBIBYTE = 2 ** 20;
/** More than 16 MiB, a common limit of databases and protocols. */
const HUGE = 17 * MEBIBYTE;

export const sizeCases: Cases = {
  "a text of 17 MB comes back unchanged": async ({ store }) => {
    const text = `["${"0123456789abcdéf".repeat(HUGE / 16)}"]`;
    await store.write("session/a", 0, { payload: text });
    await store.write("session/a", 1);
    const [row] = await store.writes("session/a", { upTo: 1 });
    assert.ok(row?.payload === text, "the text has changed");
  },

  "17 MB of bytes come back unchanged": async ({ store }) => {
    const payload = randomBytes(HUGE);
    await store.write("session/a", 0, { payload, codec: "raw", sum: crc32(payload) });
    const [row] = await store.writes("session/a");
    assert.ok(payload.equals(bytesOf(row?.payload)), "the bytes have changed");
  },

  "an artifact of 8 MB comes back unchanged": async ({ store }) => {
    const bytes = new Uint8Array(randomBytes(8 * MEBIBYTE));
    const hash = await store.putArtifact(bytes);
    assert.ok(
      Buffer.from(bytes).equals(bytesOf((await store.artifact(hash)) ?? undefined)),
      "the bytes have changed",
    );
  },

  "a write of 1,000 events is one row with all events": async ({ store }) => {
    const claims = numbered(0, 1_000).map((key, event) => ({ key, event }));
    const items = numbered(0, 1_000).map((id, index) => ({ kind: "call", id, seq: index + 1, at: index }));
    await store.write("session/a", 0, { events: numbered(0, 1_000), claims, items });
    assert.equal((await store.writes("session/a")).length, 1);
    assert.deepEqual(await store.values("session/a"), numbered(0, 1_000));
    assert.equal((await store.list({ of: "items", kind: "call", stream: "session/a" })).length, 1_000);
  },

  "a stream of 1,000 writes is read in order": async ({ store }) => {
    for (let seq = 0; seq < 1_000; seq++) await store.write("session/a", seq);
    const firsts = (await store.writes("session/a", { limit: 300 })).map(({ first }) => first);
    assert.deepEqual(
      firsts,
      times(1_000, (index) => index + 1),
    );
  },

  "2,000 streams can be written at once and listed": async ({ store }) => {
    const names = times(2_000, (index) => `session/s${index}`);
    await Promise.all(names.map((name) => store.write(name, 0)));
    assert.deepEqual((await store.streams({ limit: 300 })).sort(), [...names].sort());
    assert.deepEqual(await store.head("session/s1999"), headAt(1));
  },
};

/** Characters that people and models use, and some that have broken a database. */
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

/** JSON escapes these, so the payload is well-formed text. A store must not normalize the escapes. */
const ESCAPED = ["\0", "before\0after", "\ud800", "\udc00 alone", "\ud83d\ud83d\ude00", "\0\ud800\0"];

export const unicodeCases: Cases = {
  "any text in an event is unchanged, also after reopening": async ({ store, reopen }) => {
    const values = [...TEXTS, ...ESCAPED];
    await store.write("session/a", 0, { events: values });
    assert.deepEqual(await store.values("session/a"), values);
    assert.deepEqual(await (await reopen()).values("session/a"), values);
  },

  "JSON escapes of NUL and lone surrogates are unchanged byte for byte": async ({ store }) => {
    const payload = String.raw`["\u0000","a\u0000b","\ud800","\uDC00","\ud83d\ude00","\u00e9"]`;
    await store.write("session/a", 0, { events: Array(6).fill(0), payload });
    const [row] = await store.writes("session/a");
    assert.equal(row?.payload, payload);
  },

  "a text payload is unchanged, including spaces, order and duplicate members": async ({ store }) => {
    const payload = ' [ { "b" : 1.0e2 , "a" : -0 , "a" : 12345678901234567890 } ]\n';
    await store.write("session/a", 0, { payload });
    const [row] = await store.writes("session/a");
    assert.equal(row?.payload, payload);
  },

  "a byte payload may have any bytes": async ({ store, reopen }) => {
    const bytes = new Uint8Array(512).map((_, index) => index % 256);
    await store.write("session/a", 0, { payload: bytes, codec: "raw" });
    const [row] = await (await reopen()).writes("session/a");
    assert.deepEqual([...bytesOf(row?.payload)], [...bytes]);
  },

  "a view into a larger buffer is stored without the rest of the buffer": async ({ store }) => {
    const large = new Uint8Array(100).map((_, index) => index);
    await store.write("session/a", 0, { payload: large.subarray(10, 14), codec: "raw" });
    const [row] = await store.writes("session/a");
    assert.deepEqual([...bytesOf(row?.payload)], [10, 11, 12, 13]);
  },

  "any text can be a title, a status, a goal and a budget": async ({ store, reopen }) => {
    for (const [index, text] of TEXTS.entries()) {
      const facets = { title: text, status: text, goal: text, budget: text };
      await store.write(`session/s${index}`, 0, { facets });
    }
    const reopened = await reopen();
    for (const [index, text] of TEXTS.entries()) {
      const { facets } = await reopened.row(`session/s${index}`);
      assert.deepEqual([facets.title, facets.status, facets.goal, facets.budget], [text, text, text, text]);
      assert.deepEqual(await reopened.streams({ status: text }), [`session/s${index}`]);
    }
  },

  "any text can be an item's id, name, status and key": async ({ store }) => {
    const fields = (text: string) => ({ id: text, name: text, status: text, key: text });
    const items = TEXTS.map((text, index) => ({ kind: "call", ...fields(text), seq: index + 1 }));
    await store.write("session/a", 0, { items });
    const rows = await store.list({ of: "items", kind: "call", stream: "session/a", limit: 4 });
    const found = rows.map(({ id, name, status, key }) => ({ id, name, status, key }));
    assert.deepEqual(found, TEXTS.map(fields));
    for (const id of TEXTS) {
      assert.deepEqual(await store.items({ kind: "call", stream: "session/a", id }), [id]);
    }
  },

  "any text can be a key": async ({ store }) => {
    await store.write("session/a", 0, claiming(...TEXTS));
    assert.deepEqual([...(await store.holders(TEXTS)).keys()].sort(), [...TEXTS].sort());
  },

  "a snapshot may be any text": async ({ store }) => {
    await store.write("session/a", 0);
    const payload = JSON.stringify([...TEXTS, ...ESCAPED]);
    const at = { of: "snapshot", namespace: SPACE, stream: "session/a", fold: "f" } as const;
    await store.port.put({ ...at, generation: 1, seq: 1, payload, codec: null });
    assert.equal((await store.port.get({ ...at, upTo: 1 }))?.payload, payload);
  },
};
