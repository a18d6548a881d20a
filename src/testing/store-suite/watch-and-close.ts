/** Watching for changes, closing, reopening. */

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import type { WatchRequest } from "../../store.ts";
import { type Cases, fork, rejectsWith, SPACE, type TestStore, times, write } from "./harness.ts";

const NOTICED_WITHIN_MS = 5_000;

/** Acts, and waits until the watcher is called. Calls before the act do not count. */
async function assertNoticed(
  watching: TestStore,
  request: Partial<WatchRequest>,
  act: () => Promise<unknown>,
): Promise<void> {
  const noticed = new AbortController();
  let hasBegun = false;
  const stop = watching.port.watch({ namespace: SPACE, ...request }, () => {
    if (hasBegun) noticed.abort();
  });
  try {
    hasBegun = true;
    await act();
    const isLate = await setTimeout(NOTICED_WITHIN_MS, true, { signal: noticed.signal }).catch(() => false);
    assert.ok(!isLate, `nothing was noticed within ${NOTICED_WITHIN_MS} ms`);
  } finally {
    stop();
  }
}

export const watchCases: Cases = {
  "a change by another handle is noticed": async ({ store, another }) => {
    const other = await another();
    await assertNoticed(store, { stream: "session/a" }, () => other.write("session/a", 0));
    await assertNoticed(store, { stream: "session/a" }, () => other.write("session/a", 1));
  },

  "a change by the same handle is noticed": async ({ store }) => {
    await assertNoticed(store, { stream: "session/a" }, () => store.write("session/a", 0));
  },

  "a watcher of the namespace notices changes of any stream, also of new ones": async ({
    store,
    another,
  }) => {
    const other = await another();
    await other.write("session/a", 0);
    await assertNoticed(store, {}, () => other.write("session/a", 1));
    await assertNoticed(store, {}, () => other.write("session/b", 0));
  },

  "a removal by another handle is noticed": async ({ store, another }) => {
    const other = await another();
    await other.write("session/a", 0);
    await assertNoticed(store, { stream: "session/a" }, () => other.remove("session/a"));
  },

  "a notified watcher sees the change when it reads": async ({ store, another }) => {
    const other = await another();
    await assertNoticed(store, { stream: "session/a" }, () => other.write("session/a", 0));
    assert.deepEqual(await store.seqs("session/a"), [1]);
  },

  "a stopped watcher is not notified, and may stop twice": async ({ store, another }) => {
    const other = await another();
    let calls = 0;
    const stop = store.port.watch({ namespace: SPACE }, () => {
      calls += 1;
    });
    stop();
    stop();
    await assertNoticed(store, {}, () => other.write("session/a", 0));
    assert.equal(calls, 0);
  },

  "stopping one watcher does not stop others": async ({ store, another }) => {
    const other = await another();
    const stop = store.port.watch({ namespace: SPACE, stream: "session/a" }, () => undefined);
    await assertNoticed(store, { stream: "session/a" }, async () => {
      stop();
      await other.write("session/a", 0);
    });
  },
};

const VERBS: Readonly<Record<string, (store: TestStore) => unknown>> = {
  append: (store) => store.send(write("session/a", 0)),
  read: (store) => store.page("session/a"),
  list: (store) => store.port.list({ of: "streams", namespace: SPACE, limit: 1 }),
  put: (store) => store.putArtifact("late"),
  get: (store) => store.hasArtifact("0".repeat(64)),
  lease: (store) => store.take("session/a", "one"),
  remove: (store) => store.port.remove({ of: "artifacts", namespace: SPACE, putBefore: 1 }),
  check: (store) => store.port.check(),
};

/** Stores a little of everything. */
async function fill(store: TestStore): Promise<string> {
  const hash = await store.putArtifact("kept");
  await store.grant("session/a", "one");
  await store.write("session/a", 0, {
    events: [1, 2, 3],
    artifacts: [hash],
    claims: [{ key: "k", event: 2 }],
    facets: { status: "running", title: "Title", openCalls: 1 },
    items: [{ kind: "call", id: "c1", seq: 2, at: 5 }],
  });
  await store.accept(fork("session/b", "session/a", 2));
  await store.write("session/gone", 0);
  await store.remove("session/gone");
  const snapshot = { generation: 1, seq: 3, fold: "f", payload: "{}", codec: null };
  await store.port.put({ of: "snapshot", namespace: SPACE, stream: "session/a", ...snapshot });
  return hash;
}

/** Everything that `fill` stored, except what time changes. */
async function contents(store: TestStore, hash: string): Promise<unknown> {
  const leases = await store.list({ of: "leases" });
  return {
    events: [await store.events("session/a"), await store.events("session/b", { after: 2 })],
    rows: [await store.row("session/a"), await store.row("session/b"), await store.row("session/gone")],
    streams: await store.list({ of: "streams" }),
    items: await store.list({ of: "items", kind: "call" }),
    leases: leases.map(({ name, token, holder: by }) => ({ name, token, by })),
    keys: await store.holders(["k"]),
    snapshots: await store.port.list({ of: "snapshots", namespace: SPACE, stream: "session/a" }),
    snapshot: await store.port.get({
      of: "snapshot",
      namespace: SPACE,
      stream: "session/a",
      fold: "f",
      upTo: 9,
    }),
    artifact: await store.hasArtifact(hash),
  };
}

export const closingCases: Cases = {
  "a store may be closed twice, also at once": async ({ store }) => {
    await Promise.all([store.port.close(), store.port.close()]);
    await store.port.close();
  },

  "every verb of a closed store rejects with STORE_CLOSED": async ({ store }) => {
    await store.write("session/a", 0);
    await store.port.close();
    for (const act of Object.values(VERBS)) await rejectsWith("STORE_CLOSED", () => act(store));
  },

  "closing waits for appends in flight": async ({ store, another }) => {
    const other = await another();
    const pending = times(30, (index) => store.send(write(`session/s${index}`, 0)));
    await store.port.close();
    for (const { outcome } of await Promise.all(pending)) assert.equal(outcome, "ok");
    for (let index = 0; index < 30; index++) assert.equal((await other.head(`session/s${index}`)).seq, 1);
  },

  "closing one handle does not close others": async ({ store, another }) => {
    const other = await another();
    await store.write("session/a", 0);
    await store.port.close();
    await other.write("session/a", 1);
    assert.equal((await other.events("session/a")).length, 2);
  },

  "a closed store no longer notifies its watchers": async ({ store, another }) => {
    const other = await another();
    let calls = 0;
    store.port.watch({ namespace: SPACE }, () => {
      calls += 1;
    });
    await store.port.close();
    await assertNoticed(other, {}, () => other.write("session/a", 0));
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
    await store.write("session/a", 0, { events: [1, 2] });
    const reopened = await reopen();
    await reopened.write("session/a", 2, { events: [3] });
    assert.deepEqual(await reopened.events("session/a"), [
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
  },

  "`check` finds no problems in a sound store, before and after reopening": async ({ store, reopen }) => {
    assert.deepEqual(await store.port.check(), []);
    await fill(store);
    assert.deepEqual(await store.port.check(), []);
    assert.deepEqual(await (await reopen()).port.check(), []);
  },

  "a store has an address, the same for every handle": async ({ store, another }) => {
    assert.ok(store.port.address.length > 0);
    assert.equal((await another()).port.address, store.port.address);
  },
};
