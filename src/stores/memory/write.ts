/**
 * Appends, leases and removals. Everything is checked before anything is changed, and nothing here waits:
 * that makes a batch all or nothing. A resend is checked first: its first arrival looks like a conflict.
 */

import { ERASED } from "../../model/names.ts";
import type * as port from "../../store.ts";
import { checkBatch, guardsOf, headsAfter } from "../kit/index.ts";
import type { KeyHolder, Lease, Space, Stream } from "./data.ts";
import { copyPayload, findFenced, goneStream, isHeldBy, leaseRow, sameHead, streamOf } from "./data.ts";

export function append(space: Space, batch: port.Batch, now: number): port.AppendOutcome {
  const refusal = checkAppend(space, batch, now);
  if (refusal) return refusal;
  for (const { lease } of guardsOf(batch)) {
    const row = space.leases.get(lease);
    if (row) space.leases.set(lease, { ...row, deadline: now + row.ttlMs });
  }
  if (batch.lease) space.leases.set(batch.lease.name, changedLease(space, batch.lease, now));
  return applyBatch(space, batch, copyWrite);
}

/** The row of a lease after a batch that passed every check has taken or released it. */
export function changedLease({ leases }: Space, change: port.BatchLease, now: number): Lease {
  if (change.act === "release") {
    const old = leases.get(change.name) as Lease;
    return { ...old, holder: null, deadline: now };
  }
  const { token, holder, ttlMs } = change;
  return { token, holder: { ...holder }, ttlMs, deadline: now + ttlMs };
}

function findUntakable({ leases }: Space, batch: port.Batch, now: number): port.AppendOutcome | null {
  if (batch.lease?.act !== "take") return null;
  const { name, token } = batch.lease;
  const row = leases.get(name);
  if (!row?.holder && token === ((row ?? leases.get(ERASED))?.token ?? 0) + 1) return null;
  return { outcome: "fenced", lease: name, now: row ? leaseRow(name, row, now) : null };
}

/** The outcome of a batch that changes nothing, a refusal or a resend. Null if the batch can be stored. */
export function checkAppend(space: Space, batch: port.Batch, now: number): port.AppendOutcome | null {
  checkBatch(batch);
  return (
    findResend(space, batch) ??
    findFenced(space, guardsOf(batch), now) ??
    findUntakable(space, batch, now) ??
    findConflict(space, batch) ??
    changeKeys(space, batch, new Map()) ??
    findMissing(space, batch)
  );
}

/** Makes the stored form of a write. A store with payloads elsewhere keeps their position instead. */
type ToStored = (write: port.Write, stored: Omit<port.StoredWrite, "payload">) => port.StoredWrite;

const copyWrite: ToStored = (write, stored) => ({ ...stored, payload: copyPayload(write.payload) });

/** Applies a batch that passed every check. The caller renews the leases, by its own clock. */
export function applyBatch(space: Space, batch: port.Batch, toStored: ToStored): port.AppendOutcome {
  const keys = new Map<string, KeyHolder | null>();
  changeKeys(space, batch, keys);
  for (const [key, holder] of keys) {
    if (holder) space.keys.set(key, holder);
    else space.keys.delete(key);
  }
  for (const write of batch.writes) {
    const stream = streamOf(space, write.stream);
    extend(stream, write, batch.id, toStored);
    space.streams.set(stream.name, stream);
  }
  return { outcome: "ok", heads: headsAfter(batch), resent: false };
}

function findResend(space: Space, batch: port.Batch): port.AppendOutcome | null {
  const isStored = ({ stream, expect }: port.Write): boolean => {
    const { head, writes } = streamOf(space, stream);
    if (head.generation !== expect.generation || head.seq <= expect.seq) return false;
    return writes.some((write) => write.first === expect.seq + 1 && write.batch === batch.id);
  };
  if (!batch.writes.every(isStored)) return null;
  return { outcome: "ok", heads: headsAfter(batch), resent: true };
}

/** Each write must continue its stream at its end; a fork must leave a past that exists. */
export function findConflict(space: Space, batch: port.Batch): port.AppendOutcome | null {
  for (const { stream, expect, fork } of batch.writes) {
    const { state, head } = streamOf(space, stream);
    const isGone = state === "gone";
    const generation = isGone ? Math.max(head.generation, expect.generation) : head.generation;
    const begins = { generation, seq: fork ? fork.seq : head.seq };
    if ((fork && !isGone) || state === "hidden" || !sameHead(begins, expect)) {
      return { outcome: "conflict", stream, head: { ...head } };
    }
    if (!fork) continue;
    const parent = streamOf(space, fork.stream);
    const exists = parent.state !== "gone" && parent.head.generation === fork.generation;
    if (!exists || parent.head.seq < fork.seq) {
      return { outcome: "conflict", stream: fork.stream, head: { ...parent.head } };
    }
  }
  return null;
}

/** Collects the batch's changes in `keys`. Within a write releases come first, so a key can change hands. */
function changeKeys(
  space: Space,
  batch: port.Batch,
  keys: Map<string, KeyHolder | null>,
): port.AppendOutcome | null {
  const holderOf = (key: string): KeyHolder | null => {
    const changed = keys.get(key);
    return changed === undefined ? (space.keys.get(key) ?? null) : changed;
  };
  for (const { stream, expect, releases, claims } of batch.writes) {
    for (const key of releases ?? []) if (holderOf(key)?.stream === stream) keys.set(key, null);
    for (const { key, event } of claims ?? []) {
      const by = holderOf(key);
      if (by) return { outcome: "taken", key, by: { ...by } };
      keys.set(key, { stream, seq: expect.seq + 1 + event });
    }
  }
  return null;
}

function findMissing(space: Space, batch: port.Batch): port.AppendOutcome | null {
  const wanted = batch.writes.flatMap((write) => write.artifacts ?? []);
  const artifact = wanted.find((hash) => !space.artifacts.has(hash));
  return artifact === undefined ? null : { outcome: "missing", artifact };
}

function extend(stream: Stream, write: port.Write, batch: string, toStored: ToStored): void {
  const { expect, count, codec, sum, at, fork } = write;
  if (stream.state === "gone") {
    stream.state = "live";
    stream.base = expect.seq;
    stream.parent = fork ? { stream: fork.stream, generation: fork.generation } : null;
    stream.createdAt = at;
  }
  const last = expect.seq + count;
  stream.head = { generation: expect.generation, seq: last };
  stream.updatedAt = at;
  stream.facets = merge(stream.facets, write.facets ?? {});
  stream.writes.push(toStored(write, { first: expect.seq + 1, last, batch, codec, sum, at }));
  for (const item of write.items ?? []) {
    const { kind, id } = item;
    const key = JSON.stringify([kind, id]);
    const old = stream.items.get(key) ?? { stream: stream.name, kind, id, ...NO_ITEM };
    stream.items.set(key, merge<port.ItemRow>(old, item));
  }
  for (const hash of write.artifacts ?? []) stream.artifacts.add(hash);
}

const NO_ITEM = { seq: null, endSeq: null, status: null, name: null, key: null, at: null, doneAt: null };

/** `undefined` keeps the old value; anything else replaces it, `null` included. */
function merge<Row extends object>(
  old: Row,
  next: { readonly [Key in keyof Row]?: Row[Key] | undefined },
): Row {
  const merged = { ...old };
  for (const key of Object.keys(old) as (keyof Row)[]) {
    const value = next[key];
    if (value !== undefined) merged[key] = value;
  }
  return merged;
}

/** The clock decides only whether another owner may take over. */
export function lease(space: Space, request: port.LeaseRequest, now: number): port.LeaseOutcome {
  switch (request.act) {
    case "take":
      return take(space, request, now);
    case "renew":
      return { outcome: "renewed", lost: renew(space, request.leases, request.ttlMs, now) };
    case "release":
      return { outcome: "released", wasOurs: release(space, request.lease, now) };
  }
}

function take(
  { leases }: Space,
  { name, holder, ttlMs, evict }: { name: string; holder: port.Holder; ttlMs: number; evict?: number },
  now: number,
): port.LeaseOutcome {
  const old = leases.get(name);
  const isOurs = old?.holder?.owner === holder.owner;
  const isHeld = old?.holder && !isOurs && old.deadline > now && old.token !== evict;
  if (isHeld) return { outcome: "held", lease: leaseRow(name, old, now) };
  const token = old && isOurs ? old.token : ((old ?? leases.get(ERASED))?.token ?? 0) + 1;
  const next = { token, holder: { ...holder }, ttlMs, deadline: now + ttlMs };
  leases.set(name, next);
  const from = old?.holder && !isOurs ? { ...old.holder } : null;
  return { outcome: "granted", lease: leaseRow(name, next, now), from };
}

function renew({ leases }: Space, guards: readonly port.Guard[], ttlMs: number, now: number): port.Guard[] {
  const lost: port.Guard[] = [];
  for (const { lease: name, token } of guards) {
    const old = leases.get(name);
    if (isHeldBy(old, { lease: name, token })) leases.set(name, { ...old, ttlMs, deadline: now + ttlMs });
    else lost.push({ lease: name, token });
  }
  return lost;
}

/** The row stays, because the next owner's token has to exceed its token. */
function release({ leases }: Space, guard: port.Guard, now: number): boolean {
  const old = leases.get(guard.lease);
  if (!isHeldBy(old, guard)) return false;
  leases.set(guard.lease, { ...old, holder: null, deadline: now });
  return true;
}

export function remove(space: Space, request: port.RemoveRequest, now: number): port.RemoveOutcome {
  switch (request.of) {
    case "stream":
      return removeStream(space, request, now);
    case "artifacts": {
      const hashes = unreferencedArtifacts(space, request.putBefore);
      for (const hash of hashes) space.artifacts.delete(hash);
      return { outcome: "removed", count: hashes.length };
    }
    case "snapshots": {
      const stream = streamOf(space, request.stream);
      const count = stream.snapshots.length;
      stream.snapshots = [];
      return { outcome: "removed", count };
    }
  }
}

function removeStream(
  space: Space,
  { stream: name, expect, guards, erase }: Extract<port.RemoveRequest, { of: "stream" }>,
  now: number,
): port.RemoveOutcome {
  const fenced = findFenced(space, guards ?? [], now);
  if (fenced) return fenced;
  const stream = streamOf(space, name);
  if (!sameHead(stream.head, expect)) return { outcome: "conflict", head: { ...stream.head } };
  if (stream.state === "gone") {
    if (erase) forget(space, name);
    return { outcome: "removed", count: 0 };
  }
  // Forks need only the events and the artifacts they refer to.
  stream.items.clear();
  stream.snapshots = [];
  stream.state = "hidden";
  if (isShared(space, stream)) return { outcome: "hidden" };
  const before = withAncestors(space, name);
  const count = deleteUnshared(space, stream);
  if (erase) {
    for (const hash of ownArtifacts(space, before)) space.artifacts.delete(hash);
    for (const each of before) if (streamOf(space, each.name).state === "gone") forget(space, each.name);
  }
  return { outcome: "removed", count };
}

/** Leaves nothing with the name of a stream that is gone. Returns its leases; null if there was nothing. */
export function forget(space: Space, name: string): { readonly leases: readonly string[] } | null {
  const { streams, keys, leases } = space;
  const gone = streams.get(name);
  const names = [...leases.keys()].filter((each) => each === name || each.startsWith(`${name}/`));
  if (!gone && names.length === 0) return null;
  if (gone) {
    streams.set(
      ERASED,
      goneStream(ERASED, Math.max(gone.head.generation, streamOf(space, ERASED).head.generation)),
    );
    streams.delete(name);
    for (const [key, { stream, seq }] of keys) if (stream === name) keys.set(key, { stream: ERASED, seq });
  }
  for (const each of names) {
    const token = Math.max(leases.get(each)?.token ?? 0, leases.get(ERASED)?.token ?? 0);
    leases.set(ERASED, { token, holder: null, ttlMs: 0, deadline: 0 });
    leases.delete(each);
  }
  return { leases: names };
}

/** A stream and those that it was forked from. */
export function withAncestors(space: Space, name: string): Stream[] {
  const found: Stream[] = [];
  for (let next = space.streams.get(name); next; next = space.streams.get(next.parent?.stream ?? "")) {
    found.push(next);
  }
  return found;
}

/**
 * Artifacts that only streams of `before` referred to which are gone now. An artifact that was put after the
 * last write of such a stream stays: another writer is about to refer to it.
 */
export function ownArtifacts(space: Space, before: readonly Stream[]): string[] {
  const gone = before.filter((each) => space.streams.get(each.name) !== each);
  const candidates = new Map(
    gone.flatMap((each) => [...each.artifacts].map((hash) => [hash, each] as const)),
  );
  if (candidates.size === 0) return [];
  const others = new Set([...space.streams.values()].flatMap(({ artifacts }) => [...artifacts]));
  return [...candidates].flatMap(([hash, { updatedAt }]) => {
    const putAt = space.artifacts.get(hash)?.putAt;
    return putAt !== undefined && putAt <= updatedAt && !others.has(hash) ? [hash] : [];
  });
}

function isShared(space: Space, { name }: Stream): boolean {
  return [...space.streams.values()].some(({ parent }) => parent?.stream === name);
}

/** Leaves a tombstone for the stream, and for each hidden ancestor that no fork shares any more. */
function deleteUnshared(space: Space, stream: Stream): number {
  let count = 0;
  let next: Stream | undefined = stream;
  while (next?.state === "hidden" && !isShared(space, next)) {
    const { name, head, parent }: Stream = next;
    space.streams.set(name, goneStream(name, head.generation + 1));
    count += 1;
    next = parent ? space.streams.get(parent.stream) : undefined;
  }
  return count;
}

export function unreferencedArtifacts(space: Space, putBefore: number): string[] {
  const referenced = new Set([...space.streams.values()].flatMap(({ artifacts }) => [...artifacts]));
  const old = [...space.artifacts].filter(([hash, { putAt }]) => putAt < putBefore && !referenced.has(hash));
  return old.map(([hash]) => hash);
}
