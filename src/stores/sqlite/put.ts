/** Keeping bytes beside the log: artifacts once per content, snapshots once per fold and seq. */

import type { PutRequest } from "../../store.ts";
import { findKnownStream } from "./streams.ts";
import { toPayload, toText, toTextOrNull } from "./text.ts";
import type { Done, Transaction } from "./transaction.ts";

/**
 * Putting an artifact again makes it young: the event that refers to it may still be on the way. Its bytes are put again
 * as well, in case they were damaged; of a row that keeps its length SQLite writes only the pages that differ.
 */
const PUT_ARTIFACT = `INSERT INTO artifacts (namespace, hash, put_at, bytes) VALUES (?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET put_at = max(put_at, excluded.put_at), bytes = excluded.bytes`;

const PUT_SNAPSHOT = `INSERT OR REPLACE INTO snapshots (stream, fold, seq, utf16, codec, payload)
  VALUES (?, ?, ?, ?, ?, ?)`;

export function put(transaction: Transaction, request: PutRequest): Done<undefined> {
  const { connection } = transaction;
  const namespace = toText(request.namespace);
  if (request.of === "artifact") {
    connection.run(PUT_ARTIFACT, namespace, toText(request.hash), request.at, request.bytes);
    return { result: undefined, wrote: true };
  }
  const key = findKnownStream(transaction, request.namespace, request.stream);
  // What is hidden is already removed: a snapshot that came now would outlast it.
  if (key?.state !== "live" || key.generation !== request.generation) {
    return { result: undefined, wrote: false };
  }
  const { value, utf16 } = toPayload(request.payload);
  connection.run(
    PUT_SNAPSHOT,
    key.id,
    toText(request.fold),
    request.seq,
    utf16,
    toTextOrNull(request.codec),
    value,
  );
  return { result: undefined, wrote: true };
}
