import type { AppendOutcome, Batch, Item, ItemRow, StoredWrite, StreamFacets, Write } from "../../store.ts";
import { checkBatch, guardsOf, headsAfter } from "../kit/index.ts";
import {
  copyPayload,
  fencedOff,
  type KeyHolder,
  type Space,
  type Stream,
  sameHead,
  streamOf,
} from "./data.ts";

/**
 * Everything is checked before anything is changed, and nothing here waits: that is what makes a batch all or
 * nothing. The order of the questions decides which refusal a caller sees, and a resend comes first because
 * its own first arrival would look like a conflict.
 */
export function append(space: Space, batch: Batch, now: number): AppendOutcome {
  const answer = answerAtOnce(space, batch, now);
  if (answer) return answer;
  for (const { lease } of guardsOf(batch)) {
    const row = space.leases.get(lease);
    if (row) space.leases.set(lease, { ...row, deadline: now + row.ttlMs });
  }
  return applyBatch(space, batch, copyOf);
}

/** The questions: what a batch is answered without changing anything, or null when it can be stored. */
export function answerAtOnce(space: Space, batch: Batch, now: number): AppendOutcome | null {
  checkBatch(batch);
  return (
    resent(space, batch) ??
    fencedOff(space, guardsOf(batch), now) ??
    conflicting(space, batch) ??
    claim(space, batch, new Map()) ??
    missing(space, batch)
  );
}

/** How a write is kept; a store that has its payload elsewhere keeps where. */
export type Keep = (write: Write, stored: Omit<StoredWrite, "payload">) => StoredWrite;

const copyOf: Keep = (write, stored) => ({ ...stored, payload: copyPayload(write.payload) });

/** The changes of a batch that passed every question. Leases are the caller's: their clock is. */
export function applyBatch(space: Space, batch: Batch, keep: Keep): AppendOutcome {
  const keys = new Map<string, KeyHolder | null>();
  claim(space, batch, keys);
  for (const [key, holder] of keys) {
    if (holder) space.keys.set(key, holder);
    else space.keys.delete(key);
  }
  for (const write of batch.writes) {
    const stream = streamOf(space, write.stream);
    extend(stream, write, batch.id, keep);
    space.streams.set(stream.name, stream);
  }
  return { outcome: "ok", heads: headsAfter(batch), resent: false };
}

function resent(space: Space, batch: Batch): AppendOutcome | null {
  const isStored = ({ stream, expect }: Write): boolean => {
    const { head, writes } = streamOf(space, stream);
    if (head.generation !== expect.generation || head.seq <= expect.seq) return false;
    return writes.some((write) => write.first === expect.seq + 1 && write.batch === batch.id);
  };
  if (!batch.writes.every(isStored)) return null;
  return { outcome: "ok", heads: headsAfter(batch), resent: true };
}

/** Each write must continue its stream where that ends now; a fork must leave a past that is there. */
export function conflicting(space: Space, batch: Batch): AppendOutcome | null {
  for (const { stream, expect, fork } of batch.writes) {
    const { state, head } = streamOf(space, stream);
    const begins = fork ? { ...head, seq: fork.seq } : head;
    if ((fork && state !== "gone") || state === "hidden" || !sameHead(begins, expect)) {
      return { outcome: "conflict", stream, head: { ...head } };
    }
    if (!fork) continue;
    const parent = streamOf(space, fork.stream);
    const isThere = parent.state !== "gone" && parent.head.generation === fork.generation;
    if (!isThere || parent.head.seq < fork.seq) {
      return { outcome: "conflict", stream: fork.stream, head: { ...parent.head } };
    }
  }
  return null;
}

/** Notes in `keys` what the batch would change. Within a write releases come first, so a key can change hands. */
function claim(space: Space, batch: Batch, keys: Map<string, KeyHolder | null>): AppendOutcome | null {
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

function missing(space: Space, batch: Batch): AppendOutcome | null {
  const wanted = batch.writes.flatMap((write) => write.artifacts ?? []);
  const artifact = wanted.find((hash) => !space.artifacts.has(hash));
  return artifact === undefined ? null : { outcome: "missing", artifact };
}

function extend(stream: Stream, write: Write, batch: string, keep: Keep): void {
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
  stream.facets = mergeFacets(stream.facets, write.facets ?? {});
  stream.writes.push(keep(write, { first: expect.seq + 1, last, batch, codec, sum, at }));
  for (const item of write.items ?? []) {
    const name = JSON.stringify([item.kind, item.id]);
    stream.items.set(name, mergeItem(stream, stream.items.get(name), item));
  }
  for (const hash of write.artifacts ?? []) stream.artifacts.add(hash);
}

/** `undefined` keeps the old value, anything else replaces it, `null` included. */
function kept<Value>(given: Value | undefined, old: Value): Value {
  return given === undefined ? old : given;
}

function mergeFacets(old: Stream["facets"], given: StreamFacets): Stream["facets"] {
  return {
    status: kept(given.status, old.status),
    title: kept(given.title, old.title),
    goal: kept(given.goal, old.goal),
    openCalls: kept(given.openCalls, old.openCalls),
    expiresAt: kept(given.expiresAt, old.expiresAt),
    budget: kept(given.budget, old.budget),
  };
}

function mergeItem(stream: Stream, old: ItemRow | undefined, given: Item): ItemRow {
  return {
    stream: stream.name,
    kind: given.kind,
    id: given.id,
    seq: kept<number | null>(given.seq, old?.seq ?? null),
    endSeq: kept<number | null>(given.endSeq, old?.endSeq ?? null),
    status: kept<string | null>(given.status, old?.status ?? null),
    name: kept<string | null>(given.name, old?.name ?? null),
    key: kept<string | null>(given.key, old?.key ?? null),
    at: kept<number | null>(given.at, old?.at ?? null),
    doneAt: kept(given.doneAt, old?.doneAt ?? null),
  };
}
