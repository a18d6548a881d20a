/** Reading one stream, and the bytes beside streams. */

import type { Blob, GetRequest, ReadPage, ReadRequest, StoredWrite } from "../../store.ts";
import { streamRow, unusedStreamRow } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import { loadStream, type StoredStream } from "./streams.ts";
import {
  fromStored,
  fromText,
  fromTextOrNull,
  PAYLOAD_COLUMN,
  PAYLOAD_COLUMNS,
  type PayloadForm,
  type StoredText,
  TEXT,
  toText,
} from "./text.ts";

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

type SnapshotRow = readonly [
  payload: StoredText,
  form: PayloadForm,
  seq: number,
  generation: number,
  codec: StoredText | null,
];

/** Of a write that is plain text: nothing else has to be known of it. */
type EventsRow = readonly [payload: StoredText, first: number | null, last: number];

const MAX_SEQ = 2 ** 28 - 1;

/**
 * A bare `LIMIT ?` makes SQLite compile the statement anew for every value; `+ 0` keeps it from looking at it.
 *
 * The last write of the range is the one that covers `upTo`: the first whose end is not before it.
 */
const RANGE = `FROM writes
  WHERE id > (?1 << 28 | ?2) AND id <= coalesce(
    (SELECT id FROM writes WHERE id >= (?1 << 28 | ?3) AND id <= (?1 << 28 | 268435455) ORDER BY id LIMIT 1),
    ?1 << 28 | 268435455)
  ORDER BY id LIMIT ?4 + 0`;

const SELECT_WRITES = `SELECT ${PAYLOAD_COLUMNS}, first, id & 268435455, sum, at, batch, codec ${RANGE}`;

/** Each column of a row costs about as much as 100 bytes of its payload. */
const SELECT_EVENTS = `SELECT ${PAYLOAD_COLUMN},
  CASE WHEN codec IS NULL AND utf16 IS NULL AND typeof(payload) = 'text' THEN first END, id & 268435455 ${RANGE}`;

/** Nothing can come after that: the row alone is wanted. */
export function isHeadOnly({ after }: ReadRequest): boolean {
  return after >= MAX_SEQ;
}

export function read(connection: Connection, request: ReadRequest): ReadPage {
  const { stream: name, after, upTo = MAX_SEQ, limit, fold } = request;
  const stored = loadStream(connection, toText(request.namespace), toText(name));
  const stream = stored ? streamRow(stored, fromText) : unusedStreamRow(name);
  if (!stored || stored.state === "gone") return { stream, snapshot: null, writes: [], more: false };
  const snapshot = fold === undefined ? null : latestSnapshot(connection, stored, fold, upTo);
  if (isHeadOnly(request) || upTo <= stored.base || upTo < 1) {
    return { stream, snapshot, writes: [], more: false };
  }
  const from = Math.max(after, stored.base, snapshot?.seq ?? 0);
  const range = [stored.id, from, Math.min(upTo, MAX_SEQ), limit === undefined ? -1 : limit + 1] as const;
  const writes =
    (request.onlyEvents && plainWrites(connection.rows<EventsRow>(SELECT_EVENTS, ...range))) ||
    connection.rows<WriteRow>(SELECT_WRITES, ...range).map(storedWrite);
  const more = limit !== undefined && writes.length > limit;
  if (more) writes.pop();
  return { stream, snapshot, writes, more };
}

/** Null when one of them is not plain: then all are read with everything that there is to know of them. */
function plainWrites(rows: readonly EventsRow[]): StoredWrite[] | null {
  const writes: StoredWrite[] = [];
  for (const [payload, first, last] of rows) {
    if (first === null) return null;
    writes.push({ first, last, batch: "", payload: fromStored(payload, TEXT), codec: null, sum: 0, at: 0 });
  }
  return writes;
}

function storedWrite([payload, form, first, last, sum, at, batch, codec]: WriteRow): StoredWrite {
  return {
    first,
    last,
    batch: fromText(batch),
    payload: fromStored(payload, form),
    codec: fromTextOrNull(codec),
    sum,
    at,
  };
}

const ARTIFACT = "SELECT bytes FROM artifacts WHERE namespace = ? AND hash = ?";

const OWN_SNAPSHOT = `SELECT ${PAYLOAD_COLUMNS}, seq, 0, codec FROM snapshots
  WHERE stream = ? AND fold = ? AND seq <= ? ORDER BY seq DESC LIMIT 1`;

function latestSnapshot(
  connection: Connection,
  { id, generation }: StoredStream,
  fold: string,
  upTo: number,
): Blob | null {
  const [row] = connection.rows<SnapshotRow>(OWN_SNAPSHOT, id, toText(fold), upTo);
  return row ? { ...snapshotBlob(row), generation } : null;
}

const SNAPSHOT = `SELECT ${PAYLOAD_COLUMNS}, n.seq, s.generation, codec FROM streams AS s JOIN snapshots AS n ON n.stream = s.id
  WHERE s.namespace = ? AND s.stream = ? AND s.state <> 'gone' AND n.fold = ? AND n.seq <= ?
  ORDER BY n.seq DESC LIMIT 1`;

export function get(connection: Connection, request: GetRequest): Blob | null {
  const namespace = toText(request.namespace);
  if (request.of === "artifact") {
    const row = connection.get<{ bytes: Uint8Array }>(ARTIFACT, namespace, toText(request.hash));
    return row ? { payload: row.bytes, codec: null, seq: 0, generation: 0 } : null;
  }
  const [row] = connection.rows<SnapshotRow>(
    SNAPSHOT,
    namespace,
    toText(request.stream),
    toText(request.fold),
    request.upTo,
  );
  return row ? snapshotBlob(row) : null;
}

function snapshotBlob([payload, form, seq, generation, codec]: SnapshotRow): Blob {
  return { payload: fromStored(payload, form), codec: fromTextOrNull(codec), seq, generation };
}
