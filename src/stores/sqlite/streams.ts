/** Streams as rows: finding one, and what the port sees of it. */

import type { Head, StreamRow } from "../../store.ts";
import type { Connection } from "./driver.ts";
import type { StreamKey } from "./rows.ts";
import { fromText, fromTextOrNull, type StoredText, toText } from "./text.ts";
import type { Transaction } from "./transaction.ts";

const FIND =
  "SELECT id, state, generation, seq, updated_about FROM streams WHERE namespace = ? AND stream = ?";

export const DELETE_SNAPSHOTS = "DELETE FROM snapshots WHERE stream = ?";

export function findStream(
  connection: Connection,
  namespace: StoredText,
  stream: StoredText,
): StreamKey | undefined {
  return connection.get<StreamKey>(FIND, namespace, stream);
}

/** The same for a change, which often finds the row where the last change left it. */
export function findKnownStream(
  { connection, cache }: Transaction,
  namespace: string,
  stream: string,
): StreamKey | undefined {
  const known = cache.stream(namespace, stream);
  if (known) return known;
  const found = findStream(connection, toText(namespace), toText(stream));
  if (found) cache.keepStream(namespace, stream, found);
  return found;
}

/** A tombstone keeps the generation of its last life; the port speaks of the next. */
export function headOf(key: StreamKey | undefined): Head {
  if (!key) return { generation: 1, seq: 0 };
  if (key.state === "gone") return { generation: key.generation + 1, seq: 0 };
  return { generation: key.generation, seq: key.seq };
}

export interface StoredStream extends StreamKey {
  readonly stream: StoredText;
  readonly base: number;
  readonly parent: StoredText | null;
  readonly parent_generation: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly open_calls: number;
  readonly expires_at: number | null;
  readonly status: StoredText | null;
  readonly title: StoredText | null;
  readonly goal: StoredText | null;
  readonly budget: StoredText | null;
}

/** The columns of a `StoredStream`, from a query that calls the table `s`. */
export const STREAM_COLUMNS = `s.id, s.stream, s.state, s.generation, s.seq, s.updated_about, s.base,
  (SELECT p.stream FROM streams AS p WHERE p.id = s.parent) AS parent, s.parent_generation,
  s.created_at, s.updated_at, s.open_calls, s.expires_at, s.status, s.title, s.goal, s.budget`;

const SELECT = `SELECT ${STREAM_COLUMNS} FROM streams AS s WHERE s.namespace = ? AND s.stream = ?`;

export function loadStream(
  connection: Connection,
  namespace: StoredText,
  stream: StoredText,
): StoredStream | undefined {
  return connection.get<StoredStream>(SELECT, namespace, stream);
}

export function streamRow(stored: StoredStream): StreamRow {
  const { state, base, parent, parent_generation: generation } = stored;
  return {
    stream: fromText(stored.stream),
    state,
    head: headOf(stored),
    base,
    parent: parent === null || generation === null ? null : { stream: fromText(parent), generation },
    createdAt: stored.created_at,
    updatedAt: stored.updated_at,
    facets: {
      status: fromTextOrNull(stored.status),
      title: fromTextOrNull(stored.title),
      goal: fromTextOrNull(stored.goal),
      openCalls: stored.open_calls,
      expiresAt: stored.expires_at,
      budget: fromTextOrNull(stored.budget),
    },
  };
}

/** A name that no stream has ever had. */
export function neverRow(stream: string): StreamRow {
  return {
    stream,
    state: "gone",
    head: headOf(undefined),
    base: 0,
    parent: null,
    createdAt: 0,
    updatedAt: 0,
    facets: { status: null, title: null, goal: null, openCalls: 0, expiresAt: null, budget: null },
  };
}
