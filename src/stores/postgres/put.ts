/**
 * Keeping bytes beside the log: artifacts once per content, snapshots once per fold and seq. Doing either twice is the
 * same as once, so both are simply sent again after a lost connection.
 */

import type { PutRequest } from "../../store.ts";
import type { Database, Entry } from "./database.ts";
import { toPayload, toText, toTextOrNull } from "./text.ts";

/**
 * Putting an artifact again makes it young: the event that refers to it may still be on the way. Bytes that were damaged
 * are replaced; those that are right stay where they are.
 */
const putArtifact = (schema: string) => `
  INSERT INTO ${schema}.artifacts AS old (namespace, hash, put_at, bytes)
  SELECT $4, $5, $6::bigint, $7::bytea FROM ${schema}.enter($1, $2, $3)
  ON CONFLICT (namespace, hash) DO UPDATE SET put_at = greatest(old.put_at, excluded.put_at),
    bytes = CASE WHEN old.bytes = excluded.bytes THEN old.bytes ELSE excluded.bytes END`;

/**
 * The row of the stream is locked, so that it cannot be removed before the snapshot is there to be removed with it. One that
 * is hidden is already removed.
 */
const putSnapshot = (schema: string) => `
  WITH live AS (
    SELECT namespace, stream FROM ${schema}.streams
    WHERE namespace = $4 AND stream = $5 AND generation = $6 AND state = 'live' FOR SHARE
  )
  INSERT INTO ${schema}.snapshots (namespace, stream, fold, seq, codec, payload, bytes)
  SELECT namespace, stream, $7, $8::integer, $9, $10, $11::bytea FROM ${schema}.enter($1, $2, $3) CROSS JOIN live
  ON CONFLICT (namespace, stream, fold, seq)
    DO UPDATE SET codec = excluded.codec, payload = excluded.payload, bytes = excluded.bytes`;

export async function put(database: Database, entry: Entry, request: PutRequest): Promise<void> {
  const namespace = toText(request.namespace);
  if (request.of === "artifact") {
    const { hash, at } = request;
    await database.run(putArtifact(database.schema), [
      ...database.entry(entry),
      namespace,
      toText(hash),
      at,
      Buffer.from(request.bytes),
    ]);
    return;
  }
  const { payload, bytes } = toPayload(request.payload);
  await database.run(putSnapshot(database.schema), [
    ...database.entry(entry),
    namespace,
    toText(request.stream),
    request.generation,
    toText(request.fold),
    request.seq,
    toTextOrNull(request.codec),
    payload,
    bytes && Buffer.from(bytes),
  ]);
}
