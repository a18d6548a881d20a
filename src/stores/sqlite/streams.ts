/** Streams as rows: finding one, and what the port sees of it. */

import type { StoredStream as StreamColumns } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import type { StreamKey } from "./rows.ts";
import { type StoredText, toText } from "./text.ts";
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

export type StoredStream = StreamKey & StreamColumns<StoredText>;

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
