import assert from "node:assert/strict";
import type { Store } from "../../store.ts";
import {
  accept,
  batchOf,
  eventsOf,
  grant,
  hasArtifact,
  headOf,
  holder,
  holdersOf,
  listAll,
  putArtifact,
  rejectsWith,
  removeStream,
  rowOf,
  SPACE,
  write,
} from "./acts.ts";
import { fork } from "./forks.ts";
import type { Cases } from "./trial.ts";
import { assertNoticed } from "./watching.ts";

const VERBS: Readonly<Record<string, (store: Store) => unknown>> = {
  append: (store) => store.append(batchOf(write("session/a", 0))),
  read: (store) => store.read({ namespace: SPACE, stream: "session/a", after: 0 }),
  list: (store) => store.list({ of: "streams", namespace: SPACE, limit: 1 }),
  put: (store) => putArtifact(store, "late"),
  get: (store) => hasArtifact(store, "0".repeat(64)),
  lease: (store) =>
    store.lease({ act: "take", namespace: SPACE, name: "session/a", holder: holder("one"), ttlMs: 1_000 }),
  remove: (store) => store.remove({ of: "artifacts", namespace: SPACE, putBefore: 1 }),
  check: (store) => store.check(),
};

/** A little of everything that a store can hold. */
async function furnish(store: Store): Promise<string> {
  const hash = await putArtifact(store, "kept");
  await grant(store, "session/a", "one");
  await accept(
    store,
    write("session/a", 0, {
      events: [1, 2, 3],
      artifacts: [hash],
      claims: [{ key: "k", event: 2 }],
      facets: { status: "running", title: "Title", openCalls: 1 },
      items: [{ kind: "call", id: "c1", seq: 2, at: 5 }],
    }),
  );
  await accept(store, fork("session/b", "session/a", 2));
  await accept(store, write("session/gone", 0));
  await removeStream(store, "session/gone");
  const snapshot = { generation: 1, seq: 3, fold: "f", payload: "{}", codec: null };
  await store.put({ of: "snapshot", namespace: SPACE, stream: "session/a", ...snapshot });
  return hash;
}

/** All that can be seen of a furnished store, without what time changes. */
async function inventory(store: Store, hash: string): Promise<unknown> {
  const leases = await listAll(store, { of: "leases" });
  return {
    events: [await eventsOf(store, "session/a"), await eventsOf(store, "session/b", { after: 2 })],
    rows: [
      await rowOf(store, "session/a"),
      await rowOf(store, "session/b"),
      await rowOf(store, "session/gone"),
    ],
    streams: await listAll(store, { of: "streams" }),
    items: await listAll(store, { of: "items", kind: "call" }),
    leases: leases.map(({ name, token, holder: by }) => ({ name, token, by })),
    keys: await holdersOf(store, ["k"]),
    snapshots: await store.list({ of: "snapshots", namespace: SPACE, stream: "session/a" }),
    snapshot: await store.get({ of: "snapshot", namespace: SPACE, stream: "session/a", fold: "f", upTo: 9 }),
    artifact: await hasArtifact(store, hash),
  };
}

export const closingCases: Cases = {
  "closing twice is fine, also at once": async ({ store }) => {
    await Promise.all([store.close(), store.close()]);
    await store.close();
  },

  "every verb of a closed store says that it is closed": async ({ store }) => {
    await accept(store, write("session/a", 0));
    await store.close();
    for (const act of Object.values(VERBS)) await rejectsWith("STORE_CLOSED", () => act(store));
  },

  "closing waits for the appends under way": async ({ store, another }) => {
    const other = await another();
    const pending = Array.from({ length: 30 }, (_, index) =>
      store.append(batchOf(write(`session/s${index}`, 0))),
    );
    await store.close();
    for (const { outcome } of await Promise.all(pending)) assert.equal(outcome, "ok");
    for (let index = 0; index < 30; index++) assert.equal((await headOf(other, `session/s${index}`)).seq, 1);
  },

  "closing one handle leaves the others open": async ({ store, another }) => {
    const other = await another();
    await accept(store, write("session/a", 0));
    await store.close();
    await accept(other, write("session/a", 1));
    assert.equal((await eventsOf(other, "session/a")).length, 2);
  },

  "a closed store tells its watchers nothing more": async ({ store, another }) => {
    const other = await another();
    let told = 0;
    store.watch({ namespace: SPACE }, () => {
      told += 1;
    });
    await store.close();
    await assertNoticed(other, {}, () => accept(other, write("session/a", 0)));
    assert.equal(told, 0);
  },
};

export const reopeningCases: Cases = {
  "everything is there after reopening": async ({ store, reopen }) => {
    const hash = await furnish(store);
    const before = await inventory(store, hash);
    assert.deepEqual(await inventory(await reopen(), hash), before);
  },

  "everything is there in another handle": async ({ store, another }) => {
    const hash = await furnish(store);
    assert.deepEqual(await inventory(await another(), hash), await inventory(store, hash));
  },

  "a stream goes on where it ended": async ({ reopen, store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2] }));
    const reopened = await reopen();
    await accept(reopened, write("session/a", 2, { events: [3] }));
    assert.deepEqual(await eventsOf(reopened, "session/a"), [
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
  },

  "a sound store has no problems, before and after reopening": async ({ store, reopen }) => {
    assert.deepEqual(await store.check(), []);
    await furnish(store);
    assert.deepEqual(await store.check(), []);
    assert.deepEqual(await (await reopen()).check(), []);
  },

  "a store says what it is and where": async ({ store, another }) => {
    assert.ok(store.address.length > 0);
    assert.equal((await another()).address, store.address);
  },
};
