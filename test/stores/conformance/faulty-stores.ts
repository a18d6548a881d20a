/** Memory stores with one planted bug each, of the kinds that real stores have had. */

import type { AppendOutcome, Batch, ListRequest, ListRows, Page, Store, Write } from "../../../src/store.ts";
import type { MemoryData, StoreTopic } from "../../../src/testing/index.ts";

type Fault = (store: Store, data: MemoryData) => Partial<Store>;

export function withFault(store: Store, data: MemoryData, fault: Fault): Store {
  return {
    address: store.address,
    append: (batch) => store.append(batch),
    read: (request) => store.read(request),
    list: (request) => store.list(request),
    put: (request) => store.put(request),
    get: (request) => store.get(request),
    lease: (request) => store.lease(request),
    remove: (request) => store.remove(request),
    watch: (request, changed) => store.watch(request, changed),
    check: () => store.check(),
    close: () => store.close(),
    ...fault(store, data),
  };
}

/** An `append` that first changes each write. */
const rewriting =
  (change: (write: Write, batch: Batch, store: Store, data: MemoryData) => Write | Promise<Write>): Fault =>
  (store, data) => ({
    append: async (batch) => {
      const given = structuredClone(batch.writes);
      const writes = await Promise.all(given.map((write) => change(write, batch, store, data)));
      return store.append({ ...batch, writes });
    },
  });

type AnyList = (request: ListRequest) => Promise<Page<ListRows[keyof ListRows]>>;

/** A `list` that changes its request or its answer. */
const listing =
  (change: (request: ListRequest, list: AnyList) => ReturnType<AnyList>): Fault =>
  (store) => ({
    list: ((request: ListRequest) => change(request, (asked) => store.list(asked as never))) as Store["list"],
  });

const heldKeys = async (store: Store, namespace: string, keys: readonly string[]): Promise<string[]> =>
  (await store.list({ of: "keys", namespace, keys })).rows.map(({ key }) => key);

const noFencing = rewriting(({ guards: _, ...write }) => write);

const guardsLookAtTheClock: Fault = (store) => ({
  append: async (batch) => {
    const { namespace, writes } = batch;
    const { rows } = await store.list({ of: "leases", namespace, limit: 1_000 });
    const guards = writes.flatMap((write) => write.guards ?? []);
    const stale = rows.find(
      ({ name, remainingMs }) => remainingMs <= 0 && guards.some(({ lease }) => lease === name),
    );
    return stale ? { outcome: "fenced", lease: stale.name, now: stale } : store.append(batch);
  },
});

const releasedLeaseStillWrites = rewriting((write, { namespace }, _, data) => {
  const isReleased = ({ lease, token }: { lease: string; token: number }): boolean => {
    const row = data.spaces.get(namespace)?.leases.get(lease);
    return row?.token === token && row.holder === null;
  };
  return { ...write, guards: (write.guards ?? []).filter((guard) => !isReleased(guard)) };
});

const noAtomicity: Fault = (store) => ({
  append: async (batch) => {
    let outcome: AppendOutcome = { outcome: "ok", heads: [], resent: true };
    for (const write of batch.writes) {
      const next = await store.append({ ...batch, writes: [write] });
      if (next.outcome !== "ok") return next;
      outcome = {
        outcome: "ok",
        heads: [...outcome.heads, ...next.heads],
        resent: outcome.resent && next.resent,
      };
    }
    return outcome;
  },
});

const keysNotUnique = rewriting(async (write, { namespace }, store) => {
  const claims = write.claims ?? [];
  const held = await heldKeys(
    store,
    namespace,
    claims.map(({ key }) => key),
  );
  return { ...write, claims: claims.filter(({ key }) => !held.includes(key)) };
});

const keysNeverReleased = rewriting(({ releases: _, ...write }) => write);

const keysFreedByRemoval: Fault = (store, data) => ({
  remove: async (request) => {
    const outcome = await store.remove(request);
    const keys = data.spaces.get(request.namespace)?.keys ?? new Map();
    for (const [key, { stream }] of keys)
      if (request.of === "stream" && stream === request.stream) keys.delete(key);
    return outcome;
  },
});

const refusedNeighbourUndoesAll: Fault = (store, data) => {
  let waiting: { batch: Batch; settle: (outcome: Promise<AppendOutcome>) => void }[] = [];
  const commit = async (): Promise<void> => {
    const group = waiting;
    waiting = [];
    const before = structuredClone(data.spaces);
    const outcomes = group.map(({ batch }) => store.append(batch));
    const settled = await Promise.allSettled(outcomes);
    const isRefused = settled.some((each) => each.status === "rejected" || each.value.outcome !== "ok");
    if (isRefused && group.length > 1) {
      data.spaces.clear();
      for (const [namespace, space] of before) data.spaces.set(namespace, space);
    }
    group.forEach(({ settle }, index) => {
      settle(outcomes[index] as Promise<AppendOutcome>);
    });
  };
  return {
    append: (batch) =>
      new Promise((settle) => {
        waiting.push({ batch: structuredClone(batch), settle });
        if (waiting.length === 1) queueMicrotask(commit);
      }),
  };
};

const readsInWrongOrder: Fault = (store) => ({
  read: async (request) => {
    const page = await store.read(request);
    return { ...page, writes: page.writes.toReversed() };
  },
});

const readsLeaveOutTouchedWrites: Fault = (store) => ({
  read: async (request) => {
    const { upTo = Number.POSITIVE_INFINITY, after } = request;
    const page = await store.read(request);
    return { ...page, writes: page.writes.filter(({ first, last }) => first > after && last <= upTo) };
  },
});

const expectedSeqNotChecked = rewriting(async (write, { namespace }, store) => {
  if (write.fork) return write;
  const { stream } = await store.read({ namespace, stream: write.stream, after: 0, limit: 1 });
  return { ...write, expect: { ...write.expect, seq: stream.head.seq } };
});

const resendAppliedTwice: Fault = (store) => ({
  append: async (batch) => {
    const outcome = await store.append(batch);
    if (outcome.outcome !== "ok" || !outcome.resent) return outcome;
    const { namespace } = batch;
    const writes = batch.writes.map(async ({ claims: _, fork: __, guards: ___, ...write }) => {
      const { stream } = await store.read({ namespace, stream: write.stream, after: 0, limit: 1 });
      return { ...write, expect: stream.head };
    });
    return store.append({ ...batch, id: `${batch.id} again`, writes: await Promise.all(writes) });
  },
});

const tokenForgottenOnRelease: Fault = (store, data) => ({
  lease: async (request) => {
    const outcome = await store.lease(request);
    if (request.act === "release") data.spaces.get(request.namespace)?.leases.delete(request.lease.lease);
    return outcome;
  },
});

const tokenForgottenOnRemoval: Fault = (store, data) => ({
  remove: async (request) => {
    const outcome = await store.remove(request);
    if (request.of === "stream") data.spaces.get(request.namespace)?.leases.delete(request.stream);
    return outcome;
  },
});

const generationForgottenOnRemoval: Fault = (store, data) => ({
  remove: async (request) => {
    const outcome = await store.remove(request);
    if (request.of === "stream" && outcome.outcome === "removed") {
      data.spaces.get(request.namespace)?.streams.delete(request.stream);
    }
    return outcome;
  },
});

const parentRemovedUnderItsForks: Fault = (store, data) => ({
  remove: async (request) => {
    const outcome = await store.remove(request);
    if (request.of !== "stream" || outcome.outcome !== "hidden") return outcome;
    data.spaces.get(request.namespace)?.streams.delete(request.stream);
    return { outcome: "removed", count: 1 };
  },
});

/** All tenants share one set of rows. */
const namespaceLeak: Fault = (store) => {
  const leak = <Request extends { namespace: string }>(request: Request): Request => ({
    ...request,
    namespace: "everyone",
  });
  return {
    append: (batch) => store.append(leak(batch)),
    read: (request) => store.read(leak(request)),
    list: ((request: ListRequest) => store.list(leak(request as never) as never)) as Store["list"],
    put: (request) => store.put(leak(request)),
    get: (request) => store.get(leak(request)),
    lease: (request) => store.lease(leak(request)),
    remove: (request) => store.remove(leak(request)),
    watch: (request, changed) => store.watch(leak(request), changed),
  };
};

const prefixIsAPattern = listing(async (request, list) => {
  if (request.of !== "leases" || !/[_%]/.test(request.prefix ?? "")) return list(request);
  const { prefix = "", ...all } = request;
  const like = new RegExp(`^${prefix.replaceAll(".", "\\.").replaceAll("_", ".").replaceAll("%", ".*")}`);
  const page = (await list(all)) as Page<ListRows["leases"]>;
  return { ...page, rows: page.rows.filter(({ name }) => like.test(name)) };
});

const cursorSkipsARow = listing(async (request, list) => {
  const page = await list(request);
  const isLaterPage = "cursor" in request && request.cursor !== undefined;
  return isLaterPage ? { ...page, rows: page.rows.slice(1) } : page;
});

const namesIgnoreCase: Fault = (store) => ({
  append: (batch) => {
    const writes = batch.writes.map((write) => ({ ...write, stream: write.stream.toLowerCase() }));
    return store.append({ ...batch, writes });
  },
  read: (request) => store.read({ ...request, stream: request.stream.toLowerCase() }),
});

const absentFacetsAreCleared = rewriting((write) => {
  const empty = { status: null, title: null, goal: null, openCalls: 0, expiresAt: null, budget: null };
  return { ...write, facets: { ...empty, ...write.facets } };
});

const absentItemFieldsAreLost = rewriting((write, { namespace }, _, data) => {
  data.spaces.get(namespace)?.streams.get(write.stream)?.items.clear();
  return write;
});

const referencedArtifactsAreCollected: Fault = (store, data) => ({
  remove: async (request) => {
    if (request.of !== "artifacts") return store.remove(request);
    const artifacts = data.spaces.get(request.namespace)?.artifacts ?? new Map();
    const old = [...artifacts].filter(([, { putAt }]) => putAt < request.putBefore);
    for (const [hash] of old) artifacts.delete(hash);
    return { outcome: "removed", count: old.length };
  },
});

const missingArtifactsAreAccepted = rewriting(({ artifacts: _, ...write }) => write);

const takesOverBeforeExpiry: Fault = (store) => ({
  lease: async (request) => {
    const outcome = await store.lease(request);
    if (request.act !== "take" || outcome.outcome !== "held") return outcome;
    return store.lease({ ...request, evict: outcome.lease.token });
  },
});

const tokenKeptOnChangeOfOwner: Fault = (store, data) => ({
  lease: async (request) => {
    const leases = data.spaces.get(request.namespace)?.leases;
    const old = request.act === "take" ? leases?.get(request.name) : undefined;
    const outcome = await store.lease(request);
    if (!old || outcome.outcome !== "granted") return outcome;
    leases?.set(outcome.lease.name, { ...old, holder: outcome.lease.holder });
    return { ...outcome, lease: { ...outcome.lease, token: old.token } };
  },
});

const nulDroppedFromText = rewriting((write) => {
  if (typeof write.payload !== "string") return write;
  return { ...write, payload: write.payload.replaceAll("\\u0000", "") };
});

const textBecomesBytes = rewriting((write) => ({ ...write, payload: Buffer.from(write.payload) }));

const snapshotFromTheFuture: Fault = (store) => ({
  get: (request) =>
    store.get(request.of === "snapshot" ? { ...request, upTo: Number.MAX_SAFE_INTEGER } : request),
});

/** Stores it by the stream's name, and nothing deletes it with the last fork. */
const snapshotOfAHiddenStreamIsKept: Fault = (store, data) => {
  const streamsOf = (namespace: string) => data.spaces.get(namespace)?.streams ?? new Map();
  return {
    put: async (request) => {
      const stream = request.of === "snapshot" ? streamsOf(request.namespace).get(request.stream) : undefined;
      if (request.of === "artifact" || stream?.state !== "hidden") return store.put(request);
      const { seq, fold, payload, codec } = request;
      stream.snapshots.push({ seq, fold, payload, codec });
    },
    remove: async (request) => {
      const hidden = [...streamsOf(request.namespace).values()].filter(({ state }) => state === "hidden");
      const outcome = await store.remove(request);
      for (const { name, snapshots } of hidden) streamsOf(request.namespace).get(name).snapshots = snapshots;
      return outcome;
    },
  };
};

const snapshotWithAllWrites: Fault = (store) => ({
  read: async ({ fold, ...request }) => {
    const page = await store.read(request);
    if (fold === undefined) return page;
    return { ...page, snapshot: (await store.read({ ...request, fold })).snapshot };
  },
});

const watchNeverFires: Fault = () => ({ watch: () => () => undefined });

const forkForgetsItsPast = rewriting(({ fork, ...write }) =>
  fork ? { ...write, expect: { ...write.expect, seq: 0 } } : write,
);

const closingForgets: Fault = (store, data) => ({
  close: async () => {
    for (const { keys } of data.spaces.values()) keys.clear();
    await store.close();
  },
});

/** Each bug, and the topic of the suite that must report it. */
export const FAULTS: Readonly<Record<string, { fault: Fault; foundIn: StoreTopic }>> = {
  "a write with an old token is accepted": { fault: noFencing, foundIn: "guards and fencing" },
  "a guard looks at the clock": { fault: guardsLookAtTheClock, foundIn: "guards and fencing" },
  "a released lease still writes": { fault: releasedLeaseStillWrites, foundIn: "guards and fencing" },
  "the first write of a batch stays when the second is refused": {
    fault: noAtomicity,
    foundIn: "batches over several streams",
  },
  "a key has two holders": { fault: keysNotUnique, foundIn: "keys claimed and released" },
  "a released key stays claimed": { fault: keysNeverReleased, foundIn: "keys claimed and released" },
  "removal frees keys": { fault: keysFreedByRemoval, foundIn: "keys claimed and released" },
  "a refused neighbour undoes the others": {
    fault: refusedNeighbourUndoesAll,
    foundIn: "appends sent at once",
  },
  "reads come in the wrong order": { fault: readsInWrongOrder, foundIn: "reads" },
  "a read leaves out writes that reach beyond its range": {
    fault: readsLeaveOutTouchedWrites,
    foundIn: "reads",
  },
  "the expected seq is not checked": { fault: expectedSeqNotChecked, foundIn: "conflict" },
  "a resend is applied twice": { fault: resendAppliedTwice, foundIn: "resend of a batch" },
  "release forgets the token": { fault: tokenForgottenOnRelease, foundIn: "leases" },
  "removal forgets the token": { fault: tokenForgottenOnRemoval, foundIn: "removal and tombstones" },
  "removal forgets the generation": {
    fault: generationForgottenOnRemoval,
    foundIn: "removal and tombstones",
  },
  "a parent is removed under its forks": {
    fault: parentRemovedUnderItsForks,
    foundIn: "removal and tombstones",
  },
  "namespaces share their rows": { fault: namespaceLeak, foundIn: "namespaces" },
  "a prefix is a pattern": { fault: prefixIsAPattern, foundIn: "leases" },
  "a cursor skips a row": { fault: cursorSkipsARow, foundIn: "lists of streams" },
  "names ignore case": { fault: namesIgnoreCase, foundIn: "hostile names" },
  "facets that are not named are cleared": { fault: absentFacetsAreCleared, foundIn: "lists of streams" },
  "fields of items that are not named are lost": {
    fault: absentItemFieldsAreLost,
    foundIn: "lists of items",
  },
  "collection takes artifacts that are referred to": {
    fault: referencedArtifactsAreCollected,
    foundIn: "artifacts and their collection",
  },
  "a missing artifact is accepted": {
    fault: missingArtifactsAreAccepted,
    foundIn: "artifacts and their collection",
  },
  "a lease is taken over before it ran out": { fault: takesOverBeforeExpiry, foundIn: "leases" },
  "the next owner of a lease gets the same token": { fault: tokenKeptOnChangeOfOwner, foundIn: "leases" },
  "NUL is dropped from text": { fault: nulDroppedFromText, foundIn: "unicode" },
  "text comes back as bytes": { fault: textBecomesBytes, foundIn: "append" },
  "a snapshot from after the asked position is returned": {
    fault: snapshotFromTheFuture,
    foundIn: "snapshots",
  },
  "a snapshot of a hidden stream is kept for its next life": {
    fault: snapshotOfAHiddenStreamIsKept,
    foundIn: "snapshots",
  },
  "a read with a snapshot begins before it": { fault: snapshotWithAllWrites, foundIn: "snapshots" },
  "watch never fires": { fault: watchNeverFires, foundIn: "watch" },
  "a fork forgets its past": { fault: forkForgetsItsPast, foundIn: "forks" },
  "closing loses something": { fault: closingForgets, foundIn: "reopening" },
};
