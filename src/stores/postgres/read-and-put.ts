/**
 * Reads one stream; reads and stores artifacts and snapshots. Each read is one statement, and so one snapshot
 * of the database. Storing is idempotent, so it is sent again after a lost connection.
 */

import type { Blob, GetRequest, PutRequest, ReadPage, ReadRequest } from "../../store.ts";
import { unusedStreamRow } from "../kit/index.ts";
import type { Database, WriteContext } from "./database.ts";
import * as encoding from "./rows.ts";
import { type StoredPayload, type StoredStream, type StoredWriteRow, toText, toTextOrNull } from "./rows.ts";

const MAX_SEQ = 2 ** 31 - 1;

/** A row is the stream, or a write (`first` is set), or the snapshot (`last` is set but `first` is not). */
type Row = { [Key in keyof StoredStream]: StoredStream[Key] | null } & {
  [Key in keyof StoredWriteRow]: StoredWriteRow[Key] | null;
};

const NO_STREAM = `NULL::text, NULL::text, NULL::integer, NULL::integer, NULL::integer, NULL::text,
  NULL::integer,
  NULL::bigint, NULL::bigint, NULL::integer, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text`;

/** The latest snapshot by the fold $6. */
const withSnapshot = (schema: string) => `
  WITH found AS MATERIALIZED (
    SELECT n.seq, n.codec, n.payload, n.bytes FROM ${schema}.snapshots AS n
    WHERE n.namespace = $1 AND n.stream = $2 AND n.fold = $6 AND n.seq <= $4 ORDER BY n.seq DESC LIMIT 1)`;

const SNAPSHOT_ROW = `
  UNION ALL
  SELECT ${NO_STREAM}, NULL::integer, found.seq, NULL::text, found.codec, NULL::bigint, NULL::bigint,
    found.payload, found.bytes FROM found`;

/** The last write of the range is the one that covers `upTo`: the first that does not end before it. */
const readSql = (schema: string, hasFold: boolean) => `${hasFold ? withSnapshot(schema) : ""}
  SELECT ${encoding.STREAM_COLUMNS},
    NULL::integer AS first, NULL::integer AS last, NULL::text AS batch, NULL::text AS codec,
    NULL::bigint AS sum, NULL::bigint AS at, NULL::text AS payload, NULL::bytea AS bytes
  FROM ${schema}.streams AS s WHERE s.namespace = $1 AND s.stream = $2
  UNION ALL (
    SELECT ${NO_STREAM}, w.first, w.last, w.batch, w.codec, w.sum, w.at, w.payload, w.bytes
    FROM ${schema}.writes AS w WHERE w.namespace = $1 AND w.stream = $2
      AND w.last > ${hasFold ? "greatest($3, (SELECT found.seq FROM found))" : "$3"} AND w.last <= coalesce(
      (SELECT c.last FROM ${schema}.writes AS c
       WHERE c.namespace = $1 AND c.stream = $2 AND c.last >= $4 ORDER BY c.last LIMIT 1), ${MAX_SEQ})
      AND w.first <= $4
    ORDER BY w.last LIMIT $5)${hasFold ? SNAPSHOT_ROW : ""}`;

export async function read(database: Database, request: ReadRequest): Promise<ReadPage> {
  const { namespace, stream: name, after, upTo = MAX_SEQ, limit, fold } = request;
  const rows = await database.run<Row>(readSql(database.schema, fold !== undefined), [
    toText(namespace),
    toText(name),
    Math.min(Math.max(after, 0), MAX_SEQ),
    Math.min(Math.max(upTo, 0), MAX_SEQ),
    limit === undefined ? null : limit + 1,
    ...(fold === undefined ? [] : [toText(fold)]),
  ]);
  const stored = rows.find(({ stream }) => stream !== null);
  const writes = rows
    .filter(({ first }) => first !== null)
    .map((row) => encoding.writeRow(row as StoredWriteRow));
  writes.sort((a, b) => a.last - b.last);
  const more = limit !== undefined && writes.length > limit;
  if (more) writes.pop();
  const stream = stored
    ? encoding.streamRow(stored as StoredStream)
    : unusedStreamRow(name, await unusedGeneration(database, namespace));
  const found = rows.find(({ first, last }) => first === null && last !== null) as StoredWriteRow | undefined;
  const snapshot = found ? blobOf(found, found.last, stream.head.generation) : null;
  return { stream, snapshot, writes, more };
}

/** A later statement than the read. The number only grows, and an append compares it again. */
async function unusedGeneration(database: Database, namespace: string): Promise<number> {
  const sql = `SELECT ${database.schema}.unused_generation($1) AS generation`;
  const [row] = await database.run<{ generation: number }>(sql, [toText(namespace)]);
  return row?.generation ?? 1;
}

function blobOf(row: StoredPayload & { codec: string | null }, seq: number, generation: number): Blob {
  return { payload: encoding.fromPayload(row), codec: encoding.fromTextOrNull(row.codec), seq, generation };
}

export async function get(database: Database, request: GetRequest): Promise<Blob | null> {
  const namespace = toText(request.namespace);
  const { schema } = database;
  if (request.of === "artifact") {
    const [row] = await database.run<{ bytes: Buffer }>(
      `SELECT bytes FROM ${schema}.artifacts WHERE namespace = $1 AND hash = $2`,
      [namespace, toText(request.hash)],
    );
    return row ? { payload: new Uint8Array(row.bytes), codec: null, seq: 0, generation: 0 } : null;
  }
  const [row] = await database.run<StoredPayload & { seq: number; generation: number; codec: string | null }>(
    `SELECT n.seq, s.generation, n.codec, n.payload, n.bytes
     FROM ${schema}.snapshots AS n JOIN ${schema}.streams AS s USING (namespace, stream)
     WHERE namespace = $1 AND stream = $2 AND n.fold = $3 AND n.seq <= $4 ORDER BY n.seq DESC LIMIT 1`,
    [namespace, toText(request.stream), toText(request.fold), Math.min(request.upTo, MAX_SEQ)],
  );
  return row ? blobOf(row, row.seq, row.generation) : null;
}

/**
 * Storing an artifact again renews its age, because the event that refers to it may still be on its way.
 * Damaged bytes are replaced; correct bytes are not written again.
 */
const putArtifact = (schema: string) => `
  INSERT INTO ${schema}.artifacts AS old (namespace, hash, put_at, bytes)
  SELECT $4, $5, $6::bigint, $7::bytea FROM ${schema}.enter($1, $2, $3)
  ON CONFLICT (namespace, hash) DO UPDATE SET put_at = greatest(old.put_at, excluded.put_at),
    bytes = CASE WHEN old.bytes = excluded.bytes THEN old.bytes ELSE excluded.bytes END`;

/** Locks the stream's row, so that a removal also removes the snapshot. Ignores hidden streams. */
const putSnapshot = (schema: string) => `
  WITH live AS (
    SELECT namespace, stream FROM ${schema}.streams
    WHERE namespace = $4 AND stream = $5 AND generation = $6 AND state = 'live' FOR SHARE
  )
  INSERT INTO ${schema}.snapshots (namespace, stream, fold, seq, codec, payload, bytes)
  SELECT namespace, stream, $7, $8::integer, $9, $10, $11::bytea
  FROM ${schema}.enter($1, $2, $3) CROSS JOIN live
  ON CONFLICT (namespace, stream, fold, seq)
    DO UPDATE SET codec = excluded.codec, payload = excluded.payload, bytes = excluded.bytes`;

export async function put(database: Database, context: WriteContext, request: PutRequest): Promise<void> {
  const first = [...database.writeArguments(context), toText(request.namespace)];
  if (request.of === "artifact") {
    const { hash, at, bytes } = request;
    await database.run(putArtifact(database.schema), [...first, toText(hash), at, Buffer.from(bytes)]);
    return;
  }
  const { payload, bytes } = encoding.toPayload(request.payload);
  const { stream, generation, fold, seq, codec } = request;
  const place = [toText(stream), generation, toText(fold), seq, toTextOrNull(codec)];
  await database.run(putSnapshot(database.schema), [
    ...first,
    ...place,
    payload,
    bytes && Buffer.from(bytes),
  ]);
}
