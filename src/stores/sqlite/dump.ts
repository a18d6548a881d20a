/**
 * Every row of the file, part by part, for a copy. Each page goes on behind the last row of the one before, so that a
 * page costs what it holds. The parts come in an order in which another store can put them back: what a row names
 * (a stream, an artifact) comes before it.
 */

import { countFittingRows } from "../../model/stream/index.ts";
import type { MovedRow, Page } from "../../store.ts";
import {
  type Clock,
  type DumpPosition,
  dumpStep,
  itemRow,
  type StoredItem,
  type StoredWriteRow,
  streamRow,
  writeRow,
} from "../kit/index.ts";
import type { Connection, Value } from "./driver.ts";
import { leaseRow } from "./leases.ts";
import type { StoredLease } from "./rows.ts";
import { STREAM_COLUMNS, type StoredStream } from "./streams.ts";
import { fromPayload, fromText, type StoredText, toText } from "./text.ts";

interface Part {
  readonly sql: string;
  /** The sizes of the same rows, for those that can be large. */
  readonly sizes?: string;
  readonly limit: number;
  /** Where the part begins, as values of its query. */
  readonly begin: DumpPosition;
  read(row: never, connection: Connection, clock: Clock): { moved: MovedRow; place: DumpPosition };
}

const ROWS = 500;

interface Named {
  readonly namespace: StoredText;
}

interface WriteRow extends Named, StoredWriteRow<StoredText> {
  readonly owner: number;
  readonly stream: StoredText;
  readonly payload: StoredText;
  readonly utf16: number | null;
}

type ItemOfStream = Named & StoredItem<StoredText> & { readonly owner: number };

const LEASES: Part = {
  sql: `SELECT namespace, name, token, boot, expires_at, ttl, holder FROM leases
    WHERE (namespace, name) > (?, ?) ORDER BY namespace, name LIMIT ? + 0`,
  limit: ROWS,
  begin: ["", ""],
  read(row: StoredLease & Named, _connection, clock) {
    const namespace = fromText(row.namespace);
    const lease = leaseRow(row, clock);
    return { moved: { of: "lease", namespace, ttlMs: row.ttl, ...lease }, place: [namespace, lease.name] };
  },
};

const ARTIFACTS: Part = {
  sql: "SELECT id, namespace, hash, put_at, bytes FROM artifacts WHERE id > ? ORDER BY id LIMIT ? + 0",
  sizes: "SELECT octet_length(bytes) AS size FROM artifacts WHERE id > ? ORDER BY id LIMIT ? + 0",
  limit: ROWS,
  begin: [0],
  read(row: Named & { id: number; hash: StoredText; put_at: number; bytes: Uint8Array }) {
    const namespace = fromText(row.namespace);
    const { id, bytes, put_at: putAt } = row;
    return { moved: { of: "artifact", namespace, hash: fromText(row.hash), bytes, putAt }, place: [id] };
  },
};

const REFERENCES = `SELECT a.hash FROM artifact_refs AS r JOIN artifacts AS a ON a.id = r.artifact
  WHERE r.stream = ? ORDER BY a.hash`;

const STREAMS: Part = {
  sql: `SELECT ${STREAM_COLUMNS}, s.namespace FROM streams AS s WHERE s.id > ? ORDER BY s.id LIMIT ? + 0`,
  limit: ROWS,
  begin: [0],
  read(row: StoredStream & Named, connection) {
    const namespace = fromText(row.namespace);
    const referred = connection.all<{ hash: StoredText }>(REFERENCES, row.id);
    const artifacts = referred.map(({ hash }) => fromText(hash)).sort();
    return { moved: { of: "stream", namespace, ...streamRow(row, fromText), artifacts }, place: [row.id] };
  },
};

const WRITES: Part = {
  sql: `SELECT w.id >> 28 AS owner, s.namespace, s.stream, w.first, w.id & 268435455 AS last, w.batch, w.payload,
      w.codec, w.sum, w.at, w.utf16
    FROM writes AS w JOIN streams AS s ON s.id = w.id >> 28
    WHERE w.id > (? << 28 | ?) ORDER BY w.id LIMIT ? + 0`,
  sizes: `SELECT octet_length(payload) AS size FROM writes
    WHERE id > (? << 28 | ?) ORDER BY id LIMIT ? + 0`,
  limit: ROWS,
  begin: [0, 0],
  read(row: WriteRow) {
    const [namespace, stream] = [fromText(row.namespace), fromText(row.stream)];
    const write = writeRow(row, fromPayload(row.payload, row.utf16), fromText);
    return { moved: { of: "write", namespace, stream, ...write }, place: [row.owner, row.last] };
  },
};

const ITEMS: Part = {
  sql: `SELECT i.stream AS owner, s.namespace, s.stream, i.kind, i.id, i.seq, i.end_seq, i.status, i.name, i.key, i.at,
      i.done_at
    FROM items AS i JOIN streams AS s ON s.id = i.stream
    WHERE (i.stream, i.kind, i.id) > (?, ?, ?) ORDER BY i.stream, i.kind, i.id LIMIT ? + 0`,
  limit: ROWS,
  begin: [0, "", ""],
  read(row: ItemOfStream) {
    const item = itemRow(row, fromText);
    const moved: MovedRow = { of: "item", namespace: fromText(row.namespace), ...item };
    return { moved, place: [row.owner, item.kind, item.id] };
  },
};

const KEYS: Part = {
  sql: `SELECT k.namespace, k.key, s.stream, k.seq FROM keys AS k JOIN streams AS s ON s.id = k.stream
    WHERE (k.namespace, k.key) > (?, ?) ORDER BY k.namespace, k.key LIMIT ? + 0`,
  limit: ROWS,
  begin: ["", ""],
  read(row: Named & { key: StoredText; stream: StoredText; seq: number }) {
    const [namespace, key] = [fromText(row.namespace), fromText(row.key)];
    return {
      moved: { of: "key", namespace, key, stream: fromText(row.stream), seq: row.seq },
      place: [namespace, key],
    };
  },
};

const PARTS = {
  lease: LEASES,
  artifact: ARTIFACTS,
  stream: STREAMS,
  write: WRITES,
  item: ITEMS,
  key: KEYS,
} as const satisfies Record<MovedRow["of"], Part>;

/** One page. The cursor is the number of the part among those that are wanted, and the place in it. */
export function dump(
  connection: Connection,
  clock: Clock,
  cursor: string | null,
  only?: readonly MovedRow["of"][],
): Page<MovedRow> {
  const step = dumpStep<Part>(PARTS, cursor, only);
  if (!step) return { rows: [], cursor: null };
  const { part, after } = step;
  const values: Value[] = after.map((value) => (typeof value === "string" ? toText(value) : value));
  const limit = part.sizes
    ? countFittingRows(connection.all(part.sizes, ...values, part.limit), part.limit)
    : part.limit;
  const found = connection.all<never>(part.sql, ...values, limit);
  const read = found.map((row) => part.read(row, connection, clock));
  const last = read.at(-1);
  const isFull = last !== undefined && read.length === limit;
  return { rows: read.map(({ moved }) => moved), cursor: step.next(isFull ? last.place : null) };
}
