/**
 * Removing streams, artifacts and snapshots.
 *
 *     live ──remove──▶ gone, or hidden while a fork shares its events ──last fork gone──▶ gone
 *
 * Items and snapshots go at once; events and their artifacts stay as long as a fork needs them. Claimed keys
 * stay for ever: "once, ever" outlives the record. The row stays as a tombstone with its generation, so that
 * no later life is mistaken for this one. All of it is one transaction.
 */

import type { RemoveOutcome, RemoveRequest } from "../../store.ts";
import { headOf } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import { checkGuards } from "./leases.ts";
import { bumpMark } from "./opening.ts";
import { type ActResult, DELETE_SNAPSHOTS, findStream, type Transaction, toText } from "./rows.ts";

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
  const head = headOf(stream);
  if (head.generation !== expect.generation || head.seq !== expect.seq) {
    return { result: { outcome: "conflict", head }, wrote: false };
  }
  if (!stream || stream.state === "gone") return removed(0);
  // It may also delete ancestors, which the request does not name.
  cache.clear();
  bumpMark(transaction);
  connection.run("DELETE FROM items WHERE stream = ?", stream.id);
  connection.run(DELETE_SNAPSHOTS, stream.id);
  connection.run("UPDATE streams SET state = 'hidden' WHERE id = ?", stream.id);
  const count = deleteUnshared(connection, stream.id, erase === true);
  return count === 0 ? { result: { outcome: "hidden" }, wrote: true } : removed(count);
}

const HIDDEN_AND_UNSHARED = `SELECT parent FROM streams AS s WHERE s.id = ? AND s.state = 'hidden'
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

/** Deletes a hidden stream that no fork shares, then each such ancestor. Returns how many are gone. */
function deleteUnshared(connection: Connection, id: number, erase: boolean): number {
  let count = 0;
  for (let next: number | null = id; next !== null; count++) {
    const row: { parent: number | null } | undefined = connection.get(HIDDEN_AND_UNSHARED, next);
    if (!row) break;
    connection.run(DELETE_WRITES, next, next);
    if (erase) connection.run(DELETE_OWN_ARTIFACTS, next);
    connection.run("DELETE FROM artifact_refs WHERE stream = ?", next);
    connection.run(DELETE_SNAPSHOTS, next);
    connection.run(MAKE_TOMBSTONE, next);
    next = row.parent;
  }
  return count;
}
