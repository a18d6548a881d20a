/**
 * Lists. Streams come latest change first, without reading more of them than a page holds.
 *
 * The index `streams_latest` is ordered by kind, status, and the second of the latest change. One kind and
 * one status are one run of it. A wider question reads one page of each run and merges them in one statement.
 * Goals, parents and open items have small indexes of their own.
 */

import { decodeCursor, pageOf } from "../../model/stream/index.ts";
import type * as Port from "../../store.ts";
import type { ListRequest, ListRows, Page } from "../../store.ts";
import { addStreamConditions, Conditions, type StoredItem } from "../kit/index.ts";
import type { Database } from "./database.ts";
import { leaseColumns, leaseRow, type StoredLease } from "./leases.ts";
import { fromText, itemRow, STREAM_COLUMNS, type StoredStream, streamRow, toText } from "./rows.ts";
import type { Value } from "./value-query.ts";

type Request<Of extends ListRequest["of"]> = Extract<ListRequest, { of: Of }>;

const numbered = (): Conditions<Value> => new Conditions<Value>((number) => `$${number}`);

export function list(database: Database, request: ListRequest): Promise<Page<ListRows[keyof ListRows]>> {
  if (request.of === "streams") return listStreams(database, request);
  if (request.of === "items") return listItems(database, request);
  if (request.of === "leases") return listLeases(database, request);
  if (request.of === "keys") return listKeys(database, request);
  if (request.of === "snapshots") return listSnapshots(database, request);
  return listNamespaces(database);
}

const ORDER = "ORDER BY s.updated_second DESC, s.updated_at DESC, s.stream";

async function listStreams(database: Database, request: Request<"streams">): Promise<Page<Port.StreamRow>> {
  const conditions = numbered();
  addStreamConditions<Value>(conditions, request, {
    encode: toText,
    coarse: { column: "s.updated_second", of: (ms) => Math.trunc(ms / 1000) },
    hasOpenCalls: `s.open_calls > 0 AND s.stream IN (${maybeOpen(database.schema)})`,
    isForkOf: (to, parent) => to.add("s.parent = ?", toText(parent)),
  });
  const isNarrow = request.goal !== undefined || request.parent !== undefined || request.openCalls;
  const isOneRun = request.kind !== undefined && request.status !== undefined;
  const sql =
    isNarrow || isOneRun ? oneRun(database, request, conditions) : manyRuns(database, request, conditions);
  const stored = await database.run<StoredStream>(sql, conditions.values);
  return pageOf(stored, request.limit, streamRow, ({ updated_at, stream }) => [updated_at, fromText(stream)]);
}

/** Streams that may have open calls; `open_calls` then decides. The namespace is the first value. */
const maybeOpen = (schema: string): string => `
  SELECT i.stream FROM ${schema}.items AS i WHERE i.namespace = $1 AND i.kind = 'call' AND i.done_at IS NULL
  UNION SELECT m.stream FROM ${schema}.streams AS m WHERE m.namespace = $1 AND m.is_marked_open`;

function oneRun({ schema }: Database, request: Request<"streams">, conditions: Conditions<Value>): string {
  if (request.kind !== undefined) conditions.add("s.kind = ?", toText(request.kind));
  if (request.status !== undefined) conditions.add("s.status = ?", toText(request.status));
  const limit = conditions.value(request.limit + 1);
  return `SELECT ${STREAM_COLUMNS} FROM ${schema}.streams AS s
    WHERE ${conditions.sql} ${ORDER} LIMIT ${limit}`;
}

/** The namespace is the first value. The last group of each kind has the streams without a status. */
function manyRuns({ schema }: Database, request: Request<"streams">, conditions: Conditions<Value>): string {
  const common = conditions.sql;
  const limit = conditions.value(request.limit + 1);
  const first = (column: string, where: string): string => `(SELECT n.${column} FROM ${schema}.streams AS n
    WHERE n.namespace = $1 AND n.state <> 'gone' AND ${where} ORDER BY n.${column} LIMIT 1)`;
  const kinds =
    request.kind !== undefined
      ? `SELECT ${conditions.value(toText(request.kind))}::text COLLATE "C"`
      : `SELECT ${first("kind", "true")} UNION ALL
         SELECT ${first("kind", "n.kind > kinds.kind")} FROM kinds WHERE kinds.kind IS NOT NULL`;
  const groups =
    request.status !== undefined
      ? `SELECT kind, ${conditions.value(toText(request.status))}::text COLLATE "C" FROM kinds
         WHERE kind IS NOT NULL`
      : `SELECT kind, ${first("status", "n.kind = kinds.kind AND n.status IS NOT NULL")} FROM kinds
         WHERE kind IS NOT NULL UNION ALL
         SELECT kind, ${first("status", "n.kind = groups.kind AND n.status > groups.status")} FROM groups
         WHERE groups.status IS NOT NULL`;
  const run = (status: string): string => `(SELECT ${STREAM_COLUMNS} FROM ${schema}.streams AS s
    WHERE s.kind = groups.kind AND ${status} AND ${common} ${ORDER} LIMIT ${limit})`;
  const withoutStatus =
    request.status === undefined ? `UNION ALL ${run("s.status IS NULL AND groups.status IS NULL")}` : "";
  return `WITH RECURSIVE kinds (kind) AS (${kinds}), groups (kind, status) AS (${groups})
    SELECT runs.* FROM groups CROSS JOIN LATERAL (
      ${run("s.status = groups.status")} ${withoutStatus}
    ) AS runs ORDER BY updated_at DESC, stream LIMIT ${limit}`;
}

/** Items of one stream by seq; items of all streams oldest first, open ones along their index. */
async function listItems(database: Database, request: Request<"items">): Promise<Page<Port.ItemRow>> {
  const conditions = numbered();
  conditions.add("namespace = ? AND kind = ?", toText(request.namespace), toText(request.kind));
  // The literal lets the server use the index of metadata by id.
  if (request.kind === "metadata") conditions.add("kind = 'metadata'");
  if (request.stream !== undefined) conditions.add("stream = ?", toText(request.stream));
  if (request.id !== undefined) conditions.add("id = ?", toText(request.id));
  if (request.open) conditions.add("done_at IS NULL");
  const isOfAll = request.stream === undefined;
  const order = isOfAll ? "coalesce(at, 0), stream, coalesce(seq, 0), id" : "coalesce(seq, 0), id";
  const after = isOfAll
    ? decodeCursor(request.cursor, [0, "", 0, ""] as [number, string, number, string])
    : decodeCursor(request.cursor, [0, ""] as [number, string]);
  if (after) conditions.add(`(${order}) > (${after.map(() => "?").join(", ")})`, ...after);
  const stored = await database.run<StoredItem<string>>(
    `SELECT stream, kind, id, seq, end_seq, status, name, key, at, done_at FROM ${database.schema}.items
     WHERE ${conditions.sql} ORDER BY ${order} LIMIT ${conditions.value(request.limit + 1)}`,
    conditions.values,
  );
  return pageOf(stored, request.limit, itemRow, ({ at, stream, seq, id }) =>
    isOfAll ? [at ?? 0, stream, seq ?? 0, id] : [seq ?? 0, id],
  );
}

async function listLeases(database: Database, request: Request<"leases">): Promise<Page<Port.LeaseRow>> {
  const conditions = numbered();
  conditions.add("namespace = ?", toText(request.namespace));
  if (request.names) conditions.add("name = ANY (?)", request.names.map(toText));
  if (request.prefix) {
    // The range lets the index skip other names; `starts_with` makes it exact.
    const prefix = toText(request.prefix);
    conditions.add("name >= ? AND name < ? AND starts_with(name, ?)", prefix, `${prefix}\u{10ffff}`, prefix);
  }
  const after = decodeCursor(request.cursor, [""] as [string]);
  if (after) conditions.add("name > ?", after[0]);
  const stored = await database.run<StoredLease>(
    `SELECT ${leaseColumns(database.schema)} FROM ${database.schema}.leases
     WHERE ${conditions.sql} ORDER BY name LIMIT ${conditions.value(request.limit + 1)}`,
    conditions.values,
  );
  return pageOf(stored, request.limit, leaseRow, ({ name }) => [name]);
}

async function listKeys(
  database: Database,
  { namespace, keys }: Request<"keys">,
): Promise<Page<Port.KeyRow>> {
  const wanted = [...new Set(keys)];
  if (wanted.length === 0) return { rows: [], cursor: null };
  const stored = await database.run<Port.KeyRow>(
    `SELECT key, stream, seq FROM ${database.schema}.keys WHERE namespace = $1 AND key = ANY ($2)`,
    [toText(namespace), wanted.map(toText)],
  );
  const rows = stored.map(({ key, stream, seq }) => ({ key: fromText(key), stream: fromText(stream), seq }));
  return { rows, cursor: null };
}

async function listSnapshots(
  database: Database,
  { namespace, stream }: Request<"snapshots">,
): Promise<Page<Port.SnapshotRow>> {
  const stored = await database.run<Port.SnapshotRow>(
    `SELECT seq, fold, coalesce(octet_length(bytes), octet_length(payload)) AS bytes
     FROM ${database.schema}.snapshots WHERE namespace = $1 AND stream = $2 ORDER BY seq, fold`,
    [toText(namespace), toText(stream)],
  );
  const rows = stored.map(({ seq, fold, bytes }) => ({ seq, fold: fromText(fold), bytes }));
  return { rows, cursor: null };
}

/** Jumps through the index of names, so that the number of streams does not matter. */
async function listNamespaces(database: Database): Promise<Page<Port.NamespaceRow>> {
  const { schema } = database;
  const stored = await database.run<Port.NamespaceRow>(
    `WITH RECURSIVE n (namespace) AS (
       SELECT min(namespace) FROM ${schema}.streams
       UNION ALL
       SELECT (SELECT min(s.namespace) FROM ${schema}.streams AS s WHERE s.namespace > n.namespace)
       FROM n WHERE n.namespace IS NOT NULL
     ) SELECT namespace FROM n WHERE namespace IS NOT NULL`,
    [],
  );
  return { rows: stored.map(({ namespace }) => ({ namespace: fromText(namespace) })), cursor: null };
}
