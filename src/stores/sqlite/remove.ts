/**
 * Taking things out.
 *
 *     live ──remove──▶ gone, or hidden while a fork shares its events ──last fork gone──▶ gone
 *
 * What shows (items, snapshots) goes at once; events and the artifacts they refer to stay as long as a fork needs
 * them. Claimed keys stay for ever: "once, ever" outlives the record of it. The row of a stream that is gone stays and
 * keeps its generation, so that no later life can be mistaken for this one. All of it is one transaction.
 */

import type { RemoveOutcome, RemoveRequest } from "../../store.ts";
import { type Clock, headOf } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import { checkGuards } from "./leases.ts";
import { DELETE_SNAPSHOTS, findStream } from "./streams.ts";
import { toText } from "./text.ts";
import type { Done, Transaction } from "./transaction.ts";

export function remove(transaction: Transaction, clock: Clock, request: RemoveRequest): Done<RemoveOutcome> {
  const { connection } = transaction;
  switch (request.of) {
    case "stream":
      return removeStream(transaction, clock, request);
    case "artifacts":
      return removed(connection.count(COLLECT, toText(request.namespace), request.putBefore));
    case "snapshots": {
      const key = findStream(connection, toText(request.namespace), toText(request.stream));
      return removed(key ? connection.count(DELETE_SNAPSHOTS, key.id) : 0);
    }
  }
}

const COLLECT = `DELETE FROM artifacts WHERE namespace = ? AND put_at < ?
  AND NOT EXISTS (SELECT 1 FROM artifact_refs WHERE artifact = artifacts.id)`;

function removed(count: number): Done<RemoveOutcome> {
  return { result: { outcome: "removed", count }, wrote: count > 0 };
}

function removeStream(
  transaction: Transaction,
  clock: Clock,
  { namespace, stream, expect, guards }: Extract<RemoveRequest, { of: "stream" }>,
): Done<RemoveOutcome> {
  const { connection, cache } = transaction;
  const held = checkGuards(transaction, clock, namespace, guards ?? []);
  if (!Array.isArray(held)) return { result: held, wrote: false };
  const key = findStream(connection, toText(namespace), toText(stream));
  const head = headOf(key);
  if (head.generation !== expect.generation || head.seq !== expect.seq) {
    return { result: { outcome: "conflict", head }, wrote: false };
  }
  if (!key || key.state === "gone") return removed(0);
  // It may bury streams that the request does not name, and is rare.
  cache.clear();
  hide(connection, key.id);
  const count = bury(connection, key.id);
  return count === 0 ? { result: { outcome: "hidden" }, wrote: true } : removed(count);
}

function hide(connection: Connection, id: number): void {
  connection.run("DELETE FROM items WHERE stream = ?", id);
  connection.run(DELETE_SNAPSHOTS, id);
  connection.run("UPDATE streams SET state = 'hidden' WHERE id = ?", id);
}

const HIDDEN_AND_UNSHARED = `SELECT parent FROM streams AS s WHERE s.id = ? AND s.state = 'hidden'
  AND NOT EXISTS (SELECT 1 FROM streams AS fork WHERE fork.parent = s.id)`;

const DELETE_WRITES = "DELETE FROM writes WHERE id > (? << 28) AND id <= (? << 28 | 268435455)";

const ENTOMB = `UPDATE streams SET state = 'gone', seq = 0, base = 0, parent = NULL, parent_generation = NULL,
    created_at = 0, updated_at = 0, updated_about = 0, open_calls = 0, expires_at = NULL,
    status = NULL, title = NULL, goal = NULL, budget = NULL
  WHERE id = ?`;

/** Also buries each hidden ancestor that nobody shares any more. Returns how many streams are gone. */
function bury(connection: Connection, id: number): number {
  let count = 0;
  for (let next: number | null = id; next !== null; count++) {
    const row: { parent: number | null } | undefined = connection.get(HIDDEN_AND_UNSHARED, next);
    if (!row) break;
    connection.run(DELETE_WRITES, next, next);
    connection.run("DELETE FROM artifact_refs WHERE stream = ?", next);
    connection.run(DELETE_SNAPSHOTS, next);
    connection.run(ENTOMB, next);
    next = row.parent;
  }
  return count;
}
