/**
 * How an append becomes durable on Postgres.
 *
 *      submitted ──▶ waiting ──a slot is free, none of its streams is in flight──▶ in flight ──▶ answered
 *
 * `queue.ts` sends what waits as a group: one statement, transaction and wait for the server's log.
 *
 * The fast path is for batches that only continue one existing stream each (`append-fast-path.ts`):
 * `SELECT append_plain(…)`, or `append_single` for a single batch. Its steps, in this order:
 *
 *     1  check that this is still the store that was opened, unsealed, on a durable server
 *     2  lock the streams in the order of their names; advance those that end where their batch begins
 *     3  lock the leases in the order of their names; take and release those that a batch takes or releases.
 *        A lease that is not as a batch needs it undoes everything
 *     4  store the events and items of the advanced streams
 *     5  commit; only then does the statement answer which batches are stored
 *
 * The slow path, `SELECT append_batches(…)`, takes all other batches, and those that the fast path left:
 *
 *     1  as above
 *     2  insert a placeholder row (generation 0) for each stream that may begin, to have a row to lock
 *     3  lock all streams, parents of forks included, in the order of their names; then the leases
 *     4  batch after batch: every check (resent, fenced, conflict, taken, missing), then every change
 *     5  delete the placeholders that no batch used
 *     6  commit; only then does the statement answer
 *
 * Invariants:
 *
 *     - A refused batch leaves nothing behind and does not disturb others. Only the slow path refuses.
 *     - A lease cannot change hands between the check of its token and the commit, because its row is locked.
 *     - A stream is in at most one group in flight, so its batches are stored in order.
 *
 * After a crash of this process or of the server:
 *
 *     before the commit is in the log    nothing is stored
 *     after that, before the answer      the whole group is stored; sending a batch again answers `resent`
 *
 * After a failure. Batches of the fast path then take the slow path:
 *
 *     no connection, or a standby      nothing happened: retry until `busyMs` have passed
 *     deadlock, serialization failure  rolled back: retry
 *     lock timeout                     rolled back: send the batches one by one, so that only the
 *                                      blocked ones wait; then STORE_BUSY
 *     a value that cannot be stored    rolled back: send the batches one by one; the bad one is rejected
 *     prepared statement missing       rolled back: retry, from now on without prepared statements
 *     connection lost, server silent   unknown: send the same group again. A stored batch answers `resent`,
 *                                      which replaces the lost acknowledgement. A refusal proves nothing,
 *                                      because the first group may still be running: STORE_IO with
 *                                      `unknown: true`, and the caller sends the batch again
 */

import type { Item, StreamFacets } from "../../model/stream/index.ts";
import type { AppendOutcome, Batch, BatchLease, Head, Write } from "../../store.ts";
import { checkBatch, guardsOf, headsAfter, invalidBatch } from "../kit/index.ts";
import { type EncodedPayloads, openMark, takesFastPath } from "./append-fast-path.ts";
import { fencedOutcome, type StoredFence } from "./leases.ts";
import { fromText, placeName, toBytes, toText, toTextOrNull } from "./rows.ts";

/** The largest value of a seq column. */
const MAX_SEQ = 2 ** 31 - 1;

/** Throws on a batch that this store could not keep, before it waits in a queue beside good ones. */
export function checkPostgresBatch(batch: Batch): void {
  checkBatch(batch, MAX_SEQ, checkNumbers);
}

/** Rules that would be CHECK constraints if those were cheaper (`schema-1.ts`). */
function checkNumbers({ stream, facets, items }: Write): void {
  if (facets?.openCalls !== undefined && !(facets.openCalls >= 0)) {
    throw invalidBatch(`${stream} cannot have ${facets.openCalls} open calls`);
  }
  for (const { kind, id, seq = 1, endSeq = 1 } of items ?? []) {
    if (!(seq >= 1 && endSeq >= 1)) throw invalidBatch(`the ${kind} ${id} of ${stream} points at no event`);
  }
}

/** A batch that waits. Its payloads are copied, so the caller may reuse its own buffers. */
export interface EncodedBatch extends EncodedPayloads {
  readonly bytes: number;
  /** The streams that it writes or forks, each with its namespace. */
  readonly streams: readonly string[];
  readonly isFast: boolean;
}

export function encode(batch: Batch): EncodedBatch {
  const { namespace, writes } = batch;
  const payloads = writes.map(({ payload }) =>
    typeof payload === "string" ? toText(payload) : Buffer.from(payload),
  );
  const streams: string[] = [];
  for (const { stream, fork } of writes) {
    streams.push(placeName(namespace, stream));
    if (fork) streams.push(placeName(namespace, fork.stream));
  }
  const bytes = payloads.reduce((sum, { length }) => sum + length, 0);
  return { batch, payloads, bytes, streams, isFast: takesFastPath(batch) };
}

/** The last arguments of `append_batches`: streams and leases to lock, batches, payload bytes. */
export function batchArguments(group: readonly EncodedBatch[]): [string, string, string, Buffer] {
  const payloads = group.flatMap((each) => each.payloads.map(toBytes));
  let offset = 0;
  let index = 0;
  const batches = group.map(({ batch }) => {
    const writes = batch.writes.map((write) => {
      const bytes = payloads[index++]?.length ?? 0;
      offset += bytes;
      return { ...writeArgument(write), from: offset - bytes, bytes };
    });
    const lease = batch.lease && leaseArgument(batch.lease);
    const names = { id: toText(batch.id), namespace: toText(batch.namespace) };
    return { ...names, keys: hasKeys(batch), writes, ...(lease && { lease }) };
  });
  const bytes = Buffer.concat(payloads);
  return [
    JSON.stringify(streamsToLock(group)),
    JSON.stringify(leasesToLock(group)),
    JSON.stringify(batches),
    bytes,
  ];
}

function hasKeys({ writes }: Batch): boolean {
  return writes.some(({ claims = [], releases = [] }) => claims.length + releases.length > 0);
}

/** Namespace, name, and whether the append may create the stream. */
function streamsToLock(group: readonly EncodedBatch[]): [string, string, boolean][] {
  return group.flatMap(({ batch: { namespace, writes } }) =>
    writes.flatMap(({ stream, expect, fork }): [string, string, boolean][] => {
      const own = [toText(namespace), toText(stream), expect.seq === 0 || fork !== undefined] as const;
      return fork ? [[...own], [toText(namespace), toText(fork.stream), false]] : [[...own]];
    }),
  );
}

function leasesToLock(group: readonly EncodedBatch[]): [string, string][] {
  return group.flatMap(({ batch }) => {
    const names = guardsOf(batch).map(({ lease }) => lease);
    if (batch.lease?.act === "take") names.push(batch.lease.name);
    return names.map((name): [string, string] => [toText(batch.namespace), toText(name)]);
  });
}

/** A release is a guard first; `append_batch` checks that the token of a taken lease is the next one. */
function leaseArgument(lease: BatchLease): object {
  const { act, name, token } = lease;
  if (act === "release") return { act, lease: toText(name), token };
  const { holder, ttlMs } = lease;
  const text = { owner: toText(holder.owner), holder: JSON.stringify(holder) };
  return { act, lease: toText(name), token, ...text, ttl: Math.round(ttlMs) };
}

/** Absent fields stay absent, so that the function leaves their columns alone. */
function writeArgument(write: Write): object {
  const { stream, expect, count, payload, codec, sum, at, fork, guards, releases, claims, artifacts } = write;
  const mark = openMark(write);
  const items = mergeItems(write.items ?? []);
  const settled = items.filter(({ doneAt }) => doneAt !== undefined);
  const changed = items.filter(({ doneAt }) => doneAt === undefined);
  return {
    stream: toText(stream),
    generation: expect.generation,
    seq: expect.seq,
    count,
    text: typeof payload === "string",
    codec: toTextOrNull(codec),
    sum,
    at,
    ...(mark !== undefined && { mark }),
    ...(fork && { fork: { ...fork, stream: toText(fork.stream) } }),
    ...(guards?.length && { guards: guards.map(({ lease, token }) => ({ lease: toText(lease), token })) }),
    ...(releases?.length && { releases: releases.map(toText) }),
    ...(claims?.length && {
      claims: claims.map(({ key, event }) => ({ key: toText(key), seq: expect.seq + 1 + event })),
    }),
    ...(artifacts?.length && { artifacts: artifacts.map(toText) }),
    ...(write.facets && { facets: facetArgument(write.facets) }),
    ...(settled.length > 0 && { items: settled }),
    ...(changed.length > 0 && { changedItems: changed }),
  };
}

function facetArgument(facets: StreamFacets): object {
  return Object.fromEntries(Object.entries(facets).map(([name, value]) => [name, encodeText(value)]));
}

const encodeText = <Each>(value: Each) => (typeof value === "string" ? toText(value) : value);

/** Merges items that a write names twice, because one statement cannot change a row twice. */
function mergeItems(items: readonly Item[]): Item[] {
  const merged = new Map<string, Item>();
  for (const item of items) {
    const name = placeName(item.kind, item.id);
    merged.set(name, { ...merged.get(name), ...storableItem(item) });
  }
  return [...merged.values()];
}

function storableItem(item: Item): Item {
  const fields = Object.entries(item).filter(([, value]) => value !== undefined);
  return Object.fromEntries(fields.map(([name, value]) => [name, encodeText(value)])) as unknown as Item;
}

/** The answer of `append_batches` for one batch. */
type StoredOutcome =
  | { readonly outcome: "ok"; readonly resent: boolean }
  | ({ readonly outcome: "conflict"; readonly stream: string } & Head)
  | StoredFence
  | { readonly outcome: "taken"; readonly key: string; readonly by: { stream: string; seq: number } }
  | { readonly outcome: "missing"; readonly artifact: string };

export function parseOutcomes(text: string, group: readonly EncodedBatch[]): AppendOutcome[] {
  const stored = JSON.parse(text) as StoredOutcome[];
  return group.map(({ batch }, index) => outcomeOf(stored[index] as StoredOutcome, batch));
}

function outcomeOf(stored: StoredOutcome, batch: Batch): AppendOutcome {
  switch (stored.outcome) {
    case "ok":
      return { outcome: "ok", heads: headsAfter(batch), resent: stored.resent };
    case "conflict": {
      const { stream, generation, seq } = stored;
      return { outcome: "conflict", stream: fromText(stream), head: { generation, seq } };
    }
    case "fenced":
      return fencedOutcome(stored);
    case "taken": {
      const { key, by } = stored;
      return { outcome: "taken", key: fromText(key), by: { ...by, stream: fromText(by.stream) } };
    }
    case "missing":
      return { outcome: "missing", artifact: fromText(stored.artifact) };
  }
}
