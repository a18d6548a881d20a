/**
 * One batch inside an open write transaction: first every check, then every change, so a refusal has
 * nothing to undo.
 *
 * The order of the checks decides which refusal a caller sees. A resend comes first, because the first
 * arrival of the same batch would look like a conflict. A resent batch is answered `ok`, but the process
 * that stored it may have died before its fsync, so that the batch is in the page cache only. Its answer
 * therefore waits for a commit that writes something.
 */

import { streamKind } from "../../model/names.ts";
import type { Item } from "../../model/stream/index.ts";
import type { AppendOutcome, Batch, Write } from "../../store.ts";
import { checkBatch, guardsOf, headOf, headsAfter, invalidBatch } from "../kit/index.ts";
import type { Connection, Value } from "./driver.ts";
import { changeLease, checkGuards, checkTake, renewGuards } from "./leases.ts";
import { bumpProof } from "./opening.ts";
import type { ActResult, StoredText, StreamEntry, Transaction } from "./rows.ts";
import {
  coarseTime,
  DELETE_SNAPSHOTS,
  findCachedStream,
  fromText,
  headIn,
  toPayload,
  toText,
  toTextOrNull,
} from "./rows.ts";

/** 28 bits: with the stream's id above them, a write's id still fits SQLite's integers. */
export const MAX_SEQ = 2 ** 28 - 1;

/** Rejects a batch that cannot be stored, before it waits in a queue beside valid ones. */
export function checkShape(batch: Batch): void {
  checkBatch(batch, MAX_SEQ, checkNumbers);
}

/** SQLite stores larger numbers than JavaScript can read back; one makes its whole row unreadable. */
function checkNumbers({ stream, at, sum, expect, facets, items = NONE }: Write): void {
  const isItemSafe = (item: Item): boolean =>
    isSafe(item.seq) && isSafe(item.endSeq) && isSafe(item.at) && isSafe(item.doneAt);
  const areFacetsSafe = isSafe(facets?.openCalls) && isSafe(facets?.expiresAt);
  const isHeadSafe = isSafe(at) && isSafe(sum) && isSafe(expect.generation);
  if (!(isHeadSafe && areFacetsSafe && items.every(isItemSafe)))
    throw invalidBatch(`its write to ${stream} has a number that could not be read back`);
}

function isSafe(value: number | null | undefined): boolean {
  return value === undefined || value === null || Math.abs(value) <= Number.MAX_SAFE_INTEGER;
}

export function append(transaction: Transaction, batch: Batch): ActResult<AppendOutcome> {
  const { connection } = transaction;
  const { namespace, writes } = batch;
  const streams = writes.map(({ stream }) => findCachedStream(transaction, namespace, stream));
  if (isResent(connection, batch, streams)) {
    bumpProof(connection);
    return { result: { outcome: "ok", heads: headsAfter(batch), resent: true }, wrote: true };
  }
  const held = checkGuards(transaction, namespace, guardsOf(batch));
  if (!Array.isArray(held)) return refused(held);
  const untakable = checkTake(transaction, batch);
  if (untakable) return refused(untakable);
  const parents = checkPositions(transaction, batch, streams);
  if ("outcome" in parents) return refused(parents);
  const taken = checkClaims(connection, batch);
  if (taken) return refused(taken);
  const artifacts = checkArtifacts(connection, batch);
  if ("outcome" in artifacts) return refused(artifacts);

  renewGuards(transaction, namespace, held);
  if (batch.lease) changeLease(transaction, namespace, batch.lease);
  for (let index = 0; index < writes.length; index++) {
    storeWrite(transaction, batch, {
      write: writes[index] as Write,
      stream: streams[index],
      parent: parents[index] ?? null,
      artifacts: artifacts[index] ?? NONE,
    });
  }
  return { result: { outcome: "ok", heads: headsAfter(batch), resent: false }, wrote: true };
}

const NONE: readonly never[] = [];

function refused(result: AppendOutcome): ActResult<AppendOutcome> {
  return { result, wrote: false };
}

const WRITE_AFTER = `SELECT first, batch FROM writes
  WHERE id > (? << 28 | ?) AND id <= (? << 28 | 268435455) ORDER BY id LIMIT 1`;

type Streams = readonly (StreamEntry | undefined)[];

function isResent(connection: Connection, batch: Batch, streams: Streams): boolean {
  return batch.writes.every(({ expect }, index) => {
    const stream = streams[index];
    if (!stream) return false;
    const { generation, seq } = headOf(stream, stream.generation);
    if (generation !== expect.generation || seq <= expect.seq) return false;
    const range = [stream.id, expect.seq, stream.id];
    const next = connection.get<{ first: number; batch: StoredText }>(WRITE_AFTER, ...range);
    return next?.first === expect.seq + 1 && fromText(next.batch) === batch.id;
  });
}

type Refusal<Outcome extends AppendOutcome["outcome"]> = Extract<AppendOutcome, { outcome: Outcome }>;

/** Each write must continue its stream; a fork must leave a past that exists. Returns fork parents. */
function checkPositions(
  transaction: Transaction,
  { namespace, writes }: Batch,
  streams: Streams,
): Refusal<"conflict"> | readonly (StreamEntry | null)[] {
  let parents: (StreamEntry | null)[] | null = null;
  for (let index = 0; index < writes.length; index++) {
    const { stream, expect, fork } = writes[index] as Write;
    const entry = streams[index];
    const head = headIn(transaction.connection, namespace, entry);
    const isGone = !entry || entry.state === "gone";
    const isFree = fork ? isGone : entry?.state !== "hidden" && head.seq === expect.seq;
    const isNext = isGone ? head.generation <= expect.generation : head.generation === expect.generation;
    if (!isFree || !isNext) return { outcome: "conflict", stream, head };
    if (!fork) continue;
    const parent = findCachedStream(transaction, namespace, fork.stream);
    const past = headIn(transaction.connection, namespace, parent);
    const exists =
      parent && parent.state !== "gone" && past.generation === fork.generation && past.seq >= fork.seq;
    if (!exists) return { outcome: "conflict", stream: fork.stream, head: past };
    parents ??= writes.map(() => null);
    parents[index] = parent;
  }
  return parents ?? NONE;
}

const KEY_HOLDER = `SELECT s.stream, k.seq FROM keys AS k JOIN streams AS s ON s.id = k.stream
  WHERE k.namespace = ? AND k.key = ?`;

type KeyHolder = Refusal<"taken">["by"];

export function keyHolder(connection: Connection, namespace: string, key: string): KeyHolder | null {
  const values = [toText(namespace), toText(key)];
  const found = connection.get<{ stream: StoredText; seq: number }>(KEY_HOLDER, ...values);
  return found ? { stream: fromText(found.stream), seq: found.seq } : null;
}

/** Keys change write by write. Within a write releases come first, so that a key can change hands. */
function checkClaims(connection: Connection, { namespace, writes }: Batch): Refusal<"taken"> | null {
  if (!writes.some(({ claims }) => claims && claims.length > 0)) return null;
  const changed = new Map<string, KeyHolder | null>();
  const holderOf = (key: string): KeyHolder | null => {
    const known = changed.get(key);
    return known === undefined ? keyHolder(connection, namespace, key) : known;
  };
  for (const { stream, expect, releases, claims } of writes) {
    for (const key of releases ?? []) if (holderOf(key)?.stream === stream) changed.set(key, null);
    for (const { key, event } of claims ?? []) {
      const by = holderOf(key);
      if (by) return { outcome: "taken", key, by };
      changed.set(key, { stream, seq: expect.seq + 1 + event });
    }
  }
  return null;
}

const ARTIFACT = "SELECT id FROM artifacts WHERE namespace = ? AND hash = ?";

function checkArtifacts(
  connection: Connection,
  { namespace, writes }: Batch,
): Refusal<"missing"> | readonly (readonly number[])[] {
  if (!writes.some(({ artifacts }) => artifacts && artifacts.length > 0)) return NONE;
  const found: number[][] = [];
  for (const { artifacts = NONE } of writes) {
    const ids: number[] = [];
    for (const hash of artifacts) {
      const row = connection.get<{ id: number }>(ARTIFACT, toText(namespace), toText(hash));
      if (!row) return { outcome: "missing", artifact: hash };
      ids.push(row.id);
    }
    found.push(ids);
  }
  return found;
}

interface CheckedWrite {
  readonly write: Write;
  readonly stream: StreamEntry | undefined;
  /** The parent's row, for the first write of a fork. */
  readonly parent: StreamEntry | null;
  readonly artifacts: readonly number[];
}

const insertWrite = (payload: string): string =>
  `INSERT INTO writes (id, first, at, sum, utf16, codec, batch, payload)
  VALUES (? << 28 | ?, ?, ?, ?, ?, ?, ?, ${payload})`;
const INSERT_WRITE = insertWrite("?");
/** For a payload that is already UTF-8. */
const INSERT_UTF_8 = insertWrite("CAST(? AS TEXT)");
const RELEASE_KEY = "DELETE FROM keys WHERE namespace = ? AND key = ? AND stream = ?";
const CLAIM_KEY = "INSERT INTO keys (namespace, key, stream, seq) VALUES (?, ?, ?, ?)";
const REFER = "INSERT OR IGNORE INTO artifact_refs (artifact, stream) VALUES (?, ?)";

function storeWrite({ connection, cache }: Transaction, batch: Batch, checked: CheckedWrite): void {
  const namespace = toText(batch.namespace);
  const { write, artifacts } = checked;
  const { expect, count, codec, sum, at } = write;
  const last = expect.seq + count;
  const { stream } = checked;
  const isNew = !stream || stream.state === "gone";
  const id = isNew ? createStream(connection, namespace, checked, last) : stream.id;
  if (!isNew) updateStream(connection, stream, last, write);
  const { value, utf16 } = toPayload(write.payload);
  const first = expect.seq + 1;
  const sql = write.isUtf8 ? INSERT_UTF_8 : INSERT_WRITE;
  connection.run(sql, id, last, first, at, sum, utf16, toTextOrNull(codec), toText(batch.id), value);
  for (const item of write.items ?? NONE) storeItem(connection, namespace, id, item);
  for (const key of write.releases ?? NONE) connection.run(RELEASE_KEY, namespace, toText(key), id);
  for (const { key, event } of write.claims ?? NONE) {
    connection.run(CLAIM_KEY, namespace, toText(key), id, first + event);
  }
  for (const artifact of artifacts) connection.run(REFER, artifact, id);
  const { generation } = expect;
  const entry = { id, state: "live", generation, seq: last, updated_about: coarseTime(at) } as const;
  cache.setStream(batch.namespace, write.stream, entry);
}

const NEW_STREAM = `INSERT INTO streams (state, generation, seq, base, parent, parent_generation, created_at,
    updated_at, updated_about, open_calls, expires_at, status, title, goal, budget, namespace, stream, kind)
  VALUES ('live', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`;

/** A tombstone becomes the next life of its stream. */
const NEXT_LIFE = `UPDATE streams SET state = 'live', generation = ?, seq = ?, base = ?, parent = ?,
    parent_generation = ?, created_at = ?, updated_at = ?, updated_about = ?, open_calls = ?, expires_at = ?,
    status = ?, title = ?, goal = ?, budget = ?
  WHERE namespace = ? AND stream = ? RETURNING id`;

function createStream(
  connection: Connection,
  namespace: StoredText,
  checked: CheckedWrite,
  last: number,
): number {
  const { stream: tombstone, parent } = checked;
  const { stream, expect, at, facets = {} } = checked.write;
  const values: Value[] = [
    expect.generation,
    last,
    expect.seq,
    parent?.id ?? null,
    parent?.generation ?? null,
    at,
    at,
    coarseTime(at),
    facets.openCalls ?? 0,
    facets.expiresAt ?? null,
    toTextOrNull(facets.status),
    toTextOrNull(facets.title),
    toTextOrNull(facets.goal),
    toTextOrNull(facets.budget),
    namespace,
    toText(stream),
  ];
  // Snapshots refer to the stream's row, which is the same in every life. Leftovers must not be found.
  if (tombstone) connection.run(DELETE_SNAPSHOTS, tombstone.id);
  const row = tombstone
    ? connection.get<{ id: number }>(NEXT_LIFE, ...values)
    : connection.get<{ id: number }>(NEW_STREAM, ...values, toText(streamKind(stream)));
  return (row as { id: number }).id;
}

/** Columns that a write may change beside the head. An unchanged one costs nothing, nor do its indexes. */
const COLUMNS = ["updated_about", "open_calls", "expires_at", "status", "title", "goal", "budget"] as const;

/** The UPDATE statement for each set of changed columns, by its bits, built on first use. */
const updates: string[] = [];

function updateOf(columns: number): string {
  const changed = COLUMNS.filter((_, index) => columns & (1 << index));
  const set = ["seq", "updated_at", ...changed].map((column) => `${column} = ?`).join(", ");
  updates[columns] ??= `UPDATE streams SET ${set} WHERE id = ?`;
  return updates[columns];
}

function updateStream(connection: Connection, stream: StreamEntry, last: number, write: Write): void {
  const { at, facets = {} } = write;
  const { openCalls, expiresAt, status, title, goal, budget } = facets;
  const values: Value[] = [last, at];
  let columns = 0;
  const set = (column: (typeof COLUMNS)[number], value: Value): void => {
    columns |= 1 << COLUMNS.indexOf(column);
    values.push(value);
  };
  if (stream.updated_about !== coarseTime(at)) set("updated_about", coarseTime(at));
  if (openCalls !== undefined) set("open_calls", openCalls);
  if (expiresAt !== undefined) set("expires_at", expiresAt);
  if (status !== undefined) set("status", toTextOrNull(status));
  if (title !== undefined) set("title", toTextOrNull(title));
  if (goal !== undefined) set("goal", toTextOrNull(goal));
  if (budget !== undefined) set("budget", toTextOrNull(budget));
  connection.run(updates[columns] ?? updateOf(columns), ...values, stream.id);
}

const STORE_ITEM = `INSERT INTO items
    (stream, kind, id, namespace, seq, end_seq, status, name, key, at, done_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
  ON CONFLICT DO UPDATE SET seq = coalesce(?5, seq), end_seq = coalesce(?6, end_seq),
    status = coalesce(?7, status), name = coalesce(?8, name), key = coalesce(?9, key), at = coalesce(?10, at),
    done_at = iif(?12, ?11, done_at)`;

function storeItem(connection: Connection, namespace: StoredText, stream: number, item: Item): void {
  connection.run(
    STORE_ITEM,
    stream,
    toText(item.kind),
    toText(item.id),
    namespace,
    item.seq ?? null,
    item.endSeq ?? null,
    toTextOrNull(item.status),
    toTextOrNull(item.name),
    toTextOrNull(item.key),
    item.at ?? null,
    item.doneAt ?? null,
    item.doneAt === undefined ? 0 : 1,
  );
}
