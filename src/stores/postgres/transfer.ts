/**
 * Moving a store: its seal, and its rows in pages, out of one schema and into another.
 *
 * The seal is a row in `meta`. Unless its phase is `arrived`, the schema takes only the writes of the move.
 * Every write reads `meta` first (`enter`), which takes the weakest lock on it until the transaction
 * ends. Setting a seal takes the strongest: it waits for all writes in flight, and later ones read the new
 * seal. So nothing is committed behind a seal. A connection that is lost around COMMIT leaves the old seal
 * or the new one; reading it tells which.
 *
 * `dump` reads each table by its primary key. `restore` puts a page over the rows that are there, in one
 * transaction, so an interrupted move can start again from the beginning.
 */

import { createHash, randomUUID } from "node:crypto";
import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import { countFittingRows } from "../../model/stream/index.ts";
import type { MovedRow, Page, Seal } from "../../store.ts";
import { dumpStep, isSameSeal, requireEntering, type StoredItem } from "../kit/index.ts";
import type { Database, Query } from "./database.ts";
import { asFailure, isCollision, isTransient, storeError } from "./failures.ts";
import { leaseColumns, leaseRow, type StoredLease } from "./leases.ts";
import * as stored from "./rows.ts";
import { fromText, toPayload, toText, toTextOrNull } from "./rows.ts";
import type { Value } from "./value-query.ts";

const TRIES = 3;

const sealSql = (schema: string): string => `SELECT value FROM ${schema}.meta WHERE name = 'seal'`;

const parseSeal = (rows: readonly { value: string }[]): Seal | null =>
  rows[0] ? (JSON.parse(rows[0].value) as Seal) : null;

export async function readSeal(database: Database): Promise<Seal | null> {
  return parseSeal(await database.run<{ value: string }>(sealSql(database.schema)));
}

/** Reads the seal in a transaction, which keeps it from changing until the transaction ends. */
async function lockedSeal(query: Query, schema: string): Promise<Seal | null> {
  return parseSeal(await query<{ value: string }>(sealSql(schema)));
}

/**
 * The name under which the server lists the connections of one handle: `holdfast agents 1f9a03c2`. It is
 * shorter than the server's limit of 63 bytes, and has no characters that the server replaces.
 */
export function clientName(schema: string): string {
  const name = /^[\w-]{1,40}$/.test(schema)
    ? schema
    : createHash("sha256").update(schema).digest("hex").slice(0, 40);
  return `holdfast ${name} ${randomUUID().slice(0, 8)}`;
}

const OTHER_CLIENTS = `SELECT count(DISTINCT a.application_name)::integer AS others
  FROM pg_catalog.pg_stat_activity AS a, current_setting('application_name') AS own
  WHERE a.datname = current_database() AND own ~ '^holdfast [^ ]+ [0-9a-f]{8}$' AND a.application_name <> own
    AND starts_with(a.application_name, left(own, -8))`;

/**
 * Other handles with a connection to this schema. A handle that is idle for ten seconds has none. One with an
 * `application_name` of the user's choice is not recognised.
 */
export async function otherUser(database: Database): Promise<string | null> {
  const [row] = await database.run<{ others: number }>(OTHER_CLIENTS);
  if (!row?.others) return null;
  return `${row.others} other program${row.others === 1 ? " is" : "s are"} connected to the schema`;
}

export async function reseal(database: Database, expect: Seal | null, next: Seal | null): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    try {
      return await setSeal(database, expect, next);
    } catch (error) {
      const failure = asFailure(error);
      const isUnknown = failure.transaction === "unknown";
      if (!isUnknown || tries >= TRIES) throw storeError(database.address, failure, isUnknown);
      // If the first try was committed, the new seal is there; otherwise the old one still is.
      if (isSameSeal(await readSeal(database), next)) return true;
    }
  }
}

function setSeal(database: Database, expect: Seal | null, next: Seal | null): Promise<boolean> {
  const { schema, limits } = database;
  return database.transaction(async (query) => {
    await query("SELECT set_config('lock_timeout', $1, true)", [String(limits.busyMs)]);
    await query(`LOCK TABLE ${schema}.meta IN ACCESS EXCLUSIVE MODE`);
    if (!isSameSeal(await lockedSeal(query, schema), expect)) return false;
    await query(`DELETE FROM ${schema}.meta WHERE name = 'seal'`);
    if (next) {
      await query(`INSERT INTO ${schema}.meta (name, value) VALUES ('seal', $1)`, [JSON.stringify(next)]);
    }
    return true;
  });
}

/** One kind of rows in a dump. The values of its SQL are the position to continue after, then the limit. */
interface Part {
  sql(schema: string): string;
  /** The sizes of the same rows, for kinds of which a single row can be large. */
  sizes?(schema: string): string;
  /** A position before every row. */
  readonly begin: readonly (string | number)[];
  /** The columns that make up a position. */
  readonly position: readonly string[];
  read(row: never): MovedRow;
}

const MAX_ROWS = 500;

type Namespaced = { readonly namespace: string };

const namespaceOf = (row: Namespaced): string => fromText(row.namespace);

/** Rows that others name (streams, artifacts) come before the rows that name them. */
const PARTS = {
  lease: {
    sql: (schema) => `SELECT namespace, ttl, ${leaseColumns(schema)} FROM ${schema}.leases
      WHERE (namespace, name) > ($1, $2) AND token > 0 ORDER BY namespace, name LIMIT $3`,
    begin: ["", ""],
    position: ["namespace", "name"],
    read: (row: StoredLease & Namespaced & { ttl: number }) => {
      return { of: "lease", namespace: namespaceOf(row), ttlMs: row.ttl, ...leaseRow(row) };
    },
  },
  artifact: {
    sql: (schema) => `SELECT namespace, hash, put_at, bytes FROM ${schema}.artifacts
      WHERE (namespace, hash) > ($1, $2) ORDER BY namespace, hash LIMIT $3`,
    sizes: (schema) => `SELECT octet_length(bytes) AS size FROM ${schema}.artifacts
      WHERE (namespace, hash) > ($1, $2) ORDER BY namespace, hash LIMIT $3`,
    begin: ["", ""],
    position: ["namespace", "hash"],
    read: (row: Namespaced & { hash: string; put_at: number; bytes: Buffer }) => ({
      of: "artifact",
      namespace: namespaceOf(row),
      hash: fromText(row.hash),
      bytes: new Uint8Array(row.bytes),
      putAt: row.put_at,
    }),
  },
  stream: {
    sql: (schema) => `SELECT s.namespace, ${stored.STREAM_COLUMNS}, array_to_json(ARRAY(SELECT r.hash
        FROM ${schema}.artifact_refs AS r WHERE r.namespace = s.namespace
          AND r.stream = s.stream))::text AS artifacts
      FROM ${schema}.streams AS s WHERE (s.namespace, s.stream) > ($1, $2) AND s.generation > 0
      ORDER BY s.namespace, s.stream LIMIT $3`,
    begin: ["", ""],
    position: ["namespace", "stream"],
    read: (row: stored.StoredStream & Namespaced & { artifacts: string }) => {
      const artifacts = (JSON.parse(row.artifacts) as string[]).map(fromText).sort();
      return { of: "stream", namespace: namespaceOf(row), ...stored.streamRow(row), artifacts };
    },
  },
  write: {
    sql: (schema) => `SELECT namespace, stream, first, last, batch, codec, sum, at, payload, bytes
      FROM ${schema}.writes WHERE (namespace, stream, last) > ($1, $2, $3)
      ORDER BY namespace, stream, last LIMIT $4`,
    sizes: (schema) => `SELECT coalesce(octet_length(payload), octet_length(bytes)) AS size
      FROM ${schema}.writes WHERE (namespace, stream, last) > ($1, $2, $3)
      ORDER BY namespace, stream, last LIMIT $4`,
    begin: ["", "", 0],
    position: ["namespace", "stream", "last"],
    read: (row: stored.StoredWriteRow & Namespaced & { stream: string }) => {
      return {
        of: "write",
        namespace: namespaceOf(row),
        stream: fromText(row.stream),
        ...stored.writeRow(row),
      };
    },
  },
  item: {
    sql: (schema) => `SELECT namespace, stream, kind, id, seq, end_seq, status, name, key, at, done_at
      FROM ${schema}.items WHERE (namespace, stream, kind, id) > ($1, $2, $3, $4)
      ORDER BY namespace, stream, kind, id LIMIT $5`,
    begin: ["", "", "", ""],
    position: ["namespace", "stream", "kind", "id"],
    read: (row: StoredItem<string> & Namespaced) => {
      return { of: "item", namespace: namespaceOf(row), ...stored.itemRow(row) };
    },
  },
  key: {
    sql: (schema) => `SELECT namespace, key, stream, seq FROM ${schema}.keys
      WHERE (namespace, key) > ($1, $2) ORDER BY namespace, key LIMIT $3`,
    begin: ["", ""],
    position: ["namespace", "key"],
    read: (row: Namespaced & { key: string; stream: string; seq: number }) => ({
      of: "key",
      namespace: namespaceOf(row),
      key: fromText(row.key),
      stream: fromText(row.stream),
      seq: row.seq,
    }),
  },
} as const satisfies Record<MovedRow["of"], Part>;

/** Positions in a cursor are as stored. */
export async function dump(
  database: Database,
  cursor: string | null,
  only?: readonly MovedRow["of"][],
): Promise<Page<MovedRow>> {
  const step = dumpStep<Part>(PARTS, cursor, only);
  if (!step) return { rows: [], cursor: null };
  const { part, after } = step;
  const sizes = part.sizes?.(database.schema);
  const limit = sizes
    ? countFittingRows(await database.run(sizes, [...after, MAX_ROWS]), MAX_ROWS)
    : MAX_ROWS;
  const rows = await database.run<Record<string, string | number>>(part.sql(database.schema), [
    ...after,
    limit,
  ]);
  const last = rows.length === limit ? rows.at(-1) : undefined;
  return {
    rows: rows.map((row) => part.read(row as never)),
    cursor: step.next(last ? part.position.map((column) => last[column] as string | number) : null),
  };
}

/** Idempotent, so a lost connection is a reason to put the page again. */
export async function restore(database: Database, move: string, rows: readonly MovedRow[]): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await database.transaction((query) => putPage(database, query, move, rows));
    } catch (error) {
      if (error instanceof HoldfastError) throw error;
      const failure = asFailure(error);
      const isRetryable = isTransient(failure) || isCollision(failure);
      if (!isRetryable || tries >= TRIES) {
        throw storeError(database.address, failure, failure.transaction === "unknown");
      }
    }
  }
}

type Row<Of extends MovedRow["of"]> = Extract<MovedRow, { of: Of }>;
type Cell = string | number | boolean | null;
type Columns<Each> = Readonly<Record<string, readonly [type: string, cell: (row: Each) => Cell]>>;

async function putPage(
  { schema, address }: Database,
  query: Query,
  move: string,
  rows: readonly MovedRow[],
): Promise<void> {
  requireEntering({ address }, move, await lockedSeal(query, schema));
  const of = <Of extends MovedRow["of"]>(kind: Of): Row<Of>[] =>
    rows.filter((row): row is Row<Of> => row.of === kind);
  await putRows(query, `${schema}.leases`, of("lease"), 2, LEASE_COLUMNS);
  for (const row of of("artifact")) await putArtifact(query, schema, row);
  await putRows(query, `${schema}.streams`, of("stream"), 2, STREAM_ROW_COLUMNS);
  const references = of("stream").flatMap(({ namespace, stream, artifacts }) =>
    artifacts.map((hash) => ({ namespace, stream, hash })),
  );
  await putRows(query, `${schema}.artifact_refs`, references, 3, REFERENCE_COLUMNS);
  await putRows(query, `${schema}.writes`, of("write"), 3, WRITE_COLUMNS);
  await putRows(query, `${schema}.items`, of("item"), 4, ITEM_COLUMNS);
  await putRows(query, `${schema}.keys`, of("key"), 2, KEY_COLUMNS);
}

/** One statement with one array per column. The first `keys` columns are the primary key. */
async function putRows<Each>(
  query: Query,
  table: string,
  rows: readonly Each[],
  keys: number,
  columns: Columns<Each>,
): Promise<void> {
  if (rows.length === 0) return;
  const names = Object.keys(columns);
  const types = Object.values(columns).map(([type], index) => `$${index + 1}::${type}[]`);
  const values: Value[] = Object.values(columns).map(([, cell]) => rows.map(cell));
  const rest = names.slice(keys);
  const changes = rest.map((name) => `${name} = excluded.${name}`).join(", ");
  await query(
    `INSERT INTO ${table} (${names.join(", ")}) SELECT * FROM unnest(${types.join(", ")})
     ON CONFLICT (${names.slice(0, keys).join(", ")})
     DO ${rest.length > 0 ? `UPDATE SET ${changes}` : "NOTHING"}`,
    values,
  );
}

async function putArtifact(query: Query, schema: string, row: Row<"artifact">): Promise<void> {
  await query(
    `INSERT INTO ${schema}.artifacts (namespace, hash, put_at, bytes) VALUES ($1, $2, $3, $4)
     ON CONFLICT (namespace, hash) DO UPDATE SET put_at = excluded.put_at, bytes = excluded.bytes`,
    [toText(row.namespace), toText(row.hash), row.putAt, Buffer.from(row.bytes)],
  );
}

/** Columns that are named like the field of the row that they hold. */
const same = <Name extends string, Field>(
  type: string,
  encode: (value: Field) => Cell,
  ...names: Name[]
): Columns<Readonly<Record<Name, Field>>> =>
  Object.fromEntries(names.map((name) => [name, [type, (row) => encode(row[name])]]));
const texts = <Name extends string>(...names: Name[]) => same("text", toTextOrNull, ...names);
const numbers = <Name extends string>(type: "integer" | "bigint", ...names: Name[]) =>
  same(type, (value: number | null) => value, ...names);

/** Expired: no holder survives the move, and the last one can still be named. */
const LEASE_COLUMNS: Columns<Row<"lease">> = {
  ...texts("namespace", "name"),
  ...numbers("bigint", "token"),
  expires_at: ["bigint", () => 0],
  ttl: ["bigint", ({ ttlMs }) => Math.round(ttlMs)],
  owner: ["text", ({ holder }) => holder && toText(holder.owner)],
  holder: ["text", ({ holder }) => holder && JSON.stringify(holder)],
};

const STREAM_ROW_COLUMNS: Columns<Row<"stream">> = {
  ...texts("namespace", "stream"),
  kind: ["text", ({ stream }) => toText(streamKind(stream))],
  ...texts("state"),
  // For a stream that is gone, the port has the generation of its next life, the row that of its last.
  generation: ["integer", ({ state, head }) => (state === "gone" ? head.generation - 1 : head.generation)],
  seq: ["integer", ({ head }) => head.seq],
  ...numbers("integer", "base"),
  parent: ["text", ({ parent }) => parent && toText(parent.stream)],
  parent_generation: ["integer", ({ parent }) => parent?.generation ?? null],
  created_at: ["bigint", ({ createdAt }) => createdAt],
  updated_at: ["bigint", ({ updatedAt }) => updatedAt],
  updated_second: ["bigint", ({ updatedAt }) => Math.trunc(updatedAt / 1000)],
  open_calls: ["integer", ({ facets }) => facets.openCalls],
  is_marked_open: ["boolean", ({ facets }) => facets.openCalls > 0],
  expires_at: ["bigint", ({ facets }) => facets.expiresAt],
  status: ["text", ({ facets }) => toTextOrNull(facets.status)],
  title: ["text", ({ facets }) => toTextOrNull(facets.title)],
  goal: ["text", ({ facets }) => toTextOrNull(facets.goal)],
  budget: ["text", ({ facets }) => toTextOrNull(facets.budget)],
};

const REFERENCE_COLUMNS = texts("namespace", "hash", "stream");

const WRITE_COLUMNS: Columns<Row<"write">> = {
  ...texts("namespace", "stream"),
  ...numbers("integer", "last", "first"),
  ...numbers("bigint", "at", "sum"),
  ...texts("batch", "codec"),
  payload: ["text", ({ payload }) => toPayload(payload).payload],
  bytes: ["bytea", ({ payload }) => hex(toPayload(payload).bytes)],
};

function hex(bytes: Buffer | null): string | null {
  return bytes && `\\x${bytes.toString("hex")}`;
}

const ITEM_COLUMNS: Columns<Row<"item">> = {
  ...texts("namespace", "stream", "kind", "id"),
  ...numbers("integer", "seq"),
  end_seq: ["integer", ({ endSeq }) => endSeq],
  ...texts("status", "name", "key"),
  ...numbers("bigint", "at"),
  done_at: ["bigint", ({ doneAt }) => doneAt],
};

const KEY_COLUMNS: Columns<Row<"key">> = {
  ...texts("namespace", "key", "stream"),
  ...numbers("integer", "seq"),
};
