/** One write to one stream: what is stored, what is refused, and conflicts between writers. */

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import type { Batch, Store } from "../../store.ts";
import {
  accept,
  batchOf,
  bytesOf,
  type Cases,
  eventsOf,
  grant,
  headOf,
  holdersOf,
  itemIds,
  putArtifact,
  readAll,
  refuse,
  rejectsWith,
  rowOf,
  write,
} from "./harness.ts";

const MALFORMED: Readonly<Record<string, Batch>> = {
  "two writes to one stream": batchOf([write("session/a", 0), write("session/a", 1)]),
  "a write without events": batchOf([write("session/b", 0), write("session/a", 0, { count: 0 })]),
  "a claim for an event after its last": batchOf(
    write("session/a", 0, { events: [1, 2], claims: [{ key: "k", event: 2 }] }),
  ),
  "a claim for an event before its first": batchOf(
    write("session/a", 0, { claims: [{ key: "k", event: -1 }] }),
  ),
  "a fork that does not begin where it forks": batchOf(
    write("session/a", 2, { fork: { stream: "session/parent", generation: 1, seq: 3 } }),
  ),
};

const malformedCases = Object.entries(MALFORMED).map(([what, batch]): [string, Cases[string]] => [
  `a batch with ${what} is rejected with BATCH_INVALID and leaves nothing behind`,
  async ({ store }) => {
    await accept(store, write("session/parent", 0, { events: [1, 2, 3] }));
    await rejectsWith("BATCH_INVALID", () => store.append(batch));
    for (const { stream } of batch.writes) assert.equal((await headOf(store, stream)).seq, 0);
  },
]);

export const appendCases: Cases = {
  "a stream that was never written is gone, at generation 1 and seq 0": async ({ store }) => {
    const { stream, writes, more } = await store.read({
      namespace: "default",
      stream: "session/a",
      after: 0,
    });
    assert.deepEqual(stream.head, { generation: 1, seq: 0 });
    assert.equal(stream.stream, "session/a");
    assert.equal(stream.state, "gone");
    assert.equal(stream.parent, null);
    assert.deepEqual(writes, []);
    assert.equal(more, false);
  },

  "the first event of a stream has seq 1": async ({ store }) => {
    const heads = await accept(store, write("session/a", 0, { events: ["first"] }));
    assert.deepEqual(heads, [{ generation: 1, seq: 1 }]);
    assert.deepEqual(await eventsOf(store, "session/a"), [[1, "first"]]);
  },

  "a write's events get the next consecutive seqs": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: ["a", "b"] }));
    const heads = await accept(store, write("session/a", 2, { events: ["c", "d", "e"] }));
    assert.deepEqual(heads, [{ generation: 1, seq: 5 }]);
    const expected = ["a", "b", "c", "d", "e"].map((value, index) => [index + 1, value]);
    assert.deepEqual(await eventsOf(store, "session/a"), expected);
    assert.deepEqual(await headOf(store, "session/a"), { generation: 1, seq: 5 });
  },

  "a write is stored as one row with all its fields": async ({ store }) => {
    const payload = new Uint8Array([0, 1, 2, 255]);
    const sum = crc32(payload);
    const given = write("session/a", 0, { events: [1, 2, 3], payload, codec: "test", sum, at: 1_234_567 });
    await accept(store, given, { id: "the-batch" });
    const rows = await readAll(store, "session/a");
    assert.equal(rows.length, 1);
    const [row] = rows;
    assert.deepEqual(
      { ...row, payload: Array.from(bytesOf(row?.payload)) },
      { first: 1, last: 3, batch: "the-batch", payload: [0, 1, 2, 255], codec: "test", sum, at: 1_234_567 },
    );
  },

  "a text payload comes back as text, a byte payload as bytes": async ({ store }) => {
    await accept(store, write("session/a", 0, { payload: '["text"]' }));
    await accept(store, write("session/a", 1, { payload: Buffer.from('["bytes"]') }));
    const [text, bytes] = await readAll(store, "session/a");
    assert.equal(text?.payload, '["text"]');
    assert.ok(bytes?.payload instanceof Uint8Array);
    assert.equal(Buffer.from(bytes.payload).toString(), '["bytes"]');
    assert.equal(text?.codec, null);
  },

  "changing a payload buffer after a write or a read does not change the stored payload": async ({
    store,
  }) => {
    const payload = new Uint8Array(Buffer.from("[1]"));
    await accept(store, write("session/a", 0, { payload }));
    payload.fill(0);
    const [row] = await readAll(store, "session/a");
    bytesOf(row?.payload).fill(0);
    assert.deepEqual(await eventsOf(store, "session/a"), [[1, 1]]);
  },

  "a stream's row has the times of its first and latest write": async ({ store }) => {
    await accept(store, write("session/a", 0, { at: 5_000 }));
    await accept(store, write("session/a", 1, { at: 7_000 }));
    const { createdAt, updatedAt, state } = await rowOf(store, "session/a");
    assert.deepEqual([createdAt, updatedAt, state], [5_000, 7_000, "live"]);
  },

  "a lost lease is reported before a conflict": async ({ store }) => {
    await accept(store, write("session/a", 0));
    await refuse(store, "fenced", write("session/a", 7, { guards: [{ lease: "session/a", token: 1 }] }));
  },

  "a conflict is reported before a taken key": async ({ store }) => {
    await accept(store, write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    await refuse(store, "conflict", write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
  },

  "a taken key is reported before a missing artifact": async ({ store }) => {
    await accept(store, write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    const artifacts = ["0".repeat(64)];
    await refuse(store, "taken", write("session/b", 0, { claims: [{ key: "k", event: 0 }], artifacts }));
  },

  "a lost lease of a later write is reported before a conflict of an earlier one": async ({ store }) => {
    await accept(store, write("session/a", 0));
    const guards = [{ lease: "session/b", token: 9 }];
    await refuse(store, "fenced", [write("session/a", 0), write("session/b", 0, { guards })]);
  },

  "one write may have guards, claims, releases, artifacts, facets and items": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    const artifact = await putArtifact(store, "large");
    const full = write("session/a", 0, {
      events: [1, 2],
      guards: [{ lease: "session/a", token }],
      claims: [{ key: "k", event: 1 }],
      releases: ["other"],
      artifacts: [artifact],
      facets: { status: "running", title: "T", goal: "g", openCalls: 1, expiresAt: 9, budget: "{}" },
      items: [{ kind: "call", id: "c1", seq: 1, status: "issued", name: "charge", key: "k", at: 5 }],
    });
    assert.deepEqual(await accept(store, full), [{ generation: 1, seq: 2 }]);
  },

  ...Object.fromEntries(malformedCases),
};

/** Appends one event at the head, and retries after conflicts. */
async function appendWithRetry(store: Store, stream: string, value: string): Promise<void> {
  let head = await headOf(store, stream);
  for (;;) {
    const { generation, seq } = head;
    const outcome = await store.append(batchOf(write(stream, seq, { generation, events: [value] })));
    if (outcome.outcome === "ok") return;
    assert.equal(outcome.outcome, "conflict");
    if (outcome.outcome === "conflict") head = outcome.head;
  }
}

export const conflictCases: Cases = {
  "a write at an old seq is a conflict that reports the head": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2] }));
    const { stream, head } = await refuse(store, "conflict", write("session/a", 0));
    assert.equal(stream, "session/a");
    assert.deepEqual(head, { generation: 1, seq: 2 });
  },

  "a write beyond the head is a conflict": async ({ store }) => {
    await accept(store, write("session/a", 0));
    const { head } = await refuse(store, "conflict", write("session/a", 2));
    assert.deepEqual(head, { generation: 1, seq: 1 });
  },

  "a write in the middle of another write's events is a conflict": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2, 3] }));
    await refuse(store, "conflict", write("session/a", 2));
  },

  "a write with another generation is a conflict": async ({ store }) => {
    await refuse(store, "conflict", write("session/a", 0, { generation: 2 }));
    await accept(store, write("session/a", 0));
    const { head } = await refuse(store, "conflict", write("session/a", 1, { generation: 2 }));
    assert.deepEqual(head, { generation: 1, seq: 1 });
  },

  "a write at seq 3 of a stream that never existed is a conflict": async ({ store }) => {
    const { head } = await refuse(store, "conflict", write("session/a", 3));
    assert.deepEqual(head, { generation: 1, seq: 0 });
  },

  "a refused write leaves nothing behind": async ({ store }) => {
    await accept(store, write("session/a", 0, { facets: { status: "before" }, at: 1_000 }));
    const refused = write("session/a", 0, {
      at: 9_000,
      claims: [{ key: "k", event: 0 }],
      facets: { status: "after" },
      items: [{ kind: "call", id: "c" }],
    });
    await refuse(store, "conflict", refused);
    const { facets, updatedAt, head } = await rowOf(store, "session/a");
    assert.equal(facets.status, "before");
    assert.equal(updatedAt, 1_000);
    assert.deepEqual(head, { generation: 1, seq: 1 });
    assert.deepEqual(await itemIds(store, { kind: "call", stream: "session/a" }), []);
    assert.equal((await holdersOf(store, ["k"])).size, 0);
    assert.equal((await eventsOf(store, "session/a")).length, 1);
  },

  "if two handles write at the same seq, exactly one succeeds": async ({ store, another }) => {
    const other = await another();
    for (let seq = 0; seq < 10; seq++) {
      const outcomes = await Promise.all(
        [store, other].map((each) => each.append(batchOf(write("session/a", seq)))),
      );
      assert.deepEqual(outcomes.map(({ outcome }) => outcome).sort(), ["conflict", "ok"]);
      const loser = outcomes.find(({ outcome }) => outcome === "conflict");
      assert.deepEqual(loser?.outcome === "conflict" && loser.head, { generation: 1, seq: seq + 1 });
    }
    assert.equal((await eventsOf(store, "session/a")).length, 10);
  },

  "writers that retry after conflicts all succeed, without gaps or duplicates": async ({
    store,
    another,
  }) => {
    const other = await another();
    const values = Array.from({ length: 40 }, (_, index) => `value ${index}`);
    await Promise.all(
      values.map((value, index) => appendWithRetry(index % 2 ? store : other, "session/a", value)),
    );
    const events = await eventsOf(store, "session/a");
    assert.deepEqual(
      events.map(([seq]) => seq),
      values.map((_, index) => index + 1),
    );
    assert.deepEqual(events.map(([, value]) => value).sort(), values.sort());
  },

  "a write by one handle is visible to another handle at once": async ({ store, another }) => {
    const other = await another();
    await accept(store, write("session/a", 0, { events: ["by one"] }));
    assert.deepEqual(await eventsOf(other, "session/a"), [[1, "by one"]]);
    await accept(other, write("session/a", 1, { events: ["by the other"] }));
    assert.deepEqual(await headOf(store, "session/a"), { generation: 1, seq: 2 });
  },
};
