/**
 * Removal of streams, artifacts and snapshots.
 *
 *     live ──remove──▶ gone, or hidden while a fork shares its events ──last fork gone──▶ gone
 *
 * A stream is removed in one transaction. Artifacts are removed in batches, each a transaction of its own, so
 * that no append waits long; a crash between two leaves garbage for the next time. Postgres keeps deleted
 * rows until VACUUM, which `erase` runs before it answers.
 */

import type { RemoveOutcome, RemoveRequest } from "../../store.ts";
import type { Database, WriteContext } from "./database.ts";
import { storeError } from "./failures.ts";
import { fencedOutcome, type StoredFence } from "./leases.ts";
import { toText } from "./rows.ts";

const ARTIFACTS_PER_BATCH = 200;
const VACUUM_MS = 3_600_000;

export function remove(
  database: Database,
  context: WriteContext,
  request: RemoveRequest,
): Promise<RemoveOutcome> {
  if (request.of === "stream") return removeStream(database, context, request);
  if (request.of === "artifacts") return collect(database, context, request);
  return removeSnapshots(database, request);
}

type StoredRemoval =
  | { readonly outcome: "removed"; readonly count: number }
  | { readonly outcome: "hidden" }
  | { readonly outcome: "conflict"; readonly generation: number; readonly seq: number }
  | StoredFence;

async function removeStream(
  database: Database,
  context: WriteContext,
  { namespace, stream, expect, guards = [], erase }: Extract<RemoveRequest, { of: "stream" }>,
): Promise<RemoveOutcome> {
  const { schema } = database;
  const guardList = JSON.stringify(guards.map(({ lease, token }) => ({ lease: toText(lease), token })));
  const target = [
    toText(namespace),
    toText(stream),
    expect.generation,
    expect.seq,
    guardList,
    erase === true,
  ];
  const { row, mayBeRepeat } = await database.change<{ removal: string }>(
    `SELECT ${schema}.remove_stream($1, $2, $3, $4, $5, $6, $7, $8, $9) AS removal`,
    [...database.writeArguments(context), ...target],
  );
  const removal = JSON.parse(row.removal) as StoredRemoval;
  const outcome = outcomeOf(removal, mayBeRepeat && expect.generation, erase === true);
  if (erase && outcome.outcome === "removed") await vacuum(database);
  return outcome;
}

/**
 * `repeated`: an earlier try may have removed this generation. Then the next generation is the head; after an
 * erase it may be a later one, and the lease is gone, too.
 */
function outcomeOf(removal: StoredRemoval, repeated: number | false, isErase: boolean): RemoveOutcome {
  if (removal.outcome === "fenced") {
    const isDone = repeated !== false && isErase && removal.now === null;
    return isDone ? { outcome: "removed", count: 1 } : fencedOutcome(removal);
  }
  if (removal.outcome !== "conflict") return removal;
  const { generation, seq } = removal;
  const isNext = repeated !== false && (isErase ? generation > repeated : generation === repeated + 1);
  const isDone = isNext && seq === 0;
  return isDone ? { outcome: "removed", count: 1 } : { outcome: "conflict", head: { generation, seq } };
}

async function vacuum(database: Database): Promise<void> {
  const { schema, address } = database;
  try {
    const tables = [
      "writes",
      "snapshots",
      "items",
      "artifacts",
      "artifact_refs",
      "streams",
      "leases",
      "keys",
    ];
    const names = tables.map((table) => `${schema}.${table}`).join(", ");
    await database.attempt(`VACUUM ${names}`, [], VACUUM_MS);
  } catch (error) {
    throw storeError(address, error, true);
  }
}

async function collect(
  database: Database,
  context: WriteContext,
  { namespace, putBefore }: Extract<RemoveRequest, { of: "artifacts" }>,
): Promise<RemoveOutcome> {
  let count = 0;
  for (let after: string | null = ""; after !== null; ) {
    const [batch]: { deleted: number; last: string | null }[] = await database.run(
      `SELECT deleted, last FROM ${database.schema}.collect_artifacts($1, $2, $3, $4, $5, $6, $7)`,
      [...database.writeArguments(context), toText(namespace), putBefore, after, ARTIFACTS_PER_BATCH],
    );
    count += batch?.deleted ?? 0;
    after = batch?.last ?? null;
  }
  return { outcome: "removed", count };
}

async function removeSnapshots(
  database: Database,
  { namespace, stream }: Extract<RemoveRequest, { of: "snapshots" }>,
): Promise<RemoveOutcome> {
  const [row] = await database.run<{ count: number }>(
    `WITH deleted AS (DELETE FROM ${database.schema}.snapshots WHERE namespace = $1 AND stream = $2
      RETURNING 1)
     SELECT count(*) AS count FROM deleted`,
    [toText(namespace), toText(stream)],
  );
  return { outcome: "removed", count: row?.count ?? 0 };
}
