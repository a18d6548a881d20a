/** Reading one stream; putting and getting the bytes beside streams: artifacts and snapshots. */

import type { Blob, GetRequest, PutRequest, ReadPage, ReadRequest, StoredWrite } from "../../store.ts";
import { streamRow, unusedStreamRow } from "../kit/index.ts";
import { MAX_SEQ } from "./append.ts";
import type { Connection } from "./driver.ts";
import {
  type ActResult,
  decodePayload,
  findCachedStream,
  fromText,
  fromTextOrNull,
  PAYLOAD_COLUMN,
  PAYLOAD_COLUMNS,
  type PayloadForm,
  STREAM_COLUMNS,
  type StoredStream,
  type StoredText,
  TEXT,
  type Transaction,
  toPayload,
  toText,
  toTextOrNull,
} from "./rows.ts";

type WriteRow = readonly [
  payload: StoredText,
  form: PayloadForm,
  first: number,
  last: number,
  sum: number,
  at: number,
  batch: StoredText,
  codec: StoredText | null,
];

/** The row of a write whose payload is JSON text. `first` is null for any other write. */
type EventsRow = readonly [payload: StoredText, first: number | null, last: number];

/**
 * A bare `LIMIT ?` makes SQLite recompile the statement for every value; `+ 0` hides the value from the
 * planner. The last write of the range covers `upTo`: it is the first whose end is not before it.
 */
const RANGE = `FROM writes
  WHERE id > (?1 << 28 | ?2) AND id <= coalesce(
    (SELECT id FROM writes WHERE id >= (?1 << 28 | ?3) AND id <= (?1 << 28 | 268435455) ORDER BY id LIMIT 1),
    ?1 << 28 | 268435455)
  ORDER BY id LIMIT ?4 + 0`;

const SELECT_WRITES = `SELECT ${PAYLOAD_COLUMNS}, first, id & 268435455, sum, at, batch, codec ${RANGE}`;

/** Each column of a row costs about as much as 100 bytes of its payload. */
const SELECT_EVENTS = `SELECT ${PAYLOAD_COLUMN},
  CASE WHEN codec IS NULL AND utf16 IS NULL AND typeof(payload) = 'text' THEN first END,
  id & 268435455 ${RANGE}`;

const SELECT_STREAM = `SELECT ${STREAM_COLUMNS} FROM streams AS s WHERE s.namespace = ? AND s.stream = ?`;

/** No event can follow `after`: only the stream's row is wanted. */
export function isHeadOnly({ after }: ReadRequest): boolean {
  return after >= MAX_SEQ;
}

export function read(connection: Connection, request: ReadRequest): ReadPage {
  const { namespace, stream: name, after, upTo = MAX_SEQ, limit, fold } = request;
  const stored = connection.get<StoredStream>(SELECT_STREAM, toText(namespace), toText(name));
  const stream = stored ? streamRow(stored, fromText) : unusedStreamRow(name);
  if (!stored || stored.state === "gone") return { stream, snapshot: null, writes: [], more: false };
  const snapshot = fold === undefined ? null : latestSnapshot(connection, stored, fold, upTo);
  if (isHeadOnly(request) || upTo <= stored.base || upTo < 1) {
    return { stream, snapshot, writes: [], more: false };
  }
  const from = Math.max(after, stored.base, snapshot?.seq ?? 0);
  const range = [stored.id, from, Math.min(upTo, MAX_SEQ), limit === undefined ? -1 : limit + 1] as const;
  const writes =
    (request.onlyEvents && jsonWrites(connection.rows<EventsRow>(SELECT_EVENTS, ...range))) ||
    connection.rows<WriteRow>(SELECT_WRITES, ...range).map(storedWrite);
  const more = limit !== undefined && writes.length > limit;
  if (more) writes.pop();
  return { stream, snapshot, writes, more };
}

/** Null if one of them is not JSON text. Then the caller reads them all again, with every column. */
function jsonWrites(rows: readonly EventsRow[]): StoredWrite[] | null {
  const writes: StoredWrite[] = [];
  for (const [stored, first, last] of rows) {
    if (first === null) return null;
    const payload = decodePayload(stored, TEXT);
    writes.push({ first, last, batch: "", payload, codec: null, sum: 0, at: 0 });
  }
  return writes;
}

function storedWrite([payload, form, first, last, sum, at, batch, codec]: WriteRow): StoredWrite {
  return {
    first,
    last,
    batch: fromText(batch),
    payload: decodePayload(payload, form),
    codec: fromTextOrNull(codec),
    sum,
    at,
  };
}

/**
 * Putting an artifact again makes it young, because the event that refers to it may still be on its way. It
 * also replaces the bytes, which may be damaged; of a row that keeps its length SQLite writes only changed
 * pages.
 */
const PUT_ARTIFACT = `INSERT INTO artifacts (namespace, hash, put_at, bytes) VALUES (?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET put_at = max(put_at, excluded.put_at), bytes = excluded.bytes`;

const PUT_SNAPSHOT = `INSERT OR REPLACE INTO snapshots (stream, fold, seq, utf16, codec, payload)
  VALUES (?, ?, ?, ?, ?, ?)`;

export function put(transaction: Transaction, request: PutRequest): ActResult<undefined> {
  const { connection } = transaction;
  if (request.of === "artifact") {
    const { namespace, hash, at, bytes } = request;
    connection.run(PUT_ARTIFACT, toText(namespace), toText(hash), at, bytes);
    return { result: undefined, wrote: true };
  }
  const { namespace, generation, fold, seq, codec } = request;
  const stream = findCachedStream(transaction, namespace, request.stream);
  // A hidden stream has lost its snapshots already; a new one would outlast it.
  if (stream?.state !== "live" || stream.generation !== generation) {
    return { result: undefined, wrote: false };
  }
  const { value, utf16 } = toPayload(request.payload);
  connection.run(PUT_SNAPSHOT, stream.id, toText(fold), seq, utf16, toTextOrNull(codec), value);
  return { result: undefined, wrote: true };
}

type SnapshotRow = readonly [
  payload: StoredText,
  form: PayloadForm,
  seq: number,
  generation: number,
  codec: StoredText | null,
];

const SNAPSHOT_OF_ROW = `SELECT ${PAYLOAD_COLUMNS}, seq, 0, codec FROM snapshots
  WHERE stream = ? AND fold = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`;

function latestSnapshot(
  connection: Connection,
  { id, generation }: StoredStream,
  fold: string,
  upTo: number,
): Blob | null {
  const [row] = connection.rows<SnapshotRow>(SNAPSHOT_OF_ROW, id, toText(fold), upTo);
  return row ? { ...snapshotBlob(row), generation } : null;
}

const SNAPSHOT = `SELECT ${PAYLOAD_COLUMNS}, n.seq, s.generation, codec
  FROM streams AS s JOIN snapshots AS n ON n.stream = s.id
  WHERE s.namespace = ? AND s.stream = ? AND s.state <> 'gone' AND n.fold = ? AND n.seq <= ?
  ORDER BY n.seq DESC LIMIT 1`;

const ARTIFACT = "SELECT bytes FROM artifacts WHERE namespace = ? AND hash = ?";

export function get(connection: Connection, request: GetRequest): Blob | null {
  const namespace = toText(request.namespace);
  if (request.of === "artifact") {
    const row = connection.get<{ bytes: Uint8Array }>(ARTIFACT, namespace, toText(request.hash));
    return row ? { payload: row.bytes, codec: null, seq: 0, generation: 0 } : null;
  }
  const { stream, fold, upTo } = request;
  const [row] = connection.rows<SnapshotRow>(SNAPSHOT, namespace, toText(stream), toText(fold), upTo);
  return row ? snapshotBlob(row) : null;
}

function snapshotBlob([payload, form, seq, generation, codec]: SnapshotRow): Blob {
  return { payload: decodePayload(payload, form), codec: fromTextOrNull(codec), seq, generation };
}
