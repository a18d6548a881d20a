/** The changes of one write that passed every question: stream row, log row, items, keys, references. */

import { streamKind } from "../../model/names.ts";
import type { Item, StreamFacets } from "../../model/stream/index.ts";
import type { Batch, Write } from "../../store.ts";
import { checkBatch, invalidBatch } from "../kit/index.ts";
import type { Connection, Value } from "./driver.ts";
import { about, type StreamKey } from "./rows.ts";
import { DELETE_SNAPSHOTS } from "./streams.ts";
import { type StoredText, toPayload, toText, toTextOrNull } from "./text.ts";
import type { Transaction } from "./transaction.ts";

/** 28 bits: with the stream's number above them a write's id still fits SQLite's integers. */
const MAX_SEQ = 2 ** 28 - 1;

/** Rejects a batch that cannot be stored, before it waits in a queue beside valid ones. */
export function checkShape(batch: Batch): void {
  checkBatch(batch, MAX_SEQ, checkNumbers);
}

/** SQLite keeps larger numbers than JavaScript can read back, and then the whole row can no longer be read. */
function checkNumbers({ stream, at, sum, expect, facets, items }: Write): void {
  const areSafe =
    isSafe(at) &&
    isSafe(sum) &&
    isSafe(expect.generation) &&
    isSafe(facets?.openCalls) &&
    isSafe(facets?.expiresAt) &&
    (!items ||
      items.every(
        (item) => isSafe(item.seq) && isSafe(item.endSeq) && isSafe(item.at) && isSafe(item.doneAt),
      ));
  if (!areSafe) throw invalidBatch(`its write to ${stream} has a number that could not be read back`);
}

function isSafe(value: number | null | undefined): boolean {
  return value === undefined || value === null || Math.abs(value) <= Number.MAX_SAFE_INTEGER;
}

/** A write with what the questions found out about its stream. */
interface Checked {
  readonly write: Write;
  readonly key: StreamKey | undefined;
  /** The parent's row and generation, for the first write of a fork. */
  readonly parent: StreamKey | null;
  readonly artifacts: readonly number[];
}

const insertWrite = (payload: string): string =>
  `INSERT INTO writes (id, first, at, sum, utf16, codec, batch, payload) VALUES (? << 28 | ?, ?, ?, ?, ?, ?, ?, ${payload})`;
const INSERT_WRITE = insertWrite("?");
/** The bytes are there already, and are taken for what they are. */
const INSERT_UTF_8 = insertWrite("CAST(? AS TEXT)");
const RELEASE_KEY = "DELETE FROM keys WHERE namespace = ? AND key = ? AND stream = ?";
const CLAIM_KEY = "INSERT INTO keys (namespace, key, stream, seq) VALUES (?, ?, ?, ?)";
const REFER = "INSERT OR IGNORE INTO artifact_refs (artifact, stream) VALUES (?, ?)";

export function storeWrite({ connection, cache }: Transaction, batch: Batch, checked: Checked): void {
  const namespace = toText(batch.namespace);
  const { write, artifacts } = checked;
  const { expect, count, codec, sum, at } = write;
  const last = expect.seq + count;
  const id = storeStream(connection, namespace, checked, last);
  const { value, utf16 } = toPayload(write.payload);
  const first = expect.seq + 1;
  connection.run(
    write.isUtf8 ? INSERT_UTF_8 : INSERT_WRITE,
    id,
    last,
    first,
    at,
    sum,
    utf16,
    toTextOrNull(codec),
    toText(batch.id),
    value,
  );
  for (const item of write.items ?? []) storeItem(connection, namespace, id, item);
  for (const key of write.releases ?? []) connection.run(RELEASE_KEY, namespace, toText(key), id);
  for (const { key, event } of write.claims ?? []) {
    connection.run(CLAIM_KEY, namespace, toText(key), id, first + event);
  }
  for (const artifact of artifacts) connection.run(REFER, artifact, id);
  const { generation } = expect;
  const key = { id, state: "live", generation, seq: last, updated_about: about(at) } as const;
  cache.keepStream(batch.namespace, write.stream, key);
}

function storeStream(connection: Connection, namespace: StoredText, checked: Checked, last: number): number {
  const { key, write } = checked;
  if (!key || key.state === "gone") return beginLife(connection, namespace, checked, last);
  changeStream(connection, key, last, write.at, write.facets ?? {});
  return key.id;
}

const NEW_STREAM = `INSERT INTO streams (state, generation, seq, base, parent, parent_generation, created_at, updated_at,
    updated_about, open_calls, expires_at, status, title, goal, budget, namespace, stream, kind)
  VALUES ('live', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`;

const NEXT_LIFE = `UPDATE streams SET state = 'live', generation = ?, seq = ?, base = ?, parent = ?, parent_generation = ?,
    created_at = ?, updated_at = ?, updated_about = ?, open_calls = ?, expires_at = ?, status = ?, title = ?, goal = ?, budget = ?
  WHERE namespace = ? AND stream = ? RETURNING id`;

/** The first write of a stream, or the first after it was removed. */
function beginLife(connection: Connection, namespace: StoredText, checked: Checked, last: number): number {
  const { key, parent } = checked;
  const { stream, expect, at, facets = {} } = checked.write;
  const values: Value[] = [
    expect.generation,
    last,
    expect.seq,
    parent?.id ?? null,
    parent?.generation ?? null,
    at,
    at,
    about(at),
    facets.openCalls ?? 0,
    facets.expiresAt ?? null,
    toTextOrNull(facets.status),
    toTextOrNull(facets.title),
    toTextOrNull(facets.goal),
    toTextOrNull(facets.budget),
    namespace,
    toText(stream),
  ];
  // Snapshots know their stream by its row, which is the same in every life: what may have been left must not be found.
  if (key) connection.run(DELETE_SNAPSHOTS, key.id);
  const row = key
    ? connection.get<{ id: number }>(NEXT_LIFE, ...values)
    : connection.get<{ id: number }>(NEW_STREAM, ...values, toText(streamKind(stream)));
  return (row as { id: number }).id;
}

/** Columns that a write may change beside the head. One that is not named costs nothing, nor do its indexes. */
const CHANGEABLE = [
  "updated_about",
  "open_calls",
  "expires_at",
  "status",
  "title",
  "goal",
  "budget",
] as const;

/** The statement for each set of them, by its bits, made when first needed. */
const changes: string[] = [];

function changeOf(columns: number): string {
  const named = CHANGEABLE.filter((_, index) => columns & (1 << index));
  const set = ["seq", "updated_at", ...named].map((column) => `${column} = ?`).join(", ");
  changes[columns] ??= `UPDATE streams SET ${set} WHERE id = ?`;
  return changes[columns];
}

function changeStream(
  connection: Connection,
  { id, updated_about }: StreamKey,
  last: number,
  at: number,
  { openCalls, expiresAt, status, title, goal, budget }: StreamFacets,
): void {
  const values: Value[] = [last, at];
  let columns = 0;
  const set = (column: (typeof CHANGEABLE)[number], value: Value): void => {
    columns |= 1 << CHANGEABLE.indexOf(column);
    values.push(value);
  };
  if (updated_about !== about(at)) set("updated_about", about(at));
  if (openCalls !== undefined) set("open_calls", openCalls);
  if (expiresAt !== undefined) set("expires_at", expiresAt);
  if (status !== undefined) set("status", toTextOrNull(status));
  if (title !== undefined) set("title", toTextOrNull(title));
  if (goal !== undefined) set("goal", toTextOrNull(goal));
  if (budget !== undefined) set("budget", toTextOrNull(budget));
  connection.run(changes[columns] ?? changeOf(columns), ...values, id);
}

const STORE_ITEM = `INSERT INTO items (stream, kind, id, namespace, seq, end_seq, status, name, key, at, done_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
  ON CONFLICT DO UPDATE SET seq = coalesce(?5, seq), end_seq = coalesce(?6, end_seq), status = coalesce(?7, status),
    name = coalesce(?8, name), key = coalesce(?9, key), at = coalesce(?10, at), done_at = iif(?12, ?11, done_at)`;

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
