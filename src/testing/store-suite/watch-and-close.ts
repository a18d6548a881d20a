/** Watching for changes, closing, reopening. */

import assert from "node:assert/strict";
import type { Store, WatchRequest } from "../../store.ts";
import { fork } from "./forks.ts";
import {
  accept,
  batchOf,
  type Cases,
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
} from "./harness.ts";

const NOTICED_WITHIN_MS = 5_000;

/** Acts, and waits until the watcher is called. Calls before the act do not count. */
async function assertNoticed(
  watching: Store,
  request: Partial<WatchRequest>,
  act: () => Promise<unknown>,
): Promise<void> {
  let notice = (): void => undefined;
  const noticed = new Promise<boolean>((resolve) => {
    notice = () => resolve(true);
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), NOTICED_WITHIN_MS);
  });
  let hasBegun = false;
  const stop = watching.watch({ namespace: SPACE, ...request }, () => {
    if (hasBegun) notice();
  });
  try {
    hasBegun = true;
    await act();
    assert.ok(await Promise.race([noticed, late]), `nothing was noticed within ${NOTICED_WITHIN_MS} ms`);
  } finally {
    clearTimeout(timer);
    stop();
  }
}

export const watchCases: Cases = {
  "a change by another handle is noticed": async ({ store, another }) => {
    const other = await another();
    await assertNoticed(store, { stream: "session/a" }, () => accept(other, write("session/a", 0)));
    await assertNoticed(store, { stream: "session/a" }, () => accept(other, write("session/a", 1)));
  },

  "a change by the same handle is noticed": async ({ store }) => {
    await assertNoticed(store, { stream: "session/a" }, () => accept(store, write("session/a", 0)));
  },

  "a watcher of the namespace notices changes of any stream, also of new ones": async ({
    store,
    another,
  }) => {
    const other = await another();
    await accept(other, write("session/a", 0));
    await assertNoticed(store, {}, () => accept(other, write("session/a", 1)));
    await assertNoticed(store, {}, () => accept(other, write("session/b", 0)));
  },

  "a removal by another handle is noticed": async ({ store, another }) => {
    const other = await another();
    await accept(other, write("session/a", 0));
    await assertNoticed(store, { stream: "session/a" }, () => removeStream(other, "session/a"));
  },

  "a notified watcher sees the change when it reads": async ({ store, another }) => {
    const other = await another();
    let seen = 0;
    await assertNoticed(store, { stream: "session/a" }, () => accept(other, write("session/a", 0)));
    seen = (await store.read({ namespace: SPACE, stream: "session/a", after: 0 })).stream.head.seq;
    assert.equal(seen, 1);
  },

  "a stopped watcher is not notified, and may stop twice": async ({ store, another }) => {
    const other = await another();
    let calls = 0;
    const stop = store.watch({ namespace: SPACE }, () => {
      calls += 1;
    });
    stop();
    stop();
    await assertNoticed(store, {}, () => accept(other, write("session/a", 0)));
    assert.equal(calls, 0);
  },

  "stopping one watcher does not stop others": async ({ store, another }) => {
    const other = await another();
    const stop = store.watch({ namespace: SPACE, stream: "session/a" }, () => undefined);
    await assertNoticed(store, { stream: "session/a" }, async () => {
      stop();
      await accept(other, write("session/a", 0));
    });
  },
};

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

/** Stores a little of everything. */
async function fill(store: Store): Promise<string> {
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

/** Everything that `fill` stored, except what time changes. */
async function contents(store: Store, hash: string): Promise<unknown> {
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
  "a store may be closed twice, also at once": async ({ store }) => {
    await Promise.all([store.close(), store.close()]);
    await store.close();
  },

  "every verb of a closed store rejects with STORE_CLOSED": async ({ store }) => {
    await accept(store, write("session/a", 0));
    await store.close();
    for (const act of Object.values(VERBS)) await rejectsWith("STORE_CLOSED", () => act(store));
  },

  "closing waits for appends in flight": async ({ store, another }) => {
    const other = await another();
    const pending = Array.from({ length: 30 }, (_, index) =>
      store.append(batchOf(write(`session/s${index}`, 0))),
    );
    await store.close();
    for (const { outcome } of await Promise.all(pending)) assert.equal(outcome, "ok");
    for (let index = 0; index < 30; index++) assert.equal((await headOf(other, `session/s${index}`)).seq, 1);
  },

  "closing one handle does not close others": async ({ store, another }) => {
    const other = await another();
    await accept(store, write("session/a", 0));
    await store.close();
    await accept(other, write("session/a", 1));
    assert.equal((await eventsOf(other, "session/a")).length, 2);
  },

  "a closed store no longer notifies its watchers": async ({ store, another }) => {
    const other = await another();
    let calls = 0;
    store.watch({ namespace: SPACE }, () => {
      calls += 1;
    });
    await store.close();
    await assertNoticed(other, {}, () => accept(other, write("session/a", 0)));
    assert.equal(calls, 0);
  },
};

export const reopeningCases: Cases = {
  "all contents are unchanged after reopening": async ({ store, reopen }) => {
    const hash = await fill(store);
    const before = await contents(store, hash);
    assert.deepEqual(await contents(await reopen(), hash), before);
  },

  "another handle sees all contents": async ({ store, another }) => {
    const hash = await fill(store);
    assert.deepEqual(await contents(await another(), hash), await contents(store, hash));
  },

  "a stream can be continued after reopening": async ({ reopen, store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2] }));
    const reopened = await reopen();
    await accept(reopened, write("session/a", 2, { events: [3] }));
    assert.deepEqual(await eventsOf(reopened, "session/a"), [
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
  },

  "`check` finds no problems in a sound store, before and after reopening": async ({ store, reopen }) => {
    assert.deepEqual(await store.check(), []);
    await fill(store);
    assert.deepEqual(await store.check(), []);
    assert.deepEqual(await (await reopen()).check(), []);
  },

  "a store has an address, the same for every handle": async ({ store, another }) => {
    assert.ok(store.address.length > 0);
    assert.equal((await another()).address, store.address);
  },
};
