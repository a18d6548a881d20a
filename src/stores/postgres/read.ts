/** Reading one stream, and the bytes beside streams. Each is one statement, and so one snapshot. */

import type { Blob, GetRequest, ReadPage, ReadRequest, StoredWrite } from "../../store.ts";
import type { Database } from "./database.ts";
import { neverRow, STREAM_COLUMNS, type StoredStream, streamRow } from "./streams.ts";
import { fromPayload, fromText, fromTextOrNull, type StoredPayload, toText } from "./text.ts";

const MAX_SEQ = 2 ** 31 - 1;

export interface WriteRow extends StoredPayload {
  readonly first: number;
  readonly last: number;
  readonly batch: string;
  readonly codec: string | null;
  readonly sum: number;
  readonly at: number;
}

/** The stream has one row without a write, each write one without a stream. A snapshot is a row with a `last` alone. */
type Row = { [Key in keyof StoredStream]: StoredStream[Key] | null } & {
  [Key in keyof WriteRow]: WriteRow[Key] | null;
};

const NO_STREAM = `NULL::text, NULL::text, NULL::integer, NULL::integer, NULL::integer, NULL::text, NULL::integer,
  NULL::bigint, NULL::bigint, NULL::integer, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text`;

/** The latest snapshot by the fold $6, of which the columns cannot be mistaken for those of a write. */
const snapshotSql = (schema: string) => `
  WITH found AS MATERIALIZED (
    SELECT n.seq, n.codec, n.payload, n.bytes FROM ${schema}.snapshots AS n
    WHERE n.namespace = $1 AND n.stream = $2 AND n.fold = $6 AND n.seq <= $4 ORDER BY n.seq DESC LIMIT 1)`;

const SNAPSHOT_ROW = `
  UNION ALL
  SELECT ${NO_STREAM}, NULL::integer, found.seq, NULL::text, found.codec, NULL::bigint, NULL::bigint,
    found.payload, found.bytes FROM found`;

/** The last write of the range is the one that covers `upTo`: the first whose end is not before it. */
const sql = (schema: string, withSnapshot: boolean) => `${withSnapshot ? snapshotSql(schema) : ""}
  SELECT ${STREAM_COLUMNS},
    NULL::integer AS first, NULL::integer AS last, NULL::text AS batch, NULL::text AS codec,
    NULL::bigint AS sum, NULL::bigint AS at, NULL::text AS payload, NULL::bytea AS bytes
  FROM ${schema}.streams AS s WHERE s.namespace = $1 AND s.stream = $2
  UNION ALL (
    SELECT ${NO_STREAM}, w.first, w.last, w.batch, w.codec, w.sum, w.at, w.payload, w.bytes FROM ${schema}.writes AS w
    WHERE w.namespace = $1 AND w.stream = $2
      AND w.last > ${withSnapshot ? "greatest($3, (SELECT found.seq FROM found))" : "$3"} AND w.last <= coalesce(
      (SELECT c.last FROM ${schema}.writes AS c
       WHERE c.namespace = $1 AND c.stream = $2 AND c.last >= $4 ORDER BY c.last LIMIT 1), ${MAX_SEQ})
      AND w.first <= $4
    ORDER BY w.last LIMIT $5)${withSnapshot ? SNAPSHOT_ROW : ""}`;

export async function read(database: Database, request: ReadRequest): Promise<ReadPage> {
  const { namespace, stream: name, after, upTo = MAX_SEQ, limit, fold } = request;
  const rows = await database.run<Row>(sql(database.schema, fold !== undefined), [
    toText(namespace),
    toText(name),
    Math.min(Math.max(after, 0), MAX_SEQ),
    Math.min(Math.max(upTo, 0), MAX_SEQ),
    limit === undefined ? null : limit + 1,
    ...(fold === undefined ? [] : [toText(fold)]),
  ]);
  const stored = rows.find(({ stream }) => stream !== null);
  const writes = rows.filter(({ first }) => first !== null).map((row) => storedWrite(row as WriteRow));
  writes.sort((a, b) => a.last - b.last);
  const more = limit !== undefined && writes.length > limit;
  if (more) writes.pop();
  const stream = stored ? streamRow(stored as StoredStream) : neverRow(name);
  const taken = rows.find(({ first, last }) => first === null && last !== null);
  const snapshot = taken ? snapshotOf(taken as WriteRow, stream.head.generation) : null;
  return { stream, snapshot, writes, more };
}

function snapshotOf(row: WriteRow, generation: number): Blob {
  return { payload: fromPayload(row), codec: fromTextOrNull(row.codec), seq: row.last, generation };
}

function storedWrite(row: WriteRow): StoredWrite {
  const { first, last, sum, at } = row;
  return {
    first,
    last,
    batch: fromText(row.batch),
    payload: fromPayload(row),
    codec: fromTextOrNull(row.codec),
    sum,
    at,
  };
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
  if (!row) return null;
  const { seq, generation } = row;
  return { payload: fromPayload(row), codec: fromTextOrNull(row.codec), seq, generation };
}
