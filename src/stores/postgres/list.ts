/** Lists: everything but streams, which have a file of their own. */

import { decodeCursor, pageOf } from "../../model/stream/index.ts";
import type { ItemRow, KeyRow, LeaseRow, ListRequest, ListRows, Page, SnapshotRow } from "../../store.ts";
import { Conditions } from "./conditions.ts";
import type { Database } from "./database.ts";
import { leaseColumns, leaseRow, type StoredLease } from "./leases.ts";
import { listStreams } from "./list-streams.ts";
import { fromText, fromTextOrNull, toText } from "./text.ts";

type Asked<Of extends ListRequest["of"]> = Extract<ListRequest, { of: Of }>;

export function list(database: Database, request: ListRequest): Promise<Page<ListRows[keyof ListRows]>> {
  switch (request.of) {
    case "streams":
      return listStreams(database, request);
    case "items":
      return listItems(database, request);
    case "leases":
      return listLeases(database, request);
    case "keys":
      return listKeys(database, request);
    case "snapshots":
      return listSnapshots(database, request);
  }
}

export interface StoredItem {
  readonly stream: string;
  readonly kind: string;
  readonly id: string;
  readonly seq: number | null;
  readonly end_seq: number | null;
  readonly status: string | null;
  readonly name: string | null;
  readonly key: string | null;
  readonly at: number | null;
  readonly done_at: number | null;
}

function itemRow(stored: StoredItem): ItemRow {
  return {
    stream: fromText(stored.stream),
    kind: fromText(stored.kind),
    id: fromText(stored.id),
    seq: stored.seq,
    endSeq: stored.end_seq,
    status: fromTextOrNull(stored.status),
    name: fromTextOrNull(stored.name),
    key: fromTextOrNull(stored.key),
    at: stored.at,
    doneAt: stored.done_at,
  };
}

/** Of one stream by seq, read by their key and sorted; of all streams oldest first, the open ones along their index. */
async function listItems(database: Database, asked: Asked<"items">): Promise<Page<ItemRow>> {
  const conditions = new Conditions();
  conditions.add("namespace = ? AND kind = ?", toText(asked.namespace), toText(asked.kind));
  if (asked.stream !== undefined) conditions.add("stream = ?", toText(asked.stream));
  if (asked.id !== undefined) conditions.add("id = ?", toText(asked.id));
  if (asked.open) conditions.add("done_at IS NULL");
  const place = "coalesce(at, 0), stream, coalesce(seq, 0), id";
  const placeOfOne = "coalesce(seq, 0), id";
  if (asked.stream === undefined) {
    const after = decodeCursor(asked.cursor, [0, "", 0, ""] as [number, string, number, string]);
    if (after) conditions.add(`(${place}) > (?, ?, ?, ?)`, ...after);
  } else {
    const after = decodeCursor(asked.cursor, [0, ""] as [number, string]);
    if (after) conditions.add(`(${placeOfOne}) > (?, ?)`, ...after);
  }
  const order = asked.stream === undefined ? place : placeOfOne;
  const stored = await database.run<StoredItem>(
    `SELECT stream, kind, id, seq, end_seq, status, name, key, at, done_at FROM ${database.schema}.items
     WHERE ${conditions.sql} ORDER BY ${order} LIMIT ${conditions.value(asked.limit + 1)}`,
    conditions.values,
  );
  return pageOf(stored, asked.limit, itemRow, ({ at, stream, seq, id }) =>
    asked.stream === undefined ? [at ?? 0, stream, seq ?? 0, id] : [seq ?? 0, id],
  );
}

async function listLeases(database: Database, asked: Asked<"leases">): Promise<Page<LeaseRow>> {
  const conditions = new Conditions();
  conditions.add("namespace = ?", toText(asked.namespace));
  if (asked.prefix) {
    // The range lets the index skip the others; comparing the beginning makes it exact.
    const prefix = toText(asked.prefix);
    conditions.add("name >= ? AND name < ? AND starts_with(name, ?)", prefix, `${prefix}\u{10ffff}`, prefix);
  }
  const after = decodeCursor(asked.cursor, [""] as [string]);
  if (after) conditions.add("name > ?", after[0]);
  const stored = await database.run<StoredLease>(
    `SELECT ${leaseColumns(database.schema)} FROM ${database.schema}.leases
     WHERE ${conditions.sql} ORDER BY name LIMIT ${conditions.value(asked.limit + 1)}`,
    conditions.values,
  );
  return pageOf(stored, asked.limit, leaseRow, ({ name }) => [name]);
}

async function listKeys(database: Database, { namespace, keys }: Asked<"keys">): Promise<Page<KeyRow>> {
  const wanted = [...new Set(keys)];
  if (wanted.length === 0) return { rows: [], cursor: null };
  const stored = await database.run<KeyRow>(
    `SELECT key, stream, seq FROM ${database.schema}.keys WHERE namespace = $1 AND key = ANY ($2)`,
    [toText(namespace), wanted.map(toText)],
  );
  const rows = stored.map(({ key, stream, seq }) => ({ key: fromText(key), stream: fromText(stream), seq }));
  return { rows, cursor: null };
}

async function listSnapshots(
  database: Database,
  { namespace, stream }: Asked<"snapshots">,
): Promise<Page<SnapshotRow>> {
  const stored = await database.run<SnapshotRow>(
    `SELECT seq, fold, coalesce(octet_length(bytes), octet_length(payload)) AS bytes
     FROM ${database.schema}.snapshots WHERE namespace = $1 AND stream = $2 ORDER BY seq, fold`,
    [toText(namespace), toText(stream)],
  );
  const rows = stored.map(({ seq, fold, bytes }) => ({ seq, fold: fromText(fold), bytes }));
  return { rows, cursor: null };
}
