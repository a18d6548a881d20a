/**
 * This file's end of a move: the seal, rows out (`dump`) and rows in (`restore`).
 *
 * The seal is a row in `meta`. Unless it is `arrived`, the file takes no writes but those of the move. A
 * write transaction reads it before its first act, unless `data_version` is unchanged (`queue.ts`). So every
 * process sees the seal at its next write, and a process that is alone pays nothing for it.
 *
 * Rows are put over those that are there: a move that broke off is run again from its beginning.
 */

import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import { countFittingRows } from "../../model/stream/index.ts";
import type { MovedRow, Page, Seal } from "../../store.ts";
import type { Clock, DumpPosition, StoredItem, StoredWriteRow } from "../kit/index.ts";
import { dumpStep, isSameSeal, itemRow, requireEntering, streamRow, writeRow } from "../kit/index.ts";
import { type Connection, isBusy, type Value } from "./driver.ts";
import { leaseRow } from "./leases.ts";
import { bumpMark } from "./opening.ts";
import type { ActResult, StoredLease, StoredStream, StoredText, Transaction } from "./rows.ts";
import {
  coarseTime,
  findStream,
  fromPayload,
  fromText,
  STREAM_COLUMNS,
  toPayload,
  toText,
  toTextOrNull,
} from "./rows.ts";

/**
 * Null if this is the file's only connection. A connection in WAL mode keeps a shared lock for as long as it
 * is open, and leaving that mode needs an exclusive one. A crash in between leaves the other mode, which the
 * next opener changes back.
 */
export function otherUser(connection: Connection): string | null {
  try {
    connection.all("PRAGMA journal_mode = DELETE");
  } catch (error) {
    if (!isBusy(error)) throw error;
    return "another process, or another handle of this one, has the file open";
  }
  connection.all("PRAGMA journal_mode = WAL");
  const mode = connection.get<{ journal_mode: string }>("PRAGMA journal_mode")?.journal_mode;
  return mode === "wal" ? null : "another process has just opened the file";
}

export function reseal(transaction: Transaction, expect: Seal | null, next: Seal | null): ActResult<boolean> {
  const { connection, seal } = transaction;
  if (!isSameSeal(seal, expect)) return { result: false, wrote: false };
  connection.run("DELETE FROM meta WHERE name = 'seal'");
  if (next) connection.run("INSERT INTO meta (name, value) VALUES ('seal', ?)", JSON.stringify(next));
  transaction.seal = next;
  bumpMark(transaction);
  return { result: true, wrote: true };
}

/** One table of a dump. A page continues after the last row of the page before, so it costs what it holds. */
interface Part {
  readonly sql: string;
  /** The sizes of the same rows, where rows can be large. */
  readonly sizes?: string;
  /** The values of the query for the first page. */
  readonly begin: DumpPosition;
  read(row: never, connection: Connection, clock: Clock): { moved: MovedRow; position: DumpPosition };
}

const PAGE_ROWS = 500;

interface InNamespace {
  readonly namespace: StoredText;
}

const LEASES: Part = {
  sql: `SELECT namespace, name, token, boot, expires_at, ttl, holder FROM leases
    WHERE (namespace, name) > (?, ?) ORDER BY namespace, name LIMIT ? + 0`,
  begin: ["", ""],
  read(row: StoredLease & InNamespace, _connection, clock) {
    const namespace = fromText(row.namespace);
    const lease = leaseRow(row, clock);
    const moved: MovedRow = { of: "lease", namespace, ttlMs: row.ttl, ...lease };
    return { moved, position: [namespace, lease.name] };
  },
};

const ARTIFACTS: Part = {
  sql: "SELECT id, namespace, hash, put_at, bytes FROM artifacts WHERE id > ? ORDER BY id LIMIT ? + 0",
  sizes: "SELECT octet_length(bytes) AS size FROM artifacts WHERE id > ? ORDER BY id LIMIT ? + 0",
  begin: [0],
  read(row: InNamespace & { id: number; hash: StoredText; put_at: number; bytes: Uint8Array }) {
    const namespace = fromText(row.namespace);
    const { id, bytes, put_at: putAt } = row;
    return { moved: { of: "artifact", namespace, hash: fromText(row.hash), bytes, putAt }, position: [id] };
  },
};

const REFERENCES = `SELECT a.hash FROM artifact_refs AS r JOIN artifacts AS a ON a.id = r.artifact
  WHERE r.stream = ? ORDER BY a.hash`;

const STREAMS: Part = {
  sql: `SELECT ${STREAM_COLUMNS}, s.namespace FROM streams AS s WHERE s.id > ? ORDER BY s.id LIMIT ? + 0`,
  begin: [0],
  read(row: StoredStream & InNamespace, connection) {
    const namespace = fromText(row.namespace);
    const referred = connection.all<{ hash: StoredText }>(REFERENCES, row.id);
    const artifacts = referred.map(({ hash }) => fromText(hash)).sort();
    const stream = streamRow(row, fromText);
    return { moved: { of: "stream", namespace, ...stream, artifacts }, position: [row.id] };
  },
};

type WriteColumns = { owner: number; stream: StoredText; payload: StoredText; utf16: number | null };

const WRITES: Part = {
  sql: `SELECT w.id >> 28 AS owner, s.namespace, s.stream, w.first, w.id & 268435455 AS last, w.batch,
      w.payload, w.codec, w.sum, w.at, w.utf16
    FROM writes AS w JOIN streams AS s ON s.id = w.id >> 28
    WHERE w.id > (? << 28 | ?) ORDER BY w.id LIMIT ? + 0`,
  sizes: `SELECT octet_length(payload) AS size FROM writes
    WHERE id > (? << 28 | ?) ORDER BY id LIMIT ? + 0`,
  begin: [0, 0],
  read(row: InNamespace & StoredWriteRow<StoredText> & WriteColumns) {
    const [namespace, stream] = [fromText(row.namespace), fromText(row.stream)];
    const write = writeRow(row, fromPayload(row.payload, row.utf16), fromText);
    return { moved: { of: "write", namespace, stream, ...write }, position: [row.owner, row.last] };
  },
};

const ITEMS: Part = {
  sql: `SELECT i.stream AS owner, s.namespace, s.stream, i.kind, i.id, i.seq, i.end_seq, i.status, i.name,
      i.key, i.at, i.done_at
    FROM items AS i JOIN streams AS s ON s.id = i.stream
    WHERE (i.stream, i.kind, i.id) > (?, ?, ?) ORDER BY i.stream, i.kind, i.id LIMIT ? + 0`,
  begin: [0, "", ""],
  read(row: InNamespace & StoredItem<StoredText> & { readonly owner: number }) {
    const item = itemRow(row, fromText);
    const moved: MovedRow = { of: "item", namespace: fromText(row.namespace), ...item };
    return { moved, position: [row.owner, item.kind, item.id] };
  },
};

const KEYS: Part = {
  sql: `SELECT k.namespace, k.key, s.stream, k.seq FROM keys AS k JOIN streams AS s ON s.id = k.stream
    WHERE (k.namespace, k.key) > (?, ?) ORDER BY k.namespace, k.key LIMIT ? + 0`,
  begin: ["", ""],
  read(row: InNamespace & { key: StoredText; stream: StoredText; seq: number }) {
    const [namespace, key] = [fromText(row.namespace), fromText(row.key)];
    const moved: MovedRow = { of: "key", namespace, key, stream: fromText(row.stream), seq: row.seq };
    return { moved, position: [namespace, key] };
  },
};

/** In the order in which another store can put the rows back: what is named before what names it. */
const PARTS = { lease: LEASES, artifact: ARTIFACTS, stream: STREAMS, write: WRITES, item: ITEMS, key: KEYS };

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
    ? countFittingRows(connection.all(part.sizes, ...values, PAGE_ROWS), PAGE_ROWS)
    : PAGE_ROWS;
  const found = connection.all<never>(part.sql, ...values, limit);
  const read = found.map((row) => part.read(row, connection, clock));
  const last = read.at(-1);
  const isFull = last !== undefined && read.length === limit;
  return { rows: read.map(({ moved }) => moved), cursor: step.next(isFull ? last.position : null) };
}

export function restore(
  { connection, cache, seal }: Transaction,
  path: string,
  move: string,
  rows: readonly MovedRow[],
): ActResult<undefined> {
  requireEntering({ path }, move, seal);
  for (const row of rows) PUT[row.of](connection, row as never);
  cache.clear();
  return { result: undefined, wrote: rows.length > 0 };
}

type RowOf<Of extends MovedRow["of"]> = Extract<MovedRow, { of: Of }>;

const PUT: { readonly [Of in MovedRow["of"]]: (connection: Connection, row: RowOf<Of>) => void } = {
  lease: putLease,
  artifact: putArtifact,
  stream: putStream,
  write: putWrite,
  item: putItem,
  key: putKey,
};

/** Inserts a row, or replaces the one with the same key. */
function putRow(connection: Connection, table: string, row: Readonly<Record<string, Value>>): void {
  const columns = Object.keys(row);
  const values = columns.map(() => "?").join(", ");
  const sql = `INSERT OR REPLACE INTO ${table} (${columns.join(", ")}) VALUES (${values})`;
  connection.run(sql, ...Object.values(row));
}

/** Stored as expired: no holder survives the move. The holder's name is kept for messages. */
function putLease(connection: Connection, row: RowOf<"lease">): void {
  const [namespace, name] = [toText(row.namespace), toText(row.name)];
  const holder = row.holder && toText(JSON.stringify(row.holder));
  const { token, ttlMs: ttl } = row;
  putRow(connection, "leases", { namespace, name, token, boot: "moved", expires_at: 0, ttl, holder });
}

/** Keeps the id of an artifact that is there: references name it. */
const PUT_ARTIFACT = `INSERT INTO artifacts (namespace, hash, put_at, bytes) VALUES (?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET put_at = excluded.put_at, bytes = excluded.bytes`;

function putArtifact(connection: Connection, { namespace, hash, bytes, putAt }: RowOf<"artifact">): void {
  connection.run(PUT_ARTIFACT, toText(namespace), toText(hash), putAt, bytes);
}

/** A tombstone, filled in later: a fork may arrive before the stream whose past it shares. */
const PLACEHOLDER = `INSERT OR IGNORE INTO streams (namespace, stream, kind, state, generation, seq, base,
    created_at, updated_at, updated_about) VALUES (?, ?, ?, 'gone', 1, 0, 0, 0, 0, 0)`;

const REFER = `INSERT OR IGNORE INTO artifact_refs (artifact, stream)
  SELECT id, ? FROM artifacts WHERE namespace = ? AND hash = ?`;

function putStream(connection: Connection, row: RowOf<"stream">): void {
  const { namespace, stream, state, head, base, parent, createdAt, updatedAt, facets } = row;
  const id = reserveId(connection, namespace, stream);
  const columns: Readonly<Record<string, Value>> = {
    state,
    // The head of a stream that is gone has the next generation, its row the last one.
    generation: state === "gone" ? head.generation - 1 : head.generation,
    seq: head.seq,
    base,
    parent: parent && reserveId(connection, namespace, parent.stream),
    parent_generation: parent ? parent.generation : null,
    created_at: createdAt,
    updated_at: updatedAt,
    updated_about: coarseTime(updatedAt),
    open_calls: facets.openCalls,
    expires_at: facets.expiresAt,
    status: toTextOrNull(facets.status),
    title: toTextOrNull(facets.title),
    goal: toTextOrNull(facets.goal),
    budget: toTextOrNull(facets.budget),
  };
  const set = Object.keys(columns).map((column) => `${column} = ?`);
  connection.run(`UPDATE streams SET ${set.join(", ")} WHERE id = ?`, ...Object.values(columns), id);
  for (const hash of row.artifacts) connection.run(REFER, id, toText(namespace), toText(hash));
}

function reserveId(connection: Connection, namespace: string, stream: string): number {
  connection.run(PLACEHOLDER, toText(namespace), toText(stream), toText(streamKind(stream)));
  return idOf(connection, namespace, stream);
}

function idOf(connection: Connection, namespace: string, stream: string): number {
  const found = findStream(connection, namespace, stream);
  if (found) return found.id;
  throw new HoldfastError("BATCH_INVALID", `the move names ${stream}, which has not arrived yet`, {
    hint: "Streams come before the rows that name them. This is a mistake in the store that is moved.",
  });
}

const PUT_WRITE = `INSERT OR REPLACE INTO writes (id, first, at, sum, utf16, codec, batch, payload)
  VALUES (? << 28 | ?, ?, ?, ?, ?, ?, ?, ?)`;

function putWrite(connection: Connection, row: RowOf<"write">): void {
  const { first, last, at, sum } = row;
  const id = idOf(connection, row.namespace, row.stream);
  const { value, utf16 } = toPayload(row.payload);
  const [codec, batch] = [toTextOrNull(row.codec), toText(row.batch)];
  connection.run(PUT_WRITE, id, last, first, at, sum, utf16, codec, batch, value);
}

function putItem(connection: Connection, row: RowOf<"item">): void {
  putRow(connection, "items", {
    stream: idOf(connection, row.namespace, row.stream),
    kind: toText(row.kind),
    id: toText(row.id),
    namespace: toText(row.namespace),
    seq: row.seq,
    end_seq: row.endSeq,
    status: toTextOrNull(row.status),
    name: toTextOrNull(row.name),
    key: toTextOrNull(row.key),
    at: row.at,
    done_at: row.doneAt,
  });
}

function putKey(connection: Connection, { namespace, key, stream, seq }: RowOf<"key">): void {
  const id = idOf(connection, namespace, stream);
  putRow(connection, "keys", { namespace: toText(namespace), key: toText(key), stream: id, seq });
}
