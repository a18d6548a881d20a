/** The changes of one write that passed every question: stream row, log row, items, keys, references. */

import { HoldfastError, type Item, type StreamFacets, streamKind } from "../../model/index.ts";
import type { Batch, Write } from "../../store.ts";
import type { Connection, Value } from "./driver.ts";
import type { StreamKey } from "./rows.ts";
import { type StoredText, toPayload, toText, toTextOrNull } from "./text.ts";
import type { Transaction } from "./transaction.ts";

/** 28 bits: with the stream's number above them a write's id still fits SQLite's integers. */
const MAX_SEQ = 2 ** 28 - 1;

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

/** A write with what the questions found out about its stream. */
interface Checked {
  readonly write: Write;
  readonly key: StreamKey | undefined;
  /** The parent's row and generation, for the first write of a fork. */
  readonly parent: StreamKey | null;
  readonly artifacts: readonly number[];
}

const INSERT_WRITE = `INSERT INTO writes (id, first, at, sum, utf16, codec, batch, payload)
  VALUES (? << 28 | ?, ?, ?, ?, ?, ?, ?, ?)`;
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
  connection.run(INSERT_WRITE, id, last, first, at, sum, utf16, toTextOrNull(codec), toText(batch.id), value);
  for (const item of write.items ?? []) storeItem(connection, namespace, id, item);
  for (const key of write.releases ?? []) connection.run(RELEASE_KEY, namespace, toText(key), id);
  for (const { key, event } of write.claims ?? []) {
    connection.run(CLAIM_KEY, namespace, toText(key), id, first + event);
  }
  for (const artifact of artifacts) connection.run(REFER, artifact, id);
  const key = { id, state: "live", generation: expect.generation, seq: last } as const;
  cache.keepStream(batch.namespace, write.stream, key);
}

function storeStream(connection: Connection, namespace: StoredText, checked: Checked, last: number): number {
  const { key, write } = checked;
  if (!key || key.state === "gone") return beginLife(connection, namespace, checked, last);
  if (write.facets) changeFacets(connection, key.id, last, write.at, write.facets);
  else connection.run("UPDATE streams SET seq = ?, updated_at = ? WHERE id = ?", last, write.at, key.id);
  return key.id;
}

const NEW_STREAM = `INSERT INTO streams (state, generation, seq, base, parent, parent_generation, created_at, updated_at,
    open_calls, expires_at, status, title, goal, budget, namespace, stream, kind)
  VALUES ('live', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`;

const NEXT_LIFE = `UPDATE streams SET state = 'live', generation = ?, seq = ?, base = ?, parent = ?, parent_generation = ?,
    created_at = ?, updated_at = ?, open_calls = ?, expires_at = ?, status = ?, title = ?, goal = ?, budget = ?
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
    facets.openCalls ?? 0,
    facets.expiresAt ?? null,
    toTextOrNull(facets.status),
    toTextOrNull(facets.title),
    toTextOrNull(facets.goal),
    toTextOrNull(facets.budget),
    namespace,
    toText(stream),
  ];
  const row = key
    ? connection.get<{ id: number }>(NEXT_LIFE, ...values)
    : connection.get<{ id: number }>(NEW_STREAM, ...values, toText(streamKind(stream)));
  return (row as { id: number }).id;
}

/** The bits of the first parameter say which of the others were given: `null` is a value, absence is none. */
const CHANGE = `UPDATE streams SET seq = ?2, updated_at = ?3,
    status = iif(?1 & 1, ?4, status), title = iif(?1 & 2, ?5, title),
    expires_at = iif(?1 & 4, ?6, expires_at), budget = iif(?1 & 8, ?7, budget)
  WHERE id = ?8`;

/** Goal and open calls have indexes of their own, which stay untouched as long as the value does. */
const CHANGE_GOAL = "UPDATE streams SET goal = ?1 WHERE id = ?2 AND goal IS NOT ?1";
const CHANGE_OPEN_CALLS = "UPDATE streams SET open_calls = ?1 WHERE id = ?2 AND open_calls <> ?1";

function changeFacets(
  connection: Connection,
  id: number,
  last: number,
  at: number,
  facets: StreamFacets,
): void {
  const { status, title, goal, openCalls, expiresAt, budget } = facets;
  const given =
    (status === undefined ? 0 : 1) |
    (title === undefined ? 0 : 2) |
    (expiresAt === undefined ? 0 : 4) |
    (budget === undefined ? 0 : 8);
  const [statusText, titleText, budgetText] = [
    toTextOrNull(status),
    toTextOrNull(title),
    toTextOrNull(budget),
  ];
  connection.run(CHANGE, given, last, at, statusText, titleText, expiresAt ?? null, budgetText, id);
  if (goal !== undefined) connection.run(CHANGE_GOAL, toTextOrNull(goal), id);
  if (openCalls !== undefined) connection.run(CHANGE_OPEN_CALLS, openCalls, id);
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
