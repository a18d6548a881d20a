/**
 * Rows of another store put into this schema as they are, over those that are there, a page to a transaction. A copy
 * that was broken off can therefore be run again from its beginning: what has come already is written once more, and
 * nothing comes twice. The seal is read inside the transaction, which keeps anybody from changing it meanwhile.
 *
 * Rows of one kind travel as one array per column, so that a page is a few statements however many rows it has.
 */

import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import type { MovedRow } from "../../store.ts";
import type { Database, Query, Value } from "./database.ts";
import { asFailure, isCollision, isPassing, storeError } from "./failures.ts";
import { sealNow } from "./seal.ts";
import { toPayload, toText, toTextOrNull } from "./text.ts";

type Row<Of extends MovedRow["of"]> = Extract<MovedRow, { of: Of }>;
type Cell = string | number | boolean | null;

const TRIES = 3;

/** The same page may be put any number of times, so a lost connection is no more than a reason to put it again. */
export async function restore(database: Database, move: string, rows: readonly MovedRow[]): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await database.transaction((query) => putPage(database, query, move, rows));
    } catch (error) {
      if (error instanceof HoldfastError) throw error;
      const failure = asFailure(error);
      const isWorthIt = isPassing(failure) || isCollision(failure);
      if (!isWorthIt || tries >= TRIES) throw storeError(database.address, failure, failure.fate === "lost");
    }
  }
}

async function putPage(
  { schema, address }: Database,
  query: Query,
  move: string,
  rows: readonly MovedRow[],
): Promise<void> {
  const seal = await sealNow(query, schema);
  if (seal?.phase !== "entering" || seal.move !== move) {
    throw new HoldfastError("STREAM_BUSY", `${address}: another copy fills this store`, {
      hint: "Let that copy finish, or run this one again into a store of its own.",
      data: { address },
    });
  }
  const of = <Of extends MovedRow["of"]>(kind: Of): Row<Of>[] =>
    rows.filter((row): row is Row<Of> => row.of === kind);
  await putLeases(query, schema, of("lease"));
  for (const row of of("artifact")) await putArtifact(query, schema, row);
  await putStreams(query, schema, of("stream"));
  await putWrites(query, schema, of("write"));
  await putItems(query, schema, of("item"));
  await putKeys(query, schema, of("key"));
}

/** One statement: `columns` names each column with its type and how a row fills it; the first `keys` are its key. */
async function putRows<Each>(
  query: Query,
  table: string,
  rows: readonly Each[],
  keys: number,
  columns: Readonly<Record<string, readonly [type: string, cell: (row: Each) => Cell]>>,
): Promise<void> {
  if (rows.length === 0) return;
  const names = Object.keys(columns);
  const types = Object.values(columns).map(([type], index) => `$${index + 1}::${type}[]`);
  const values: Value[] = Object.values(columns).map(([, cell]) => rows.map(cell));
  const rest = names.slice(keys);
  const changes = rest.map((name) => `${name} = excluded.${name}`).join(", ");
  await query(
    `INSERT INTO ${table} (${names.join(", ")}) SELECT * FROM unnest(${types.join(", ")})
     ON CONFLICT (${names.slice(0, keys).join(", ")}) DO ${rest.length > 0 ? `UPDATE SET ${changes}` : "NOTHING"}`,
    values,
  );
}

/** Long run out: nobody who held it survives the move, and whoever it was can still be named. */
function putLeases(query: Query, schema: string, rows: readonly Row<"lease">[]): Promise<void> {
  return putRows(query, `${schema}.leases`, rows, 2, {
    namespace: ["text", ({ namespace }) => toText(namespace)],
    name: ["text", ({ name }) => toText(name)],
    token: ["bigint", ({ token }) => token],
    expires_at: ["bigint", () => 0],
    ttl: ["bigint", ({ ttlMs }) => Math.round(ttlMs)],
    owner: ["text", ({ holder }) => holder && toText(holder.owner)],
    holder: ["text", ({ holder }) => holder && JSON.stringify(holder)],
  });
}

async function putArtifact(query: Query, schema: string, row: Row<"artifact">): Promise<void> {
  await query(
    `INSERT INTO ${schema}.artifacts (namespace, hash, put_at, bytes) VALUES ($1, $2, $3, $4)
     ON CONFLICT (namespace, hash) DO UPDATE SET put_at = excluded.put_at, bytes = excluded.bytes`,
    [toText(row.namespace), toText(row.hash), row.putAt, Buffer.from(row.bytes)],
  );
}

async function putStreams(query: Query, schema: string, rows: readonly Row<"stream">[]): Promise<void> {
  await putRows(query, `${schema}.streams`, rows, 2, {
    namespace: ["text", ({ namespace }) => toText(namespace)],
    stream: ["text", ({ stream }) => toText(stream)],
    kind: ["text", ({ stream }) => toText(streamKind(stream))],
    state: ["text", ({ state }) => state],
    // The port speaks of the next life of a stream that is gone, the row of its last.
    generation: ["integer", ({ state, head }) => (state === "gone" ? head.generation - 1 : head.generation)],
    seq: ["integer", ({ head }) => head.seq],
    base: ["integer", ({ base }) => base],
    parent: ["text", ({ parent }) => parent && toText(parent.stream)],
    parent_generation: ["integer", ({ parent }) => parent?.generation ?? null],
    created_at: ["bigint", ({ createdAt }) => createdAt],
    updated_at: ["bigint", ({ updatedAt }) => updatedAt],
    updated_second: ["bigint", ({ updatedAt }) => Math.trunc(updatedAt / 1000)],
    open_calls: ["integer", ({ facets }) => facets.openCalls],
    is_marked_open: ["boolean", ({ facets }) => facets.openCalls > 0],
    expires_at: ["bigint", ({ facets }) => facets.expiresAt],
    status: ["text", ({ facets }) => toTextOrNull(facets.status)],
    title: ["text", ({ facets }) => toTextOrNull(facets.title)],
    goal: ["text", ({ facets }) => toTextOrNull(facets.goal)],
    budget: ["text", ({ facets }) => toTextOrNull(facets.budget)],
  });
  const references = rows.flatMap(({ namespace, stream, artifacts }) =>
    artifacts.map((hash) => ({ namespace, stream, hash })),
  );
  await putRows(query, `${schema}.artifact_refs`, references, 3, {
    namespace: ["text", ({ namespace }) => toText(namespace)],
    hash: ["text", ({ hash }) => toText(hash)],
    stream: ["text", ({ stream }) => toText(stream)],
  });
}

function putWrites(query: Query, schema: string, rows: readonly Row<"write">[]): Promise<void> {
  return putRows(query, `${schema}.writes`, rows, 3, {
    namespace: ["text", ({ namespace }) => toText(namespace)],
    stream: ["text", ({ stream }) => toText(stream)],
    last: ["integer", ({ last }) => last],
    first: ["integer", ({ first }) => first],
    at: ["bigint", ({ at }) => at],
    sum: ["bigint", ({ sum }) => sum],
    batch: ["text", ({ batch }) => toText(batch)],
    codec: ["text", ({ codec }) => toTextOrNull(codec)],
    payload: ["text", ({ payload }) => toPayload(payload).payload],
    bytes: ["bytea", ({ payload }) => hex(toPayload(payload).bytes)],
  });
}

function hex(bytes: Buffer | null): string | null {
  return bytes && `\\x${bytes.toString("hex")}`;
}

function putItems(query: Query, schema: string, rows: readonly Row<"item">[]): Promise<void> {
  return putRows(query, `${schema}.items`, rows, 4, {
    namespace: ["text", ({ namespace }) => toText(namespace)],
    stream: ["text", ({ stream }) => toText(stream)],
    kind: ["text", ({ kind }) => toText(kind)],
    id: ["text", ({ id }) => toText(id)],
    seq: ["integer", ({ seq }) => seq],
    end_seq: ["integer", ({ endSeq }) => endSeq],
    status: ["text", ({ status }) => toTextOrNull(status)],
    name: ["text", ({ name }) => toTextOrNull(name)],
    key: ["text", ({ key }) => toTextOrNull(key)],
    at: ["bigint", ({ at }) => at],
    done_at: ["bigint", ({ doneAt }) => doneAt],
  });
}

function putKeys(query: Query, schema: string, rows: readonly Row<"key">[]): Promise<void> {
  return putRows(query, `${schema}.keys`, rows, 2, {
    namespace: ["text", ({ namespace }) => toText(namespace)],
    key: ["text", ({ key }) => toText(key)],
    stream: ["text", ({ stream }) => toText(stream)],
    seq: ["integer", ({ seq }) => seq],
  });
}
