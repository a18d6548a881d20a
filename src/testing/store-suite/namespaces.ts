import assert from "node:assert/strict";
import {
  accept,
  batchOf,
  grant,
  hasArtifact,
  headOf,
  holdersOf,
  itemIds,
  listAll,
  outcomeIs,
  putArtifact,
  readAll,
  refuse,
  removeStream,
  streamNames,
  valuesOf,
  write,
} from "./acts.ts";
import type { Cases } from "./trial.ts";

const A = { namespace: "tenant-a" };
const B = { namespace: "tenant-b" };

export const namespaceCases: Cases = {
  "a stream of one namespace is not there in another": async ({ store }) => {
    await accept(store, write("session/s", 0, { events: ["of a"] }), A);
    assert.deepEqual(await readAll(store, "session/s", B), []);
    assert.deepEqual(await headOf(store, "session/s", B.namespace), { generation: 1, seq: 0 });
    await accept(store, write("session/s", 0, { events: ["of b"] }), B);
    assert.deepEqual(await valuesOf(store, "session/s", A), ["of a"]);
    assert.deepEqual(await valuesOf(store, "session/s", B), ["of b"]);
  },

  "lists show only their own namespace": async ({ store }) => {
    const items = [{ kind: "call", id: "of-a", seq: 1, at: 1 }];
    await accept(store, write("session/s", 0, { items }), A);
    await accept(store, write("session/t", 0), B);
    assert.deepEqual(await streamNames(store, A), ["session/s"]);
    assert.deepEqual(await streamNames(store, B), ["session/t"]);
    assert.deepEqual(await streamNames(store), []);
    assert.deepEqual(await itemIds(store, { kind: "call", open: true, ...B }), []);
    assert.deepEqual(await itemIds(store, { kind: "call", open: true, ...A }), ["of-a"]);
  },

  "a key is held per namespace": async ({ store }) => {
    const claims = [{ key: "k", event: 0 }];
    await accept(store, write("session/s", 0, { claims }), A);
    await accept(store, write("session/t", 0, { claims }), B);
    assert.deepEqual((await holdersOf(store, ["k"], A.namespace)).get("k"), ["session/s", 1]);
    assert.deepEqual((await holdersOf(store, ["k"], B.namespace)).get("k"), ["session/t", 1]);
    await accept(store, write("session/t", 1, { releases: ["k"] }), B);
    assert.equal((await holdersOf(store, ["k"], A.namespace)).size, 1);
  },

  "a lease is held per namespace, and guards nothing in another": async ({ store }) => {
    const mine = await grant(store, "session/s", "one", A);
    const guards = [{ lease: "session/s", token: mine.token }];
    const { now } = await refuse(store, "fenced", write("session/s", 0, { guards }), B);
    assert.equal(now, null);
    await grant(store, "session/s", "two", B);
    await accept(store, write("session/s", 0, { guards }), A);
    assert.equal((await listAll(store, { of: "leases", ...A })).length, 1);
    assert.deepEqual(await listAll(store, { of: "leases" }), []);
  },

  "releasing or renewing in one namespace leaves the lease of another": async ({ store }) => {
    const lease = { lease: "session/s", token: (await grant(store, "session/s", "one", A)).token };
    const released = await store.lease({ act: "release", ...B, lease });
    assert.equal(outcomeIs(released, "released").wasOurs, false);
    const renewed = await store.lease({ act: "renew", ...B, leases: [lease], ttlMs: 1_000 });
    assert.deepEqual(outcomeIs(renewed, "renewed").lost, [lease]);
    await accept(store, write("session/s", 0, { guards: [lease] }), A);
  },

  "an artifact of one namespace cannot be read or referred to in another": async ({ store }) => {
    const hash = await putArtifact(store, "secret", A);
    assert.equal(await hasArtifact(store, hash, B.namespace), false);
    const { artifact } = await refuse(store, "missing", write("session/s", 0, { artifacts: [hash] }), B);
    assert.equal(artifact, hash);
    await accept(store, write("session/s", 0, { artifacts: [hash] }), A);
  },

  "collection in one namespace leaves the artifacts of another": async ({ store }) => {
    const hash = await putArtifact(store, "same bytes", A);
    await putArtifact(store, "same bytes", B);
    outcomeIs(await store.remove({ of: "artifacts", ...B, putBefore: 99_000 }), "removed");
    assert.equal(await hasArtifact(store, hash, A.namespace), true);
    assert.equal(await hasArtifact(store, hash, B.namespace), false);
  },

  "a reference in one namespace does not spare the artifact of another": async ({ store }) => {
    const hash = await putArtifact(store, "same bytes", A);
    await putArtifact(store, "same bytes", B);
    await accept(store, write("session/s", 0, { artifacts: [hash] }), A);
    const outcome = await store.remove({ of: "artifacts", ...B, putBefore: 99_000 });
    assert.deepEqual(outcome, { outcome: "removed", count: 1 });
  },

  "a snapshot belongs to its namespace": async ({ store }) => {
    await accept(store, write("session/s", 0), A);
    await accept(store, write("session/s", 0), B);
    const at = { of: "snapshot", stream: "session/s", fold: "f" } as const;
    await store.put({ ...at, ...A, generation: 1, seq: 1, payload: "of a", codec: null });
    assert.equal(await store.get({ ...at, ...B, upTo: 9 }), null);
    assert.deepEqual((await store.list({ of: "snapshots", ...B, stream: "session/s" })).rows, []);
    assert.equal((await store.get({ ...at, ...A, upTo: 9 }))?.payload, "of a");
  },

  "removing a stream leaves its namesake": async ({ store }) => {
    await accept(store, write("session/s", 0, { claims: [{ key: "k", event: 0 }] }), A);
    await accept(store, write("session/s", 0, { claims: [{ key: "k", event: 0 }] }), B);
    await removeStream(store, "session/s", A.namespace);
    assert.equal((await readAll(store, "session/s", B)).length, 1);
    assert.equal((await holdersOf(store, ["k"], B.namespace)).size, 1);
    assert.deepEqual(await headOf(store, "session/s", A.namespace), { generation: 2, seq: 0 });
  },

  "a stream cannot fork a parent of another namespace": async ({ store }) => {
    await accept(store, write("session/s", 0), A);
    const fork = { stream: "session/s", generation: 1, seq: 1 };
    const { stream, head } = await refuse(store, "conflict", write("session/t", 1, { fork }), B);
    assert.deepEqual([stream, head], ["session/s", { generation: 1, seq: 0 }]);
  },

  "a batch id of one namespace says nothing in another": async ({ store }) => {
    const inA = batchOf(write("session/s", 0), { ...A, id: "same" });
    outcomeIs(await store.append(inA), "ok");
    assert.equal(outcomeIs(await store.append({ ...inA, ...B }), "ok").resent, false);
    assert.equal((await headOf(store, "session/s", B.namespace)).seq, 1);
  },
};
