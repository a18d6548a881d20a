/**
 * Removing streams, artifacts and snapshots.
 *
 *     live ──remove──▶ gone, or hidden while a fork shares its events ──last fork gone──▶ gone
 *
 * Items and snapshots go at once; events and their artifacts stay as long as a fork needs them. Claimed keys
 * stay for ever: "once, ever" outlives the record. The row stays as a tombstone with its generation, so that
 * no later life is mistaken for this one. An erase leaves neither: `forget`. All of it is one transaction.
 */

import { ERASED } from "../../model/names.ts";
import type { RemoveOutcome, RemoveRequest } from "../../store.ts";
import type { Connection } from "./driver.ts";
import { checkGuards } from "./leases.ts";
import { bumpMark } from "./opening.ts";
import {
  type ActResult,
  DELETE_SNAPSHOTS,
  findStream,
  fromText,
  headIn,
  type StoredText,
  type Transaction,
  toText,
} from "./rows.ts";

export function remove(transaction: Transaction, request: RemoveRequest): ActResult<RemoveOutcome> {
  const { connection } = transaction;
  switch (request.of) {
    case "stream":
      return removeStream(transaction, request);
    case "artifacts":
      return removed(connection.count(COLLECT, toText(request.namespace), request.putBefore));
    case "snapshots": {
      const stream = findStream(connection, request.namespace, request.stream);
      return removed(stream ? connection.count(DELETE_SNAPSHOTS, stream.id) : 0);
    }
  }
}

const COLLECT = `DELETE FROM artifacts WHERE namespace = ? AND put_at < ?
  AND NOT EXISTS (SELECT 1 FROM artifact_refs WHERE artifact = artifacts.id)`;

function removed(count: number): ActResult<RemoveOutcome> {
  return { result: { outcome: "removed", count }, wrote: count > 0 };
}

function removeStream(
  transaction: Transaction,
  { namespace, stream: name, expect, guards, erase }: Extract<RemoveRequest, { of: "stream" }>,
): ActResult<RemoveOutcome> {
  const { connection, cache } = transaction;
  const held = checkGuards(transaction, namespace, guards ?? []);
  if (!Array.isArray(held)) return { result: held, wrote: false };
  const stream = findStream(connection, namespace, name);
  const head = headIn(connection, namespace, stream);
  if (head.generation !== expect.generation || head.seq !== expect.seq) {
    return { result: { outcome: "conflict", head }, wrote: false };
  }
  // It may also delete ancestors, which the request does not name.
  cache.clear();
  if (!stream || stream.state === "gone") {
    const wrote = erase === true && forget(connection, namespace, name, stream?.id ?? null);
    if (wrote) bumpMark(transaction);
    return { ...removed(0), wrote };
  }
  bumpMark(transaction);
  connection.run("DELETE FROM items WHERE stream = ?", stream.id);
  connection.run(DELETE_SNAPSHOTS, stream.id);
  connection.run("UPDATE streams SET state = 'hidden' WHERE id = ?", stream.id);
  const count = deleteUnshared(connection, stream.id, erase ? namespace : null);
  return count === 0 ? { result: { outcome: "hidden" }, wrote: true } : removed(count);
}

const HIDDEN_AND_UNSHARED = `SELECT parent, stream FROM streams AS s WHERE s.id = ? AND s.state = 'hidden'
  AND NOT EXISTS (SELECT 1 FROM streams AS fork WHERE fork.parent = s.id)`;

const DELETE_WRITES = "DELETE FROM writes WHERE id > (? << 28) AND id <= (? << 28 | 268435455)";

const MAKE_TOMBSTONE = `UPDATE streams SET state = 'gone', seq = 0, base = 0, parent = NULL,
    parent_generation = NULL, created_at = 0, updated_at = 0, updated_about = 0, open_calls = 0,
    expires_at = NULL, status = NULL, title = NULL, goal = NULL, budget = NULL
  WHERE id = ?`;

/** Artifacts that only this stream refers to. One put after its last write is about to be referred to. */
const DELETE_OWN_ARTIFACTS = `DELETE FROM artifacts
  WHERE id IN (SELECT artifact FROM artifact_refs WHERE stream = ?1)
    AND put_at <= (SELECT updated_at FROM streams WHERE id = ?1)
    AND NOT EXISTS (SELECT 1 FROM artifact_refs WHERE artifact = artifacts.id AND stream <> ?1)`;

/**
 * Deletes a hidden stream that no fork shares, then each such ancestor. Returns how many are gone.
 * `erasedIn`: their namespace, if they are erased.
 */
function deleteUnshared(connection: Connection, id: number, erasedIn: string | null): number {
  let count = 0;
  for (let next: number | null = id; next !== null; count++) {
    type Row = { parent: number | null; stream: StoredText };
    const row: Row | undefined = connection.get(HIDDEN_AND_UNSHARED, next);
    if (!row) break;
    connection.run(DELETE_WRITES, next, next);
    if (erasedIn !== null) connection.run(DELETE_OWN_ARTIFACTS, next);
    connection.run("DELETE FROM artifact_refs WHERE stream = ?", next);
    connection.run(DELETE_SNAPSHOTS, next);
    connection.run(MAKE_TOMBSTONE, next);
    if (erasedIn !== null) forget(connection, erasedIn, fromText(row.stream), next);
    next = row.parent;
  }
  return count;
}

const RAISE_GENERATION = `INSERT INTO streams (namespace, stream, kind, state, generation, seq, base,
    created_at, updated_at, updated_about)
  SELECT namespace, ?2, 'erased', 'gone', generation, 0, 0, 0, 0, 0 FROM streams WHERE id = ?1
  ON CONFLICT DO UPDATE SET generation = max(generation, excluded.generation) RETURNING id`;

/** The lease of the stream, and those below it: `goal/a`, `goal/a/T-001`. */
const OWN_LEASES = "namespace = ?1 AND (name = ?2 OR name > ?2 || '/' AND name < ?2 || '0')";

const RAISE_TOKEN = `INSERT INTO leases (namespace, name, token, boot, expires_at, ttl, holder)
  SELECT ?1, ?3, max(token), '', 0, 0, NULL FROM leases WHERE ${OWN_LEASES} HAVING count(*) > 0
  ON CONFLICT DO UPDATE SET token = max(token, excluded.token)`;

/** Leaves nothing with the name of a stream that is gone. False if there was nothing. */
function forget(connection: Connection, namespace: string, name: string, id: number | null): boolean {
  const place = [toText(namespace), toText(name)] as const;
  const hasLeases = connection.count(RAISE_TOKEN, ...place, ERASED) > 0;
  if (hasLeases) connection.run(`DELETE FROM leases WHERE ${OWN_LEASES}`, ...place);
  if (id === null) return hasLeases;
  const erased = connection.get<{ id: number }>(RAISE_GENERATION, id, ERASED);
  connection.run("UPDATE keys SET stream = ? WHERE stream = ?", erased?.id ?? null, id);
  connection.run("DELETE FROM streams WHERE id = ?", id);
  return true;
}
