/**
 * Every row of the schema, part by part, for a copy. Each page goes on behind the last row of the one before, by the
 * primary key, so that a page costs what it holds. What a row names (a stream, an artifact) comes before it.
 */

import { countFittingRows } from "../../model/stream/index.ts";
import type { MovedRow, Page } from "../../store.ts";
import type { Database, Value } from "./database.ts";
import { leaseColumns, leaseRow, type StoredLease } from "./leases.ts";
import type { StoredItem } from "./list.ts";
import type { WriteRow } from "./read.ts";
import { STREAM_COLUMNS, type StoredStream, streamRow } from "./streams.ts";
import { fromPayload, fromText, fromTextOrNull } from "./text.ts";

interface Part {
  /** Values 1 to n are the place behind which it goes on, the next is the limit. */
  sql(schema: string): string;
  /** The sizes of the same rows, for those that can be large. */
  sizes?(schema: string): string;
  readonly limit: number;
  /** Behind which everything lies. */
  readonly begin: readonly (string | number)[];
  /** The columns that make up a place. */
  readonly place: readonly string[];
  read(row: never): MovedRow;
}

const ROWS = 500;

interface Named {
  readonly namespace: string;
}

const LEASES: Part = {
  sql: (schema) => `SELECT namespace, ttl, ${leaseColumns(schema)} FROM ${schema}.leases
    WHERE (namespace, name) > ($1, $2) AND token > 0 ORDER BY namespace, name LIMIT $3`,
  limit: ROWS,
  begin: ["", ""],
  place: ["namespace", "name"],
  read: (row: StoredLease & Named & { ttl: number }) => {
    return { of: "lease", namespace: fromText(row.namespace), ttlMs: row.ttl, ...leaseRow(row) };
  },
};

const ARTIFACTS: Part = {
  sql: (schema) => `SELECT namespace, hash, put_at, bytes FROM ${schema}.artifacts
    WHERE (namespace, hash) > ($1, $2) ORDER BY namespace, hash LIMIT $3`,
  sizes: (schema) => `SELECT octet_length(bytes) AS size FROM ${schema}.artifacts
    WHERE (namespace, hash) > ($1, $2) ORDER BY namespace, hash LIMIT $3`,
  limit: ROWS,
  begin: ["", ""],
  place: ["namespace", "hash"],
  read: (row: Named & { hash: string; put_at: number; bytes: Buffer }) => ({
    of: "artifact",
    namespace: fromText(row.namespace),
    hash: fromText(row.hash),
    bytes: new Uint8Array(row.bytes),
    putAt: row.put_at,
  }),
};

const STREAMS: Part = {
  sql: (schema) => `SELECT s.namespace, ${STREAM_COLUMNS}, array_to_json(ARRAY(SELECT r.hash
      FROM ${schema}.artifact_refs AS r WHERE r.namespace = s.namespace AND r.stream = s.stream))::text AS artifacts
    FROM ${schema}.streams AS s WHERE (s.namespace, s.stream) > ($1, $2) AND s.generation > 0
    ORDER BY s.namespace, s.stream LIMIT $3`,
  limit: ROWS,
  begin: ["", ""],
  place: ["namespace", "stream"],
  read: (row: StoredStream & Named & { artifacts: string }) => {
    const artifacts = (JSON.parse(row.artifacts) as string[]).map(fromText).sort();
    return { of: "stream", namespace: fromText(row.namespace), ...streamRow(row), artifacts };
  },
};

interface StoredRow extends Named, WriteRow {
  readonly stream: string;
}

const WRITES: Part = {
  sql: (
    schema,
  ) => `SELECT namespace, stream, first, last, batch, codec, sum, at, payload, bytes FROM ${schema}.writes
    WHERE (namespace, stream, last) > ($1, $2, $3) ORDER BY namespace, stream, last LIMIT $4`,
  sizes: (
    schema,
  ) => `SELECT coalesce(octet_length(payload), octet_length(bytes)) AS size FROM ${schema}.writes
    WHERE (namespace, stream, last) > ($1, $2, $3) ORDER BY namespace, stream, last LIMIT $4`,
  limit: ROWS,
  begin: ["", "", 0],
  place: ["namespace", "stream", "last"],
  read: (row: StoredRow) => ({
    of: "write",
    namespace: fromText(row.namespace),
    stream: fromText(row.stream),
    first: row.first,
    last: row.last,
    batch: fromText(row.batch),
    payload: fromPayload(row),
    codec: fromTextOrNull(row.codec),
    sum: row.sum,
    at: row.at,
  }),
};

const ITEMS: Part = {
  sql: (
    schema,
  ) => `SELECT namespace, stream, kind, id, seq, end_seq, status, name, key, at, done_at FROM ${schema}.items
    WHERE (namespace, stream, kind, id) > ($1, $2, $3, $4) ORDER BY namespace, stream, kind, id LIMIT $5`,
  limit: ROWS,
  begin: ["", "", "", ""],
  place: ["namespace", "stream", "kind", "id"],
  read: (row: StoredItem & Named) => ({
    of: "item",
    namespace: fromText(row.namespace),
    stream: fromText(row.stream),
    kind: fromText(row.kind),
    id: fromText(row.id),
    seq: row.seq,
    endSeq: row.end_seq,
    status: fromTextOrNull(row.status),
    name: fromTextOrNull(row.name),
    key: fromTextOrNull(row.key),
    at: row.at,
    doneAt: row.done_at,
  }),
};

const KEYS: Part = {
  sql: (schema) => `SELECT namespace, key, stream, seq FROM ${schema}.keys
    WHERE (namespace, key) > ($1, $2) ORDER BY namespace, key LIMIT $3`,
  limit: ROWS,
  begin: ["", ""],
  place: ["namespace", "key"],
  read: (row: Named & { key: string; stream: string; seq: number }) => ({
    of: "key",
    namespace: fromText(row.namespace),
    key: fromText(row.key),
    stream: fromText(row.stream),
    seq: row.seq,
  }),
};

const PARTS = {
  lease: LEASES,
  artifact: ARTIFACTS,
  stream: STREAMS,
  write: WRITES,
  item: ITEMS,
  key: KEYS,
} as const satisfies Record<MovedRow["of"], Part>;

/** One page. The cursor is the number of the part among those that are wanted, and the place in it, as stored. */
export async function dump(
  database: Database,
  cursor: string | null,
  only?: readonly MovedRow["of"][],
): Promise<Page<MovedRow>> {
  const parts = Object.entries(PARTS).flatMap(([of, part]) =>
    !only || only.includes(of as MovedRow["of"]) ? [part] : [],
  );
  const [number = 0, ...after] = (cursor === null ? [0] : JSON.parse(cursor)) as [number, ...Value[]];
  const part = parts[number];
  if (!part) return { rows: [], cursor: null };
  const place = after.length > 0 ? after : part.begin;
  const sizes = part.sizes?.(database.schema);
  const limit = sizes
    ? countFittingRows(await database.run(sizes, [...place, part.limit]), part.limit)
    : part.limit;
  const rows = await database.run<Record<string, Value>>(part.sql(database.schema), [...place, limit]);
  const last = rows.at(-1);
  const isFull = last !== undefined && rows.length === limit;
  const next = isFull ? [number, ...part.place.map((column) => last[column])] : [number + 1];
  return {
    rows: rows.map((row) => part.read(row as never)),
    cursor: isFull || number + 1 < parts.length ? JSON.stringify(next) : null,
  };
}
