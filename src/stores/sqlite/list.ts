/** Lists: everything but streams, which have a file of their own. */

import { decodeCursor, pageOf } from "../../model/stream/index.ts";
import type { ItemRow, KeyRow, LeaseRow, ListRequest, ListRows, Page, SnapshotRow } from "../../store.ts";
import { type Clock, Conditions, itemRow, type StoredItem } from "../kit/index.ts";
import { keyHolder } from "./append.ts";
import type { Connection, Value } from "./driver.ts";
import { leaseRow } from "./leases.ts";
import { listStreams } from "./list-streams.ts";
import type { StoredLease } from "./rows.ts";
import { findStream } from "./streams.ts";
import { fromText, type StoredText, toText } from "./text.ts";

/** Whether it takes a single statement, which is a snapshot by itself. */
export function isOneStatement({ of }: ListRequest): boolean {
  return of === "items" || of === "leases";
}

type Asked<Of extends ListRequest["of"]> = Extract<ListRequest, { of: Of }>;

export function list(
  connection: Connection,
  clock: Clock,
  request: ListRequest,
): Page<ListRows[keyof ListRows]> {
  switch (request.of) {
    case "streams":
      return listStreams(connection, request);
    case "items":
      return request.stream === undefined
        ? listAllItems(connection, request)
        : listOwnItems(connection, request);
    case "leases":
      return listLeases(connection, clock, request);
    case "keys":
      return listKeys(connection, request);
    case "snapshots":
      return listSnapshots(connection, request);
  }
}

const ITEM_COLUMNS = "s.stream, i.kind, i.id, i.seq, i.end_seq, i.status, i.name, i.key, i.at, i.done_at";

const toItem = (stored: StoredItem<StoredText>): ItemRow => itemRow(stored, fromText);

/** One item by its whole key. Whoever loads a version asks this first. */
const ITEM = `SELECT ${ITEM_COLUMNS} FROM streams AS s CROSS JOIN items AS i
  WHERE s.namespace = ? AND s.stream = ? AND i.stream = s.id AND i.kind = ? AND i.id = ?`;

function findItem(connection: Connection, asked: Asked<"items">, id: string): Page<ItemRow> {
  const key = [asked.namespace, asked.stream as string, asked.kind, id];
  const stored = connection.get<StoredItem<StoredText>>(ITEM, ...key.map(toText));
  return { rows: stored ? [toItem(stored)] : [], cursor: null };
}

/** Items of one stream by seq. They are read by their key and sorted: an index by seq would cost every append. */
function listOwnItems(connection: Connection, asked: Asked<"items">): Page<ItemRow> {
  const { id, open, cursor, limit } = asked;
  if (id !== undefined && !open && cursor === undefined && limit > 0) return findItem(connection, asked, id);
  const conditions = new Conditions<Value>();
  conditions.add("s.namespace = ?", toText(asked.namespace));
  conditions.add("s.stream = ?", toText(asked.stream as string));
  conditions.add("i.stream = s.id AND i.kind = ?", toText(asked.kind));
  if (asked.id !== undefined) conditions.add("i.id = ?", toText(asked.id));
  if (asked.open) conditions.add("i.done_at IS NULL");
  const after = decodeCursor(asked.cursor, [0, ""] as [number, string]);
  if (after) conditions.add("(coalesce(i.seq, 0), i.id) > (?, ?)", after[0], toText(after[1]));
  const sql = `SELECT ${ITEM_COLUMNS} FROM streams AS s CROSS JOIN items AS i
    WHERE ${conditions.sql} ORDER BY coalesce(i.seq, 0), i.id LIMIT ? + 0`;
  const stored = connection.all<StoredItem<StoredText>>(sql, ...conditions.values, asked.limit + 1);
  return pageOf(stored, asked.limit, toItem, ({ seq, id }) => [seq ?? 0, fromText(id)]);
}

/** Items of all streams, oldest first; the open ones along their index. */
function listAllItems(connection: Connection, asked: Asked<"items">): Page<ItemRow> {
  const conditions = new Conditions<Value>();
  conditions.add(
    "i.namespace = ? AND i.kind = ? AND s.id = i.stream",
    toText(asked.namespace),
    toText(asked.kind),
  );
  if (asked.id !== undefined) conditions.add("i.id = ?", toText(asked.id));
  if (asked.open) conditions.add("i.done_at IS NULL");
  const after = decodeCursor(asked.cursor, [0, "", 0, ""] as [number, string, number, string]);
  if (after) {
    const [at, stream, seq, id] = after;
    conditions.add("(i.at >= ? OR i.at IS NULL)", at);
    const place = "(coalesce(i.at, 0), s.stream, coalesce(i.seq, 0), i.id)";
    conditions.add(`${place} > (?, ?, ?, ?)`, at, toText(stream), seq, toText(id));
  }
  const sql = `SELECT ${ITEM_COLUMNS} FROM items AS i CROSS JOIN streams AS s
    WHERE ${conditions.sql} ORDER BY i.at, s.stream, coalesce(i.seq, 0), i.id LIMIT ? + 0`;
  const stored = connection.all<StoredItem<StoredText>>(sql, ...conditions.values, asked.limit + 1);
  return pageOf(stored, asked.limit, toItem, ({ at, stream, seq, id }) => {
    return [at ?? 0, fromText(stream), seq ?? 0, fromText(id)];
  });
}

function listLeases(connection: Connection, clock: Clock, asked: Asked<"leases">): Page<LeaseRow> {
  const conditions = new Conditions<Value>();
  conditions.add("namespace = ?", toText(asked.namespace));
  if (asked.prefix) {
    // The range lets the index skip the others; comparing the beginning makes it exact.
    conditions.add("name >= ? AND name < ?", asked.prefix, `${asked.prefix}\u{10ffff}`);
    conditions.add("substr(name, 1, ?) = ?", [...asked.prefix].length, asked.prefix);
  }
  const after = decodeCursor(asked.cursor, [""] as [string]);
  if (after) conditions.add("name > ?", toText(after[0]));
  const sql = `SELECT name, token, boot, expires_at, ttl, holder FROM leases
    WHERE ${conditions.sql} ORDER BY name LIMIT ? + 0`;
  const stored = connection.all<StoredLease>(sql, ...conditions.values, asked.limit + 1);
  return pageOf(
    stored,
    asked.limit,
    (lease) => leaseRow(lease, clock),
    ({ name }) => [fromText(name)],
  );
}

function listKeys(connection: Connection, { namespace, keys }: Asked<"keys">): Page<KeyRow> {
  const rows = [...new Set(keys)].flatMap((key) => {
    const holder = keyHolder(connection, namespace, key);
    return holder ? [{ key, ...holder }] : [];
  });
  return { rows, cursor: null };
}

const SNAPSHOTS = `SELECT seq, fold, iif(utf16, octet_length(payload) / 2, octet_length(payload)) AS bytes
  FROM snapshots WHERE stream = ? ORDER BY seq, fold`;

function listSnapshots(connection: Connection, { namespace, stream }: Asked<"snapshots">): Page<SnapshotRow> {
  const key = findStream(connection, toText(namespace), toText(stream));
  const stored = key
    ? connection.all<{ seq: number; fold: StoredText; bytes: number }>(SNAPSHOTS, key.id)
    : [];
  const rows = stored.map(({ seq, fold, bytes }) => ({ seq, fold: fromText(fold), bytes }));
  return { rows, cursor: null };
}
