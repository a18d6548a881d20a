/** Names and namespaces: different ones never mix. */

import assert from "node:assert/strict";
import { batchOf, type Cases, claiming, headAt, outcomeIs, SPACE, write } from "./harness.ts";

const LONG = "x".repeat(127);

/** Valid ids that are similar, or have a meaning for a database, a file system or JavaScript. */
const HOSTILE = [
  ..."a A a. a.. a.b a_b a-b axb ab 0 00 1e3 NULL null true constructor toString hasOwnProperty".split(" "),
  ...["valueOf", "CON", "nul.txt", "select", `${LONG}y`, `${LONG}Y`, `${LONG}z`, LONG],
];

export const nameCases: Cases = {
  "streams with similar or hostile ids are distinct": async ({ store, reopen }) => {
    for (const id of HOSTILE) await store.write(`session/${id}`, 0, { events: [id] });
    const reopened = await reopen();
    for (const id of HOSTILE) assert.deepEqual(await reopened.values(`session/${id}`), [id]);
    const expected = HOSTILE.map((id) => `session/${id}`).sort();
    assert.deepEqual((await reopened.streams()).sort(), expected);
  },

  "namespaces with similar or hostile names are distinct": async ({ store, reopen }) => {
    for (const namespace of HOSTILE) {
      await store.accept(write("session/s", 0, { events: [namespace] }), { namespace });
    }
    const reopened = await reopen();
    for (const namespace of HOSTILE) {
      assert.deepEqual(await reopened.values("session/s", { namespace }), [namespace]);
      assert.deepEqual(await reopened.streams({ namespace }), ["session/s"]);
    }
  },

  "namespaces are listed by name, once each, removed streams included": async ({ store, reopen }) => {
    for (const namespace of [...HOSTILE, SPACE]) {
      await store.accept(write("session/s", 0), { namespace });
      await store.accept(write("session/t", 0), { namespace });
    }
    await store.remove("session/s");
    await store.remove("session/t");
    const { rows, cursor } = await (await reopen()).port.list<"namespaces">({ of: "namespaces" });
    assert.equal(cursor, null);
    assert.deepEqual(
      rows.map(({ namespace }) => namespace),
      [...new Set([...HOSTILE, SPACE])].sort(),
    );
  },

  "stream kinds with similar or hostile names are distinct": async ({ store }) => {
    for (const kind of HOSTILE) await store.write(`${kind}/id`, 0);
    for (const kind of HOSTILE) assert.deepEqual(await store.streams({ kind }), [`${kind}/id`]);
  },

  "leases with similar or hostile names are distinct": async ({ store }) => {
    for (const id of HOSTILE) await store.grant(`session/${id}`, id);
    for (const id of HOSTILE) {
      const lease = await store.held(`session/${id}`, "another");
      assert.equal(lease.holder?.owner, id);
    }
    const listed = (await store.list({ of: "leases", limit: 7 })).map(({ name }) => name);
    assert.deepEqual([...listed].sort(), HOSTILE.map((id) => `session/${id}`).sort());
  },

  "owners that differ only in case are different owners": async ({ store }) => {
    await store.grant("session/a", "Owner");
    await store.held("session/a", "owner");
  },

  "removing a stream does not affect similar names": async ({ store }) => {
    for (const id of HOSTILE) await store.write(`session/${id}`, 0);
    await store.remove("session/a_b");
    await store.remove("session/A");
    const left = HOSTILE.filter((id) => id !== "a_b" && id !== "A");
    assert.deepEqual((await store.streams()).sort(), left.map((id) => `session/${id}`).sort());
  },

  "statuses and goals are compared literally": async ({ store }) => {
    for (const [index, id] of HOSTILE.entries()) {
      await store.write(`session/s${index}`, 0, { facets: { status: id, goal: id } });
    }
    for (const [index, id] of HOSTILE.entries()) {
      assert.deepEqual(await store.streams({ status: id, goal: id }), [`session/s${index}`]);
    }
  },
};

const A = { namespace: "tenant-a" };
const B = { namespace: "tenant-b" };

export const namespaceCases: Cases = {
  "a stream of one namespace does not exist in another": async ({ store }) => {
    await store.accept(write("session/s", 0, { events: ["of a"] }), A);
    assert.deepEqual(await store.writes("session/s", B), []);
    assert.deepEqual(await store.head("session/s", B.namespace), headAt(0));
    await store.accept(write("session/s", 0, { events: ["of b"] }), B);
    assert.deepEqual(await store.values("session/s", A), ["of a"]);
    assert.deepEqual(await store.values("session/s", B), ["of b"]);
  },

  "lists show only their own namespace": async ({ store }) => {
    const items = [{ kind: "call", id: "of-a", seq: 1, at: 1 }];
    await store.accept(write("session/s", 0, { items }), A);
    await store.accept(write("session/t", 0), B);
    assert.deepEqual(await store.streams(A), ["session/s"]);
    assert.deepEqual(await store.streams(B), ["session/t"]);
    assert.deepEqual(await store.streams(), []);
    assert.deepEqual(await store.items({ kind: "call", open: true, ...B }), []);
    assert.deepEqual(await store.items({ kind: "call", open: true, ...A }), ["of-a"]);
  },

  "a key belongs to its namespace": async ({ store }) => {
    const claims = [{ key: "k", event: 0 }];
    await store.accept(write("session/s", 0, { claims }), A);
    await store.accept(write("session/t", 0, { claims }), B);
    assert.deepEqual((await store.holders(["k"], A.namespace)).get("k"), ["session/s", 1]);
    assert.deepEqual((await store.holders(["k"], B.namespace)).get("k"), ["session/t", 1]);
    await store.accept(write("session/t", 1, { releases: ["k"] }), B);
    assert.equal((await store.holders(["k"], A.namespace)).size, 1);
  },

  "a lease belongs to its namespace and guards nothing in another": async ({ store }) => {
    const mine = await store.grant("session/s", "one", A);
    const guards = [{ lease: "session/s", token: mine.token }];
    await store.refuse("fenced", write("session/s", 0, { guards }), { now: null }, B);
    await store.grant("session/s", "two", B);
    await store.accept(write("session/s", 0, { guards }), A);
    assert.equal((await store.list({ of: "leases", ...A })).length, 1);
    assert.deepEqual(await store.list({ of: "leases" }), []);
  },

  "releasing or renewing in one namespace does not affect another": async ({ store }) => {
    const lease = { lease: "session/s", token: (await store.grant("session/s", "one", A)).token };
    const released = await store.port.lease({ act: "release", ...B, lease });
    assert.equal(outcomeIs(released, "released").wasOurs, false);
    const renewed = await store.port.lease({ act: "renew", ...B, leases: [lease], ttlMs: 1_000 });
    assert.deepEqual(outcomeIs(renewed, "renewed").lost, [lease]);
    await store.accept(write("session/s", 0, { guards: [lease] }), A);
  },

  "an artifact of one namespace cannot be read or referred to in another": async ({ store }) => {
    const hash = await store.putArtifact("secret", A);
    assert.equal(await store.hasArtifact(hash, B.namespace), false);
    await store.refuse("missing", write("session/s", 0, { artifacts: [hash] }), { artifact: hash }, B);
    await store.accept(write("session/s", 0, { artifacts: [hash] }), A);
  },

  "collection in one namespace does not affect another": async ({ store }) => {
    const hash = await store.putArtifact("same bytes", A);
    await store.putArtifact("same bytes", B);
    outcomeIs(await store.port.remove({ of: "artifacts", ...B, putBefore: 99_000 }), "removed");
    assert.equal(await store.hasArtifact(hash, A.namespace), true);
    assert.equal(await store.hasArtifact(hash, B.namespace), false);
  },

  "a reference in one namespace does not spare the artifact of another": async ({ store }) => {
    const hash = await store.putArtifact("same bytes", A);
    await store.putArtifact("same bytes", B);
    await store.accept(write("session/s", 0, { artifacts: [hash] }), A);
    const outcome = await store.port.remove({ of: "artifacts", ...B, putBefore: 99_000 });
    assert.deepEqual(outcome, { outcome: "removed", count: 1 });
  },

  "a snapshot belongs to its namespace": async ({ store }) => {
    await store.accept(write("session/s", 0), A);
    await store.accept(write("session/s", 0), B);
    const at = { of: "snapshot", stream: "session/s", fold: "f" } as const;
    await store.port.put({ ...at, ...A, generation: 1, seq: 1, payload: "of a", codec: null });
    assert.equal(await store.port.get({ ...at, ...B, upTo: 9 }), null);
    assert.deepEqual((await store.port.list({ of: "snapshots", ...B, stream: "session/s" })).rows, []);
    assert.equal((await store.port.get({ ...at, ...A, upTo: 9 }))?.payload, "of a");
  },

  "removing a stream does not affect the same name in another namespace": async ({ store }) => {
    await store.accept(write("session/s", 0, claiming("k")), A);
    await store.accept(write("session/s", 0, claiming("k")), B);
    await store.remove("session/s", A);
    assert.equal((await store.writes("session/s", B)).length, 1);
    assert.equal((await store.holders(["k"], B.namespace)).size, 1);
    assert.deepEqual(await store.head("session/s", A.namespace), headAt(0, 2));
  },

  "a stream cannot fork a parent of another namespace": async ({ store }) => {
    await store.accept(write("session/s", 0), A);
    const fork = { stream: "session/s", generation: 1, seq: 1 };
    await store.refuse(
      "conflict",
      write("session/t", 1, { fork }),
      { stream: "session/s", head: headAt(0) },
      B,
    );
  },

  "a batch id may be reused in another namespace": async ({ store }) => {
    const inA = batchOf(write("session/s", 0), { ...A, id: "same" });
    outcomeIs(await store.port.append(inA), "ok");
    assert.equal(outcomeIs(await store.port.append({ ...inA, ...B }), "ok").resent, false);
    assert.equal((await store.head("session/s", B.namespace)).seq, 1);
  },
};
