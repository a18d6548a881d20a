/**
 * How an append becomes durable.
 *
 *     submitted ──▶ waiting ──next turn, a flight is free, none of its streams is in the air──▶ in the air ──▶ answered
 *
 * A flight takes what waits, up to a limit, and is one statement: `SELECT append_batches(…)`. One round trip, one
 * transaction, one wait for the server's log, however many batches. Inside it, in this order:
 *
 *   1  is this still the store that was opened, and does the server keep what it acknowledges
 *   2  a place is held for each stream that may begin (a row of generation 0), so that there is something to lock
 *   3  the rows of all streams, parents of forks included, are locked in the order of their names; then the leases
 *   4  plain batches, which continue live streams where they end, under leases that hold, are stored together; the others
 *      one by one: every question (resent, fenced, conflict, taken, missing), then every change
 *   5  places that no batch used are taken away
 *   6  the transaction commits, and only then does the statement answer
 *
 * Invariants: a batch changes nothing before its last question, so a refusal has nothing to undo and its neighbours go
 * on. A lease cannot change hands between the question for its token and the commit, because its row is locked. A stream
 * is in one batch of one flight at a time, so its batches arrive in the order in which they were submitted.
 *
 * What is left behind by a crash, of this process or of the server:
 *
 *   before 6 is in the server's log    nothing: the transaction never was
 *   after that, before the answer      all of the flight: whoever sends one of its batches again is told `resent`
 *
 * What a failure means, and what is done about it:
 *
 *   no connection, or to a standby     nothing happened: again, until `busyMs` have passed
 *   deadlock, serialization            undone by the server: again
 *   a lock cannot be had in time       undone: the batches again one by one, so that only those wait that must; then STORE_BUSY
 *   a value that cannot be stored      undone: the batches again one by one, and the one at fault is told
 *   the connection is lost, or silent  unknown: the same flight again. What is there answers `resent`, which is the
 *                                      acknowledgement that got lost. A refusal proves nothing, because the first flight
 *                                      may still be on its way: STORE_IO with `unknown`, and the caller sends again
 */

import { HoldfastError, type Item, type StreamFacets } from "../../model/index.ts";
import type { AppendOutcome, Batch, Head, Write } from "../../store.ts";
import { fencedOutcome, type StoredFence } from "./leases.ts";
import { fromText, toText, toTextOrNull } from "./text.ts";

/** What a seq column can hold. */
const MAX_SEQ = 2 ** 31 - 1;

/** Refuses a batch that no store could keep, before it waits in a queue beside good ones. */
export function checkShape(batch: Batch): void {
  const streams = new Set(batch.writes.map((write) => write.stream));
  if (streams.size === 0) throw malformed("it has no writes");
  if (streams.size < batch.writes.length) throw malformed("it writes twice to one stream");
  for (const { stream, expect, count, claims, fork } of batch.writes) {
    if (!Number.isSafeInteger(count) || count < 1) throw malformed(`its write to ${stream} has no events`);
    if (claims?.some(({ event }) => !Number.isSafeInteger(event) || event < 0 || event >= count)) {
      throw malformed(`its write to ${stream} claims a key for an event that it does not have`);
    }
    if (fork && fork.seq !== expect.seq) throw malformed(`${stream} does not begin where it forks`);
    if (!(expect.seq + count <= MAX_SEQ)) throw malformed(`${stream} would have more than ${MAX_SEQ} events`);
  }
}

function malformed(why: string): HoldfastError {
  return new HoldfastError("BATCH_INVALID", `the batch cannot be stored: ${why}`, {
    hint: "This is a mistake in the code that made the batch; sending it again will not help.",
  });
}

/** A batch as it waits: its bytes are taken at once, so that the caller may do with its own what it likes. */
export interface Encoded {
  readonly batch: Batch;
  readonly payloads: readonly Buffer[];
  readonly bytes: number;
  /** The streams it writes or forks, each with its namespace. */
  readonly touches: readonly string[];
}

export function encode(batch: Batch): Encoded {
  const payloads = batch.writes.map(({ payload }) =>
    typeof payload === "string" ? Buffer.from(toText(payload)) : Buffer.from(payload),
  );
  const touches = batch.writes.flatMap(({ stream, fork }) => (fork ? [stream, fork.stream] : [stream]));
  return {
    batch,
    payloads,
    bytes: payloads.reduce((sum, { length }) => sum + length, 0),
    touches: touches.map((stream) => placeName(batch.namespace, stream)),
  };
}

const placeName = (namespace: string, name: string): string => JSON.stringify([namespace, name]);

/**
 * The changing arguments of `append_batches`: places and leases to be locked first, batches, bytes. Where every batch is
 * plain they are locked as they are looked at, and nothing needs to be said about them. Each write, and each guard, says
 * which batch it is of and how many of its kind that has.
 */
export function flightArguments(flight: readonly Encoded[]): [string, string, string, Buffer] {
  let offset = 0;
  const batches = flight.map(({ batch, payloads }, index) => {
    const namespace = toText(batch.namespace);
    const guards = batch.writes.reduce((sum, write) => sum + (write.guards?.length ?? 0), 0);
    const at = { place: index + 1, namespace };
    const writes = batch.writes.map((write, place) => {
      const bytes = payloads[place]?.length ?? 0;
      offset += bytes;
      const guarded = write.guards?.map(({ lease, token }) => ({
        ...at,
        size: guards,
        lease: toText(lease),
        token,
      }));
      return {
        ...writeArgument(write),
        ...at,
        size: batch.writes.length,
        batch: toText(batch.id),
        from: offset - bytes,
        bytes,
        ...(guarded?.length && { guards: guarded }),
      };
    });
    return { id: toText(batch.id), namespace, keys: hasKeys(batch), plain: isPlain(batch), writes };
  });
  const isAllPlain = batches.every(({ plain }) => plain);
  const places = isAllPlain ? [] : placesOf(flight);
  const leases = isAllPlain ? [] : leasesOf(flight);
  const bytes = Buffer.concat(flight.flatMap(({ payloads }) => payloads));
  return [JSON.stringify(places), JSON.stringify(leases), JSON.stringify(batches), bytes];
}

function hasKeys({ writes }: Batch): boolean {
  return writes.some(({ claims = [], releases = [] }) => claims.length + releases.length > 0);
}

/** Nothing but the next events of streams that are there already. */
function isPlain(batch: Batch): boolean {
  const isUsual = ({ expect, fork, artifacts = [] }: Write) =>
    expect.seq > 0 && !fork && artifacts.length === 0;
  return !hasKeys(batch) && batch.writes.every(isUsual);
}

/** Namespace, name, and whether the stream may begin. */
function placesOf(flight: readonly Encoded[]): [string, string, boolean][] {
  return flight.flatMap(({ batch: { namespace, writes } }) =>
    writes.flatMap(({ stream, expect, fork }): [string, string, boolean][] => {
      const own = [toText(namespace), toText(stream), expect.seq === 0 || fork !== undefined] as const;
      return fork ? [[...own], [toText(namespace), toText(fork.stream), false]] : [[...own]];
    }),
  );
}

function leasesOf(flight: readonly Encoded[]): [string, string][] {
  return flight.flatMap(({ batch: { namespace, writes } }) =>
    writes.flatMap(({ guards = [] }) =>
      guards.map(({ lease }): [string, string] => [toText(namespace), toText(lease)]),
    ),
  );
}

/** Fields that are absent stay absent: the function does nothing about what is not there. */
function writeArgument(write: Write): object {
  const { stream, expect, count, payload, codec, sum, at, fork, releases, claims, artifacts } = write;
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
    ...(fork && { fork: { ...fork, stream: toText(fork.stream) } }),
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

function facetArgument({ status, title, goal, budget, ...rest }: StreamFacets): object {
  return {
    ...rest,
    ...(status !== undefined && { status: toTextOrNull(status) }),
    ...(title !== undefined && { title: toTextOrNull(title) }),
    ...(goal !== undefined && { goal: toTextOrNull(goal) }),
    ...(budget !== undefined && { budget: toTextOrNull(budget) }),
  };
}

/** One statement cannot change a row twice, so an item that a write names twice is put together here. */
function mergeItems(items: readonly Item[]): Item[] {
  const merged = new Map<string, Item>();
  for (const item of items) {
    const name = placeName(item.kind, item.id);
    merged.set(name, { ...merged.get(name), ...storableItem(item) });
  }
  return [...merged.values()];
}

function storableItem({ kind, id, status, name, key, ...rest }: Item): Item {
  return {
    ...(Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as typeof rest),
    kind: toText(kind),
    id: toText(id),
    ...(status !== undefined && { status: toText(status) }),
    ...(name !== undefined && { name: toText(name) }),
    ...(key !== undefined && { key: toText(key) }),
  };
}

/** What `append_batches` says of one batch. */
type StoredOutcome =
  | { readonly outcome: "ok"; readonly resent: boolean }
  | {
      readonly outcome: "conflict";
      readonly stream: string;
      readonly generation: number;
      readonly seq: number;
    }
  | StoredFence
  | { readonly outcome: "taken"; readonly key: string; readonly by: { stream: string; seq: number } }
  | { readonly outcome: "missing"; readonly artifact: string };

export function parseOutcomes(text: string, flight: readonly Encoded[]): AppendOutcome[] {
  const stored = JSON.parse(text) as StoredOutcome[];
  return flight.map(({ batch }, index) => outcomeOf(stored[index] as StoredOutcome, batch));
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
      return { outcome: "taken", key: fromText(key), by: { stream: fromText(by.stream), seq: by.seq } };
    }
    case "missing":
      return { outcome: "missing", artifact: fromText(stored.artifact) };
  }
}

function headsAfter(batch: Batch): Head[] {
  return batch.writes.map(({ expect, count }) => ({
    generation: expect.generation,
    seq: expect.seq + count,
  }));
}
