import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import type { Batch } from "../../store.ts";
import {
  accept,
  batchOf,
  bytesOf,
  eventsOf,
  grant,
  headOf,
  putArtifact,
  readAll,
  refuse,
  rejectsWith,
  rowOf,
  write,
} from "./acts.ts";
import type { Cases } from "./trial.ts";

const MALFORMED: Readonly<Record<string, Batch>> = {
  "two writes to one stream": batchOf([write("session/a", 0), write("session/a", 1)]),
  "a write without events": batchOf([write("session/b", 0), write("session/a", 0, { count: 0 })]),
  "a claim for an event behind the write's last": batchOf(
    write("session/a", 0, { events: [1, 2], claims: [{ key: "k", event: 2 }] }),
  ),
  "a claim for an event before the write's first": batchOf(
    write("session/a", 0, { claims: [{ key: "k", event: -1 }] }),
  ),
  "a fork that does not begin where it forks": batchOf(
    write("session/a", 2, { fork: { stream: "session/parent", generation: 1, seq: 3 } }),
  ),
};

const malformedCases = Object.entries(MALFORMED).map(([what, batch]): [string, Cases[string]] => [
  `a batch with ${what} is rejected as a mistake and leaves nothing behind`,
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

  "the events of a write get consecutive seqs behind those that were there": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: ["a", "b"] }));
    const heads = await accept(store, write("session/a", 2, { events: ["c", "d", "e"] }));
    assert.deepEqual(heads, [{ generation: 1, seq: 5 }]);
    const expected = ["a", "b", "c", "d", "e"].map((value, index) => [index + 1, value]);
    assert.deepEqual(await eventsOf(store, "session/a"), expected);
    assert.deepEqual(await headOf(store, "session/a"), { generation: 1, seq: 5 });
  },

  "a write is one stored row and keeps everything that it was given": async ({ store }) => {
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

  "a payload of text comes back as text, one of bytes as bytes": async ({ store }) => {
    await accept(store, write("session/a", 0, { payload: '["text"]' }));
    await accept(store, write("session/a", 1, { payload: Buffer.from('["bytes"]') }));
    const [text, bytes] = await readAll(store, "session/a");
    assert.equal(text?.payload, '["text"]');
    assert.ok(bytes?.payload instanceof Uint8Array);
    assert.equal(Buffer.from(bytes.payload).toString(), '["bytes"]');
    assert.equal(text?.codec, null);
  },

  "changing a payload after it was stored or read changes nothing": async ({ store }) => {
    const payload = new Uint8Array(Buffer.from("[1]"));
    await accept(store, write("session/a", 0, { payload }));
    payload.fill(0);
    const [row] = await readAll(store, "session/a");
    bytesOf(row?.payload).fill(0);
    assert.deepEqual(await eventsOf(store, "session/a"), [[1, 1]]);
  },

  "a stream knows when its first and its latest write were made": async ({ store }) => {
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

  "a write may carry everything at once": async ({ store }) => {
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
