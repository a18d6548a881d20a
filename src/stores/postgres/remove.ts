/**
 * Taking things out.
 *
 *     live ──remove──▶ gone, or hidden while a fork shares its events ──last fork gone──▶ gone
 *
 * A stream goes in one transaction, whole (`remove_stream` in the schema). Artifacts go in batches, each a transaction
 * of its own, so that no append waits long for one of them; a crash between two leaves garbage for the next time.
 *
 * Postgres keeps deleted rows until it vacuums. `erase` does that before it answers; what was archived, replicated or
 * backed up before is beyond its reach.
 */

import type { RemoveOutcome, RemoveRequest } from "../../store.ts";
import type { Database, Entry } from "./database.ts";
import { storeError } from "./failures.ts";
import { fencedOutcome, type StoredFence } from "./leases.ts";
import { toText } from "./text.ts";

const ARTIFACTS_AT_ONCE = 200;
const VACUUM_MS = 3_600_000;

export function remove(database: Database, entry: Entry, request: RemoveRequest): Promise<RemoveOutcome> {
  switch (request.of) {
    case "stream":
      return removeStream(database, entry, request);
    case "artifacts":
      return collect(database, entry, request);
    case "snapshots":
      return removeSnapshots(database, request);
  }
}

type StoredRemoval =
  | { readonly outcome: "removed"; readonly count: number }
  | { readonly outcome: "hidden" }
  | { readonly outcome: "conflict"; readonly generation: number; readonly seq: number }
  | StoredFence;

async function removeStream(
  database: Database,
  entry: Entry,
  { namespace, stream, expect, guards = [], erase }: Extract<RemoveRequest, { of: "stream" }>,
): Promise<RemoveOutcome> {
  const { schema } = database;
  const held = JSON.stringify(guards.map(({ lease, token }) => ({ lease: toText(lease), token })));
  const place = [toText(namespace), toText(stream), expect.generation, expect.seq, held];
  const { row, wasLost } = await database.change<{ removal: string }>(
    `SELECT ${schema}.remove_stream($1, $2, $3, $4, $5, $6, $7, $8) AS removal`,
    [...database.entry(entry), ...place],
  );
  const removal = JSON.parse(row.removal) as StoredRemoval;
  const outcome = outcomeOf(removal, wasLost && expect.generation);
  if (erase && outcome.outcome === "removed") await vacuum(database);
  return outcome;
}

/** `lost`: an earlier try, at this generation, may have done it already. The next generation is what that leaves. */
function outcomeOf(removal: StoredRemoval, lost: number | false): RemoveOutcome {
  switch (removal.outcome) {
    case "conflict": {
      const { generation, seq } = removal;
      if (lost !== false && generation === lost + 1 && seq === 0) return { outcome: "removed", count: 1 };
      return { outcome: "conflict", head: { generation, seq } };
    }
    case "fenced":
      return fencedOutcome(removal);
    default:
      return removal;
  }
}

async function vacuum(database: Database): Promise<void> {
  const { schema, address } = database;
  try {
    await database.attempt(`VACUUM ${schema}.writes, ${schema}.snapshots, ${schema}.items`, [], VACUUM_MS);
  } catch (error) {
    throw storeError(address, error, true);
  }
}

async function collect(
  database: Database,
  entry: Entry,
  { namespace, putBefore }: Extract<RemoveRequest, { of: "artifacts" }>,
): Promise<RemoveOutcome> {
  let count = 0;
  for (let after: string | null = ""; after !== null; ) {
    const [batch]: { deleted: number; last: string | null }[] = await database.run(
      `SELECT deleted, last FROM ${database.schema}.collect_artifacts($1, $2, $3, $4, $5, $6, $7)`,
      [...database.entry(entry), toText(namespace), putBefore, after, ARTIFACTS_AT_ONCE],
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
    `WITH deleted AS (DELETE FROM ${database.schema}.snapshots WHERE namespace = $1 AND stream = $2 RETURNING 1)
     SELECT count(*) AS count FROM deleted`,
    [toText(namespace), toText(stream)],
  );
  return { outcome: "removed", count: row?.count ?? 0 };
}
