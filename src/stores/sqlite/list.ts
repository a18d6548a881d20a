/**
 * Lists: streams by their facets, items, leases, key holders, snapshots.
 *
 * A list of streams, latest change first, reads no more of them than a page holds. The index
 * `streams_latest` is ordered by kind and status before time: a list reads one run of it per kind and status,
 * and merges them. Goals, parents and open calls have small indexes of their own, whose few rows are sorted.
 */

import { decodeCursor, pageOf } from "../../model/stream/index.ts";
import type * as port from "../../store.ts";
import type { Clock, StoredItem } from "../kit/index.ts";
import { addStreamConditions, Conditions, itemRow, streamRow } from "../kit/index.ts";
import { keyHolder } from "./append.ts";
import type { Connection, Value } from "./driver.ts";
import { leaseRow } from "./leases.ts";
import type { StoredLease, StoredStream, StoredText } from "./rows.ts";
import { coarseTime, findStream, fromText, STREAM_COLUMNS, toText } from "./rows.ts";

type Request<Of extends port.ListRequest["of"]> = Extract<port.ListRequest, { of: Of }>;

/** Whether the list takes a single statement, which needs no transaction for a consistent snapshot. */
export function isOneStatement({ of }: port.ListRequest): boolean {
  return of === "items" || of === "leases";
}

export function list(
  connection: Connection,
  clock: Clock,
  request: port.ListRequest,
): port.Page<port.ListRows[keyof port.ListRows]> {
  switch (request.of) {
    case "streams":
      return listStreams(connection, request);
    case "items":
      return request.stream === undefined
        ? listAllItems(connection, request)
        : listItemsOf(connection, request.stream, request);
    case "leases":
      return listLeases(connection, clock, request);
    case "keys":
      return listKeys(connection, request);
    case "snapshots":
      return listSnapshots(connection, request);
    case "namespaces":
      return listNamespaces(connection);
  }
}

type Group = { readonly kind: StoredText; readonly status: StoredText | null };

const ORDER = "ORDER BY s.updated_at DESC, s.stream";

/** The same order where the index provides its first part: SQLite sorts only streams of one 64 ms step. */
const ORDER_IN_GROUP = "ORDER BY s.updated_about DESC, s.updated_at DESC, s.stream";

/** Above this many groups, one query that sorts everything is cheaper than one query each. */
const MAX_GROUPS = 64;

function listStreams(connection: Connection, request: Request<"streams">): port.Page<port.StreamRow> {
  return pageOf(
    findStreams(connection, request),
    request.limit,
    (row) => streamRow(row, fromText),
    ({ updated_at, stream }) => [updated_at, fromText(stream)],
  );
}

function findStreams(connection: Connection, request: Request<"streams">): StoredStream[] {
  const common = streamConditions(request);
  const hasSmallIndex = request.goal !== undefined || request.parent !== undefined || request.openCalls;
  const groups = hasSmallIndex ? null : findGroups(connection, request);
  if (!groups) return sortedStreams(connection, request, common);
  const runs = groups.map((group) => streamsOfGroup(connection, request, common, group));
  if (runs.length === 1) return runs[0] ?? [];
  return runs
    .flat()
    .sort(latestFirst)
    .slice(0, request.limit + 1);
}

function latestFirst(a: StoredStream, b: StoredStream): number {
  if (a.updated_at !== b.updated_at) return b.updated_at - a.updated_at;
  return Buffer.compare(Buffer.from(a.stream as string), Buffer.from(b.stream as string));
}

function streamConditions(request: Request<"streams">): Conditions<Value> {
  const conditions = new Conditions<Value>();
  const namespace = toText(request.namespace);
  addStreamConditions(conditions, request, {
    encode: toText,
    coarse: { column: "s.updated_about", of: coarseTime },
    hasOpenCalls: "s.open_calls > 0",
    isForkOf: (list, parent) => {
      const id = "(SELECT id FROM streams WHERE namespace = ? AND stream = ?)";
      list.add(`s.parent = ${id}`, namespace, toText(parent));
    },
  });
  return conditions;
}

/** For questions that a small index answers, or that no index does. */
function sortedStreams(
  connection: Connection,
  request: Request<"streams">,
  common: Conditions<Value>,
): StoredStream[] {
  const conditions = new Conditions<Value>();
  conditions.add(common.sql, ...common.values);
  if (request.kind !== undefined) conditions.add("s.kind = ?", toText(request.kind));
  if (request.status !== undefined) conditions.add("s.status = ?", toText(request.status));
  const sql = `SELECT ${STREAM_COLUMNS} FROM streams AS s WHERE ${conditions.sql} ${ORDER} LIMIT ? + 0`;
  return connection.all<StoredStream>(sql, ...conditions.values, request.limit + 1);
}

function streamsOfGroup(
  connection: Connection,
  request: Request<"streams">,
  common: Conditions<Value>,
  { kind, status }: Group,
): StoredStream[] {
  const sql = `SELECT ${STREAM_COLUMNS} FROM streams AS s INDEXED BY streams_latest
    WHERE s.kind = ? AND s.status IS ? AND ${common.sql} ${ORDER_IN_GROUP} LIMIT ? + 0`;
  return connection.all<StoredStream>(sql, kind, status, ...common.values, request.limit + 1);
}

const FIRST_KIND = `SELECT kind FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND state <> 'gone' ORDER BY kind LIMIT 1`;
const NEXT_KIND = `SELECT kind FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind > ? AND state <> 'gone' ORDER BY kind LIMIT 1`;
const NO_STATUS = `SELECT status FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind = ? AND status IS NULL AND state <> 'gone' LIMIT 1`;
const FIRST_STATUS = `SELECT status FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind = ? AND status IS NOT NULL AND state <> 'gone' ORDER BY status LIMIT 1`;
const NEXT_STATUS = `SELECT status FROM streams INDEXED BY streams_latest
  WHERE namespace = ? AND kind = ? AND status > ? AND state <> 'gone' ORDER BY status LIMIT 1`;

/** Jumps through the index from one kind and status to the next. Null if there are too many. */
function findGroups(connection: Connection, request: Request<"streams">): Group[] | null {
  const namespace = toText(request.namespace);
  const groups: Group[] = [];
  const kinds = request.kind === undefined ? allKinds(connection, namespace) : [toText(request.kind)];
  for (const kind of kinds) {
    const statuses =
      request.status === undefined ? allStatuses(connection, namespace, kind) : [toText(request.status)];
    for (const status of statuses) {
      groups.push({ kind, status });
      if (groups.length > MAX_GROUPS) return null;
    }
  }
  return groups;
}

function* allKinds(connection: Connection, namespace: StoredText): Generator<StoredText> {
  let row = connection.get<{ kind: StoredText }>(FIRST_KIND, namespace);
  while (row) {
    yield row.kind;
    row = connection.get<{ kind: StoredText }>(NEXT_KIND, namespace, row.kind);
  }
}

function* allStatuses(connection: Connection, namespace: StoredText, kind: StoredText) {
  if (connection.get(NO_STATUS, namespace, kind)) yield null;
  let row = connection.get<{ status: StoredText }>(FIRST_STATUS, namespace, kind);
  while (row) {
    yield row.status;
    row = connection.get<{ status: StoredText }>(NEXT_STATUS, namespace, kind, row.status);
  }
}

const ITEM_COLUMNS = "s.stream, i.kind, i.id, i.seq, i.end_seq, i.status, i.name, i.key, i.at, i.done_at";

const toItem = (stored: StoredItem<StoredText>): port.ItemRow => itemRow(stored, fromText);

/** One item by its whole key: the first query of every load of a version. */
const ITEM = `SELECT ${ITEM_COLUMNS} FROM streams AS s CROSS JOIN items AS i
  WHERE s.namespace = ? AND s.stream = ? AND i.stream = s.id AND i.kind = ? AND i.id = ?`;

/** Items of one stream by seq, read by their key and sorted: an index by seq would slow every append. */
function listItemsOf(
  connection: Connection,
  stream: string,
  request: Request<"items">,
): port.Page<port.ItemRow> {
  const { namespace, kind, id, open, cursor, limit } = request;
  if (id !== undefined && !open && cursor === undefined && limit > 0) {
    const key = [namespace, stream, kind, id];
    const stored = connection.get<StoredItem<StoredText>>(ITEM, ...key.map(toText));
    return { rows: stored ? [toItem(stored)] : [], cursor: null };
  }
  const conditions = new Conditions<Value>();
  conditions.add("s.namespace = ?", toText(namespace));
  conditions.add("s.stream = ?", toText(stream));
  conditions.add("i.stream = s.id AND i.kind = ?", toText(kind));
  if (id !== undefined) conditions.add("i.id = ?", toText(id));
  if (open) conditions.add("i.done_at IS NULL");
  const after = decodeCursor(cursor, [0, ""] as [number, string]);
  if (after) conditions.add("(coalesce(i.seq, 0), i.id) > (?, ?)", after[0], toText(after[1]));
  const sql = `SELECT ${ITEM_COLUMNS} FROM streams AS s CROSS JOIN items AS i
    WHERE ${conditions.sql} ORDER BY coalesce(i.seq, 0), i.id LIMIT ? + 0`;
  const stored = connection.all<StoredItem<StoredText>>(sql, ...conditions.values, limit + 1);
  return pageOf(stored, limit, toItem, (item) => [item.seq ?? 0, fromText(item.id)]);
}

/** Items of all streams, oldest first; the open ones along their index. */
function listAllItems(connection: Connection, request: Request<"items">): port.Page<port.ItemRow> {
  const conditions = new Conditions<Value>();
  const { namespace, kind } = request;
  conditions.add("i.namespace = ? AND i.kind = ? AND s.id = i.stream", toText(namespace), toText(kind));
  // The literal lets SQLite use the index of metadata by id.
  if (kind === "metadata") conditions.add("i.kind = 'metadata'");
  if (request.id !== undefined) conditions.add("i.id = ?", toText(request.id));
  if (request.open) conditions.add("i.done_at IS NULL");
  const after = decodeCursor(request.cursor, [0, "", 0, ""] as [number, string, number, string]);
  if (after) {
    const [at, stream, seq, id] = after;
    conditions.add("(i.at >= ? OR i.at IS NULL)", at);
    const position = "(coalesce(i.at, 0), s.stream, coalesce(i.seq, 0), i.id)";
    conditions.add(`${position} > (?, ?, ?, ?)`, at, toText(stream), seq, toText(id));
  }
  const sql = `SELECT ${ITEM_COLUMNS} FROM items AS i CROSS JOIN streams AS s
    WHERE ${conditions.sql} ORDER BY i.at, s.stream, coalesce(i.seq, 0), i.id LIMIT ? + 0`;
  const stored = connection.all<StoredItem<StoredText>>(sql, ...conditions.values, request.limit + 1);
  return pageOf(stored, request.limit, toItem, ({ at, stream, seq, id }) => {
    return [at ?? 0, fromText(stream), seq ?? 0, fromText(id)];
  });
}

function listLeases(
  connection: Connection,
  clock: Clock,
  request: Request<"leases">,
): port.Page<port.LeaseRow> {
  const conditions = new Conditions<Value>();
  conditions.add("namespace = ?", toText(request.namespace));
  const after = decodeCursor(request.cursor, [""] as [string]);
  if (request.names) addNames(conditions, request.names);
  if (request.prefix) {
    // The range lets the index skip other names; `substr` makes the comparison exact. SQLite descends to one
    // lower bound only: with that of the prefix, every page would read all the pages before it again.
    if (!after) conditions.add("name >= ?", request.prefix);
    conditions.add("name < ?", `${request.prefix}\u{10ffff}`);
    conditions.add("substr(name, 1, ?) = ?", [...request.prefix].length, request.prefix);
  }
  if (after) conditions.add("name > ?", toText(after[0]));
  const sql = `SELECT name, token, boot, expires_at, ttl, holder FROM leases
    WHERE ${conditions.sql} ORDER BY name LIMIT ? + 0`;
  return pageOf(
    connection.all<StoredLease>(sql, ...conditions.values, request.limit + 1),
    request.limit,
    (lease) => leaseRow(lease, clock),
    ({ name }) => [fromText(name)],
  );
}

/** One parameter for all names of plain text, so that any number of them is the same statement. */
function addNames(conditions: Conditions<Value>, names: readonly string[]): void {
  const stored = names.map(toText);
  const texts = stored.filter((name) => typeof name === "string");
  const odd = stored.filter((name) => typeof name !== "string");
  const places = odd.map(() => ", (?)").join("");
  const among = `name IN (SELECT value FROM json_each(?)${places && ` UNION VALUES ${places.slice(2)}`})`;
  conditions.add(among, JSON.stringify(texts), ...odd);
}

function listKeys(connection: Connection, { namespace, keys }: Request<"keys">): port.Page<port.KeyRow> {
  const rows = [...new Set(keys)].flatMap((key) => {
    const holder = keyHolder(connection, namespace, key);
    return holder ? [{ key, ...holder }] : [];
  });
  return { rows, cursor: null };
}

const SNAPSHOTS = `SELECT seq, fold, iif(utf16, octet_length(payload) / 2, octet_length(payload)) AS bytes
  FROM snapshots WHERE stream = ? ORDER BY seq, fold`;

function listSnapshots(
  connection: Connection,
  { namespace, stream }: Request<"snapshots">,
): port.Page<port.SnapshotRow> {
  const entry = findStream(connection, namespace, stream);
  type Row = { seq: number; fold: StoredText; bytes: number };
  const stored = entry ? connection.all<Row>(SNAPSHOTS, entry.id) : [];
  return { rows: stored.map((row) => ({ ...row, fold: fromText(row.fold) })), cursor: null };
}

const FIRST_NAMESPACE = "SELECT namespace FROM streams ORDER BY namespace LIMIT 1";
const NEXT_NAMESPACE = "SELECT namespace FROM streams WHERE namespace > ? ORDER BY namespace LIMIT 1";

/** Jumps through the index of names, so that the number of streams does not matter. */
function listNamespaces(connection: Connection): port.Page<port.NamespaceRow> {
  type Row = { namespace: StoredText };
  const rows: port.NamespaceRow[] = [];
  for (let row = connection.get<Row>(FIRST_NAMESPACE); row; ) {
    rows.push({ namespace: fromText(row.namespace) });
    row = connection.get<Row>(NEXT_NAMESPACE, row.namespace);
  }
  return { rows, cursor: null };
}
