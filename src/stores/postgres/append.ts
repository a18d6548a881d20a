/**
 * How an append becomes durable.
 *
 *     submitted ──▶ waiting ──next turn, a flight is free, none of its streams is in the air──▶ in the air ──▶ answered
 *
 * One that nobody is in the air beside does not wait for the next turn, but until this one has made what it makes.
 *
 * A flight takes what waits, up to a limit, and is one statement: one round trip, one transaction, one wait for the
 * server's log, however many batches.
 *
 * Plain batches, which only continue one stream each, fly together: `SELECT append_plain(…)`, or
 * `append_single` for one. Inside it, in this order:
 *
 *   1  is this still the store that was opened, and does the server keep what it acknowledges
 *   2  the rows of the streams, in the order of their names: those that are live and end where their batches begin are
 *      moved on, the others left alone
 *   3  the leases, in the order of their names: one that does not hold undoes everything
 *   4  events and items of the streams that were moved on
 *   5  the transaction commits, and only then does the statement answer which batches are stored
 *
 * For one batch, `append_single` asks 1 in the statement of 2, and stores nothing where it does not hold.
 *
 * All other batches, and plain ones that are not stored after that, go the long way: `SELECT append_batches(…)`.
 *
 *   1  as above
 *   2  a place is held for each stream that may begin (a row of generation 0), so that there is something to lock
 *   3  the rows of all streams, parents of forks included, are locked in the order of their names; then the leases
 *   4  one batch after another: every question (resent, fenced, conflict, taken, missing), then every change
 *   5  places that no batch used are taken away
 *   6  the transaction commits, and only then does the statement answer
 *
 * Invariants: a batch that is refused leaves nothing behind, and its neighbours go on. A lease cannot change hands between
 * the question for its token and the commit, because its row is locked. A stream is in one batch of one flight at a time,
 * so its batches arrive in the order in which they were submitted. Only the long way refuses.
 *
 * What is left behind by a crash, of this process or of the server:
 *
 *   before the commit is in the server's log    nothing: the transaction never was
 *   after that, before the answer               all of the flight: whoever sends one of its batches again is told `resent`
 *
 * What a failure means, and what is done about it. Plain batches then go the long way:
 *
 *   no connection, or to a standby     nothing happened: again, until `busyMs` have passed
 *   deadlock, serialization            undone by the server: again
 *   a lock cannot be had in time       undone: the batches again one by one, so that only those wait that must; then STORE_BUSY
 *   a value that cannot be stored      undone: the batches again one by one, and the one at fault is told
 *   a statement that is not kept       undone: the batches again, and from now on in full (`database.ts`)
 *   the connection is lost, or silent  unknown: the same flight again. What is there answers `resent`, which is the
 *                                      acknowledgement that got lost. A refusal proves nothing, because the first flight
 *                                      may still be on its way: STORE_IO with `unknown`, and the caller sends again
 */

import { HoldfastError } from "../../model/errors.ts";
import type { Item, StreamFacets } from "../../model/stream/index.ts";
import type { AppendOutcome, Batch, Head, Write } from "../../store.ts";
import { fencedOutcome, type StoredFence } from "./leases.ts";
import { isPlain, markOf } from "./plain.ts";
import { fromText, placeName, toBytes, toText, toTextOrNull } from "./text.ts";

/** What a seq column can hold. */
const MAX_SEQ = 2 ** 31 - 1;

/** Refuses a batch that no store could keep, before it waits in a queue beside good ones. */
export function checkShape(batch: Batch): void {
  const streams = new Set(batch.writes.map((write) => write.stream));
  if (streams.size === 0) throw malformed("it has no writes");
  if (streams.size < batch.writes.length) throw malformed("it writes twice to one stream");
  for (const write of batch.writes) {
    const { stream, expect, count, claims, fork } = write;
    if (!Number.isSafeInteger(count) || count < 1) throw malformed(`its write to ${stream} has no events`);
    if (claims?.some(({ event }) => !Number.isSafeInteger(event) || event < 0 || event >= count)) {
      throw malformed(`its write to ${stream} claims a key for an event that it does not have`);
    }
    if (fork && fork.seq !== expect.seq) throw malformed(`${stream} does not begin where it forks`);
    if (!(expect.seq + count <= MAX_SEQ)) throw malformed(`${stream} would have more than ${MAX_SEQ} events`);
    checkNumbers(write);
  }
}

/** What the tables would refuse if asking them did not take so long (`schema-1.ts`). */
function checkNumbers({ stream, facets, items }: Write): void {
  if (facets?.openCalls !== undefined && !(facets.openCalls >= 0)) {
    throw malformed(`${stream} cannot have ${facets.openCalls} open calls`);
  }
  for (const { kind, id, seq = 1, endSeq = 1 } of items ?? []) {
    if (!(seq >= 1 && endSeq >= 1)) throw malformed(`the ${kind} ${id} of ${stream} points at no event`);
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
  readonly payloads: readonly (string | Buffer)[];
  /** About so many. */
  readonly bytes: number;
  /** The streams it writes or forks, each with its namespace. */
  readonly touches: readonly string[];
  readonly isPlain: boolean;
}

export function encode(batch: Batch): Encoded {
  const { namespace, writes } = batch;
  const payloads = writes.map(({ payload }) =>
    typeof payload === "string" ? toText(payload) : Buffer.from(payload),
  );
  const touches: string[] = [];
  for (const { stream, fork } of writes) {
    touches.push(placeName(namespace, stream));
    if (fork) touches.push(placeName(namespace, fork.stream));
  }
  return {
    batch,
    payloads,
    bytes: payloads.reduce((sum, { length }) => sum + length, 0),
    touches,
    isPlain: isPlain(batch),
  };
}

/** The changing arguments of `append_batches`: places and leases to be locked first, batches, bytes. */
export function flightArguments(flight: readonly Encoded[]): [string, string, string, Buffer] {
  const payloads = flight.flatMap((each) => each.payloads.map(toBytes));
  let offset = 0;
  let place = 0;
  const batches = flight.map(({ batch }) => {
    const writes = batch.writes.map((write) => {
      const bytes = payloads[place++]?.length ?? 0;
      offset += bytes;
      return { ...writeArgument(write), from: offset - bytes, bytes };
    });
    return { id: toText(batch.id), namespace: toText(batch.namespace), keys: hasKeys(batch), writes };
  });
  const bytes = Buffer.concat(payloads);
  return [JSON.stringify(placesOf(flight)), JSON.stringify(leasesOf(flight)), JSON.stringify(batches), bytes];
}

function hasKeys({ writes }: Batch): boolean {
  return writes.some(({ claims = [], releases = [] }) => claims.length + releases.length > 0);
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
  const { stream, expect, count, payload, codec, sum, at, fork, guards, releases, claims, artifacts } = write;
  const mark = markOf(write);
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

export function headsAfter(batch: Batch): Head[] {
  return batch.writes.map(({ expect, count }) => ({
    generation: expect.generation,
    seq: expect.seq + count,
  }));
}
