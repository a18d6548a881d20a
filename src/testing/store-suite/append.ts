/** One write to one stream: what is stored, what is refused, and conflicts between writers. */

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import type { Write } from "../../store.ts";
import type { Cases, TestStore } from "./harness.ts";
import { bytesOf, claiming, guardedBy, headAt, outcomeIs, rejectsWith, times, write } from "./harness.ts";

const MALFORMED: Readonly<Record<string, Write | Write[]>> = {
  "two writes to one stream": [write("session/a", 0), write("session/a", 1)],
  "a write without events": [write("session/b", 0), write("session/a", 0, { count: 0 })],
  "a claim for an event after its last": write("session/a", 0, {
    events: [1, 2],
    claims: [{ key: "k", event: 2 }],
  }),
  "a claim for an event before its first": write("session/a", 0, { claims: [{ key: "k", event: -1 }] }),
  "a fork that does not begin where it forks": write("session/a", 2, {
    fork: { stream: "session/parent", generation: 1, seq: 3 },
  }),
};

const malformedCases = Object.entries(MALFORMED).map(([what, writes]): [string, Cases[string]] => [
  `a batch with ${what} is rejected with BATCH_INVALID and leaves nothing behind`,
  async ({ store }) => {
    await store.write("session/parent", 0, { events: [1, 2, 3] });
    await rejectsWith("BATCH_INVALID", () => store.send(writes));
    assert.deepEqual(await store.seqs("session/a", "session/b"), [0, 0]);
  },
]);

export const appendCases: Cases = {
  "a stream that was never written is gone, at generation 1 and seq 0": async ({ store }) => {
    await store.rowIs("session/a", { stream: "session/a", head: headAt(0), state: "gone", parent: null });
    const { writes, more } = await store.page("session/a");
    assert.deepEqual([writes, more], [[], false]);
  },

  "the first event of a stream has seq 1": async ({ store }) => {
    assert.deepEqual(await store.write("session/a", 0, { events: ["first"] }), [headAt(1)]);
    assert.deepEqual(await store.events("session/a"), [[1, "first"]]);
  },

  "a write's events get the next consecutive seqs": async ({ store }) => {
    await store.write("session/a", 0, { events: ["a", "b"] });
    assert.deepEqual(await store.write("session/a", 2, { events: ["c", "d", "e"] }), [headAt(5)]);
    const expected = ["a", "b", "c", "d", "e"].map((value, index) => [index + 1, value]);
    assert.deepEqual(await store.events("session/a"), expected);
    assert.deepEqual(await store.head("session/a"), headAt(5));
  },

  "a write is stored as one row with all its fields": async ({ store }) => {
    const payload = new Uint8Array([0, 1, 2, 255]);
    const sum = crc32(payload);
    const given = write("session/a", 0, { events: [1, 2, 3], payload, codec: "test", sum, at: 1_234_567 });
    await store.accept(given, { id: "the-batch" });
    const rows = await store.writes("session/a");
    const found = rows.map((row) => ({ ...row, payload: new Uint8Array(bytesOf(row.payload)) }));
    const fields = { payload, codec: "test", sum, at: 1_234_567 };
    assert.deepEqual(found, [{ first: 1, last: 3, batch: "the-batch", ...fields }]);
  },

  "a text payload comes back as text, a byte payload as bytes": async ({ store }) => {
    await store.write("session/a", 0, { payload: '["text"]' });
    await store.write("session/a", 1, { payload: Buffer.from('["bytes"]') });
    const [text, bytes] = await store.writes("session/a");
    assert.deepEqual([text?.payload, text?.codec], ['["text"]', null]);
    assert.equal(Buffer.from(bytesOf(bytes?.payload)).toString(), '["bytes"]');
  },

  "changing a payload buffer after a write or a read does not change the stored payload": async ({
    store,
  }) => {
    const payload = new Uint8Array(Buffer.from("[1]"));
    await store.write("session/a", 0, { payload });
    payload.fill(0);
    const [row] = await store.writes("session/a");
    bytesOf(row?.payload).fill(0);
    assert.deepEqual(await store.events("session/a"), [[1, 1]]);
  },

  "a stream's row has the times of its first and latest write": async ({ store }) => {
    await store.write("session/a", 0, { at: 5_000 });
    await store.write("session/a", 1, { at: 7_000 });
    await store.rowIs("session/a", { createdAt: 5_000, updatedAt: 7_000, state: "live" });
  },

  "a lost lease is reported before a conflict": async ({ store }) => {
    await store.write("session/a", 0);
    await store.refuse("fenced", write("session/a", 7, guardedBy(1)));
  },

  "a conflict is reported before a taken key": async ({ store }) => {
    await store.write("session/a", 0, claiming("k"));
    await store.refuse("conflict", write("session/a", 0, claiming("k")));
  },

  "a taken key is reported before a missing artifact": async ({ store }) => {
    await store.write("session/a", 0, claiming("k"));
    const artifacts = ["0".repeat(64)];
    await store.refuse("taken", write("session/b", 0, { ...claiming("k"), artifacts }));
  },

  "a lost lease of a later write is reported before a conflict of an earlier one": async ({ store }) => {
    await store.write("session/a", 0);
    await store.refuse("fenced", [write("session/a", 0), write("session/b", 0, guardedBy(9, "session/b"))]);
  },

  "one write may have guards, claims, releases, artifacts, facets and items": async ({ store }) => {
    const { token } = await store.grant("session/a", "one");
    const artifact = await store.putArtifact("large");
    const full = write("session/a", 0, {
      events: [1, 2],
      guards: [{ lease: "session/a", token }],
      claims: [{ key: "k", event: 1 }],
      releases: ["other"],
      artifacts: [artifact],
      facets: { status: "running", title: "T", goal: "g", openCalls: 1, expiresAt: 9, budget: "{}" },
      items: [{ kind: "call", id: "c1", seq: 1, status: "issued", name: "charge", key: "k", at: 5 }],
    });
    assert.deepEqual(await store.accept(full), [headAt(2)]);
  },

  ...Object.fromEntries(malformedCases),
};

/** Appends one event at the head, and retries after conflicts. */
async function appendWithRetry(store: TestStore, stream: string, value: string): Promise<void> {
  let { generation, seq } = await store.head(stream);
  for (;;) {
    const outcome = await store.send(write(stream, seq, { generation, events: [value] }));
    if (outcome.outcome === "ok") return;
    ({ generation, seq } = outcomeIs(outcome, "conflict").head);
  }
}

export const conflictCases: Cases = {
  "a write at an old seq is a conflict that reports the head": async ({ store }) => {
    await store.write("session/a", 0, { events: [1, 2] });
    await store.refuse("conflict", write("session/a", 0), { stream: "session/a", head: headAt(2) });
  },

  "a write beyond the head is a conflict": async ({ store }) => {
    await store.write("session/a", 0);
    await store.refuse("conflict", write("session/a", 2), { head: headAt(1) });
  },

  "a write in the middle of another write's events is a conflict": async ({ store }) => {
    await store.write("session/a", 0, { events: [1, 2, 3] });
    await store.refuse("conflict", write("session/a", 2));
  },

  "a write with another generation is a conflict": async ({ store }) => {
    await store.write("session/a", 0);
    await store.refuse("conflict", write("session/a", 1, { generation: 2 }), { head: headAt(1) });
    await store.remove("session/a");
    await store.refuse("conflict", write("session/a", 0, { generation: 1 }), { head: headAt(0, 2) });
  },

  "a stream that is gone may begin at a later generation": async ({ store }) => {
    await store.write("session/a", 0, { generation: 5 });
    assert.deepEqual(await store.head("session/a"), headAt(1, 5));
    await store.remove("session/a");
    await store.refuse("conflict", write("session/a", 0, { generation: 5 }), { head: headAt(0, 6) });
    await store.write("session/a", 0, { generation: 9 });
    assert.deepEqual(await store.head("session/a"), headAt(1, 9));
  },

  "a write at seq 3 of a stream that never existed is a conflict": async ({ store }) => {
    await store.refuse("conflict", write("session/a", 3), { head: headAt(0) });
  },

  "a refused write leaves nothing behind": async ({ store }) => {
    await store.write("session/a", 0, { facets: { status: "before" }, at: 1_000 });
    const before = await store.row("session/a");
    const parts = { at: 9_000, facets: { status: "after" }, items: [{ kind: "call", id: "c" }] };
    await store.refuse("conflict", write("session/a", 0, { ...claiming("k"), ...parts }));
    assert.deepEqual(await store.row("session/a"), before);
    assert.deepEqual(await store.items({ kind: "call", stream: "session/a" }), []);
    assert.equal((await store.holders(["k"])).size, 0);
    assert.equal((await store.events("session/a")).length, 1);
  },

  "if two handles write at the same seq, exactly one succeeds": async ({ store, another }) => {
    const other = await another();
    for (let seq = 0; seq < 10; seq++) {
      const outcomes = await Promise.all([store, other].map((each) => each.send(write("session/a", seq))));
      const heads = outcomes.flatMap((each) => (each.outcome === "conflict" ? [each.head] : []));
      assert.deepEqual(heads, [headAt(seq + 1)]);
    }
    assert.equal((await store.events("session/a")).length, 10);
  },

  "writers that retry after conflicts all succeed, without gaps or duplicates": async ({
    store,
    another,
  }) => {
    const other = await another();
    const values = times(40, (index) => `value ${index}`);
    await Promise.all(
      values.map((value, index) => appendWithRetry(index % 2 ? store : other, "session/a", value)),
    );
    assert.equal((await store.writes("session/a"))[0]?.first, 1);
    assert.deepEqual((await store.values("session/a")).sort(), values.sort());
  },

  "a write by one handle is visible to another handle at once": async ({ store, another }) => {
    const other = await another();
    await store.write("session/a", 0, { events: ["by one"] });
    assert.deepEqual(await other.events("session/a"), [[1, "by one"]]);
    await other.write("session/a", 1, { events: ["by the other"] });
    assert.deepEqual(await store.head("session/a"), headAt(2));
  },
};
