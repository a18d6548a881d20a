/**
 * Rows of another store put into this file as they are, over those that are there. A copy that was broken off can
 * therefore be run again from its beginning: what has come already is written once more, and nothing comes twice.
 */

import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import type { MovedRow } from "../../store.ts";
import { requireEntering } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import { about } from "./rows.ts";
import { findStream } from "./streams.ts";
import { toPayload, toText, toTextOrNull } from "./text.ts";
import type { Done, Transaction } from "./transaction.ts";

type Row<Of extends MovedRow["of"]> = Extract<MovedRow, { of: Of }>;

export function restore(
  transaction: Transaction,
  path: string,
  move: string,
  rows: readonly MovedRow[],
): Done<undefined> {
  const { connection, cache, seal } = transaction;
  requireEntering({ path }, move, seal);
  for (const row of rows) PUT[row.of](connection, row as never);
  cache.clear();
  return { result: undefined, wrote: rows.length > 0 };
}

const PUT: { readonly [Of in MovedRow["of"]]: (connection: Connection, row: Row<Of>) => void } = {
  lease: putLease,
  artifact: putArtifact,
  stream: putStream,
  write: putWrite,
  item: putItem,
  key: putKey,
};

/** Of a boot that never was: nobody who held it survives the move, and whoever it was can still be named. */
function putLease(connection: Connection, { namespace, name, token, ttlMs, holder }: Row<"lease">): void {
  connection.run(
    `INSERT OR REPLACE INTO leases (namespace, name, token, boot, expires_at, ttl, holder)
     VALUES (?, ?, ?, 'moved', 0, ?, ?)`,
    toText(namespace),
    toText(name),
    token,
    ttlMs,
    holder && toText(JSON.stringify(holder)),
  );
}

function putArtifact(connection: Connection, { namespace, hash, bytes, putAt }: Row<"artifact">): void {
  connection.run(
    `INSERT INTO artifacts (namespace, hash, put_at, bytes) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET put_at = excluded.put_at, bytes = excluded.bytes`,
    toText(namespace),
    toText(hash),
    putAt,
    bytes,
  );
}

/** A tombstone to be filled in: a fork may come before the stream whose past it shares. */
const PLACE_HOLDER = `INSERT OR IGNORE INTO streams (namespace, stream, kind, state, generation, seq, base, created_at,
    updated_at, updated_about) VALUES (?, ?, ?, 'gone', 1, 0, 0, 0, 0, 0)`;

const PUT_STREAM = `UPDATE streams SET state = ?, generation = ?, seq = ?, base = ?, parent = ?, parent_generation = ?,
    created_at = ?, updated_at = ?, updated_about = ?, open_calls = ?, expires_at = ?, status = ?, title = ?, goal = ?,
    budget = ? WHERE id = ?`;

const REFER = `INSERT OR IGNORE INTO artifact_refs (artifact, stream)
  SELECT id, ? FROM artifacts WHERE namespace = ? AND hash = ?`;

function putStream(connection: Connection, row: Row<"stream">): void {
  const { namespace, stream, state, head, base, parent, createdAt, updatedAt, facets } = row;
  const id = placeOf(connection, namespace, stream);
  connection.run(
    PUT_STREAM,
    state,
    // The port speaks of the next life of a stream that is gone, the row of its last.
    state === "gone" ? head.generation - 1 : head.generation,
    head.seq,
    base,
    parent && placeOf(connection, namespace, parent.stream),
    parent ? parent.generation : null,
    createdAt,
    updatedAt,
    about(updatedAt),
    facets.openCalls,
    facets.expiresAt,
    toTextOrNull(facets.status),
    toTextOrNull(facets.title),
    toTextOrNull(facets.goal),
    toTextOrNull(facets.budget),
    id,
  );
  for (const hash of row.artifacts) connection.run(REFER, id, toText(namespace), toText(hash));
}

function placeOf(connection: Connection, namespace: string, stream: string): number {
  connection.run(PLACE_HOLDER, toText(namespace), toText(stream), toText(streamKind(stream)));
  return idOf(connection, namespace, stream);
}

function idOf(connection: Connection, namespace: string, stream: string): number {
  const found = findStream(connection, toText(namespace), toText(stream));
  if (found) return found.id;
  throw new HoldfastError("BATCH_INVALID", `the copy names ${stream}, which has not come yet`, {
    hint: "Streams come before what belongs to them. This is a mistake in the store that is copied.",
  });
}

function putWrite(connection: Connection, row: Row<"write">): void {
  const { value, utf16 } = toPayload(row.payload);
  connection.run(
    `INSERT OR REPLACE INTO writes (id, first, at, sum, utf16, codec, batch, payload)
     VALUES (? << 28 | ?, ?, ?, ?, ?, ?, ?, ?)`,
    idOf(connection, row.namespace, row.stream),
    row.last,
    row.first,
    row.at,
    row.sum,
    utf16,
    toTextOrNull(row.codec),
    toText(row.batch),
    value,
  );
}

function putItem(connection: Connection, row: Row<"item">): void {
  connection.run(
    `INSERT OR REPLACE INTO items (stream, kind, id, namespace, seq, end_seq, status, name, key, at, done_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    idOf(connection, row.namespace, row.stream),
    toText(row.kind),
    toText(row.id),
    toText(row.namespace),
    row.seq,
    row.endSeq,
    toTextOrNull(row.status),
    toTextOrNull(row.name),
    toTextOrNull(row.key),
    row.at,
    row.doneAt,
  );
}

function putKey(connection: Connection, { namespace, key, stream, seq }: Row<"key">): void {
  connection.run(
    "INSERT OR REPLACE INTO keys (namespace, key, stream, seq) VALUES (?, ?, ?, ?)",
    toText(namespace),
    toText(key),
    idOf(connection, namespace, stream),
    seq,
  );
}
