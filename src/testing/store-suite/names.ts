/** Names and namespaces: different ones never mix. */

import assert from "node:assert/strict";
import {
  accept,
  batchOf,
  type Cases,
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
  take,
  valuesOf,
  write,
} from "./harness.ts";

const LONG = "x".repeat(127);

/**
 * Valid ids that are similar to each other, or have a meaning for a database, a file system or JavaScript.
 */
const HOSTILE = [
  "a",
  "A",
  "a.",
  "a..",
  "a.b",
  "a_b",
  "a-b",
  "axb",
  "ab",
  "0",
  "00",
  "1e3",
  "NULL",
  "null",
  "true",
  "constructor",
  "toString",
  "hasOwnProperty",
  "valueOf",
  "CON",
  "nul.txt",
  "select",
  `${LONG}y`,
  `${LONG}Y`,
  `${LONG}z`,
  LONG,
];

export const nameCases: Cases = {
  "streams with similar or hostile ids are distinct": async ({ store, reopen }) => {
    for (const id of HOSTILE) await accept(store, write(`session/${id}`, 0, { events: [id] }));
    const reopened = await reopen();
    for (const id of HOSTILE) assert.deepEqual(await valuesOf(reopened, `session/${id}`), [id]);
    const expected = HOSTILE.map((id) => `session/${id}`).sort();
    assert.deepEqual((await streamNames(reopened)).sort(), expected);
  },

  "namespaces with similar or hostile names are distinct": async ({ store, reopen }) => {
    for (const namespace of HOSTILE)
      await accept(store, write("session/s", 0, { events: [namespace] }), { namespace });
    const reopened = await reopen();
    for (const namespace of HOSTILE) {
      assert.deepEqual(await valuesOf(reopened, "session/s", { namespace }), [namespace]);
      assert.deepEqual(await streamNames(reopened, { namespace }), ["session/s"]);
    }
  },

  "stream kinds with similar or hostile names are distinct": async ({ store }) => {
    for (const kind of HOSTILE) await accept(store, write(`${kind}/id`, 0));
    for (const kind of HOSTILE) assert.deepEqual(await streamNames(store, { kind }), [`${kind}/id`]);
  },

  "leases with similar or hostile names are distinct": async ({ store }) => {
    for (const id of HOSTILE) await grant(store, `session/${id}`, id);
    for (const id of HOSTILE) {
      const { lease } = outcomeIs(await take(store, `session/${id}`, "another"), "held");
      assert.equal(lease.holder?.owner, id);
    }
    const listed = (await listAll(store, { of: "leases", limit: 7 })).map(({ name }) => name);
    assert.deepEqual([...listed].sort(), HOSTILE.map((id) => `session/${id}`).sort());
  },

  "owners that differ only in case are different owners": async ({ store }) => {
    await grant(store, "session/a", "Owner");
    outcomeIs(await take(store, "session/a", "owner"), "held");
  },

  "removing a stream does not affect similar names": async ({ store }) => {
    for (const id of HOSTILE) await accept(store, write(`session/${id}`, 0));
    await removeStream(store, "session/a_b");
    await removeStream(store, "session/A");
    const left = HOSTILE.filter((id) => id !== "a_b" && id !== "A");
    assert.deepEqual((await streamNames(store)).sort(), left.map((id) => `session/${id}`).sort());
  },

  "statuses and goals are compared literally": async ({ store }) => {
    for (const [index, id] of HOSTILE.entries()) {
      await accept(store, write(`session/s${index}`, 0, { facets: { status: id, goal: id } }));
    }
    for (const [index, id] of HOSTILE.entries()) {
      assert.deepEqual(await streamNames(store, { status: id, goal: id }), [`session/s${index}`]);
    }
  },
};

const A = { namespace: "tenant-a" };
const B = { namespace: "tenant-b" };

export const namespaceCases: Cases = {
  "a stream of one namespace does not exist in another": async ({ store }) => {
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

  "a key belongs to its namespace": async ({ store }) => {
    const claims = [{ key: "k", event: 0 }];
    await accept(store, write("session/s", 0, { claims }), A);
    await accept(store, write("session/t", 0, { claims }), B);
    assert.deepEqual((await holdersOf(store, ["k"], A.namespace)).get("k"), ["session/s", 1]);
    assert.deepEqual((await holdersOf(store, ["k"], B.namespace)).get("k"), ["session/t", 1]);
    await accept(store, write("session/t", 1, { releases: ["k"] }), B);
    assert.equal((await holdersOf(store, ["k"], A.namespace)).size, 1);
  },

  "a lease belongs to its namespace and guards nothing in another": async ({ store }) => {
    const mine = await grant(store, "session/s", "one", A);
    const guards = [{ lease: "session/s", token: mine.token }];
    const { now } = await refuse(store, "fenced", write("session/s", 0, { guards }), B);
    assert.equal(now, null);
    await grant(store, "session/s", "two", B);
    await accept(store, write("session/s", 0, { guards }), A);
    assert.equal((await listAll(store, { of: "leases", ...A })).length, 1);
    assert.deepEqual(await listAll(store, { of: "leases" }), []);
  },

  "releasing or renewing in one namespace does not affect another": async ({ store }) => {
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

  "collection in one namespace does not affect another": async ({ store }) => {
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

  "removing a stream does not affect the same name in another namespace": async ({ store }) => {
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

  "a batch id may be reused in another namespace": async ({ store }) => {
    const inA = batchOf(write("session/s", 0), { ...A, id: "same" });
    outcomeIs(await store.append(inA), "ok");
    assert.equal(outcomeIs(await store.append({ ...inA, ...B }), "ok").resent, false);
    assert.equal((await headOf(store, "session/s", B.namespace)).seq, 1);
  },
};
