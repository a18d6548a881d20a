/** Reading one stream; putting and getting the bytes beside streams: artifacts and snapshots. */

import type { Blob, GetRequest, PutRequest, ReadPage, ReadRequest, StoredWrite } from "../../store.ts";
import { streamRow, unusedStreamRow } from "../kit/index.ts";
import { MAX_SEQ } from "./append.ts";
import type { Connection } from "./driver.ts";
import type { ActResult, PayloadForm, StoredStream, StoredText, Transaction } from "./rows.ts";
import {
  decodePayload,
  findCachedStream,
  fromText,
  fromTextOrNull,
  PAYLOAD_COLUMN,
  PAYLOAD_COLUMNS,
  STREAM_COLUMNS,
  TEXT,
  toPayload,
  toText,
  toTextOrNull,
  unusedGeneration,
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

/** `+ 0` hides the limit from the planner: a bare `LIMIT ?` is recompiled for every value. */
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

const SNAPSHOT_OF_ROW = `SELECT ${PAYLOAD_COLUMNS}, seq, 0, codec FROM snapshots
  WHERE stream = ? AND fold = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`;

/** No event can follow `after`: only the stream's row is wanted. */
export function isHeadOnly({ after }: ReadRequest): boolean {
  return after >= MAX_SEQ;
}

export function read(connection: Connection, request: ReadRequest): ReadPage {
  const { namespace, stream: name, after, upTo = MAX_SEQ, limit, fold } = request;
  const stored = connection.get<StoredStream>(SELECT_STREAM, toText(namespace), toText(name));
  const stream = stored
    ? streamRow(stored, fromText)
    : unusedStreamRow(name, unusedGeneration(connection, namespace));
  if (!stored || stored.state === "gone") return { stream, snapshot: null, writes: [], more: false };
  const { id, generation } = stored;
  const [found] =
    fold === undefined ? [] : connection.rows<SnapshotRow>(SNAPSHOT_OF_ROW, id, toText(fold), upTo);
  const snapshot = found ? { ...snapshotBlob(found), generation } : null;
  if (isHeadOnly(request) || upTo <= stored.base || upTo < 1) {
    return { stream, snapshot, writes: [], more: false };
  }
  const from = Math.max(after, stored.base, snapshot?.seq ?? 0);
  const range = [id, from, Math.min(upTo, MAX_SEQ), limit === undefined ? -1 : limit + 1] as const;
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

/** Put again, an artifact is young: its event may be on its way. The bytes may be damaged, so they change. */
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

type SnapshotRow = readonly [StoredText, PayloadForm, seq: number, generation: number, StoredText | null];

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
