/**
 * Runs VACUUM on the store's tables, while others use them. The server then uses the space of removed rows
 * again, and cuts free pages at the end of a table. It does the same by itself after a while (autovacuum).
 */

import { HoldfastError } from "../../model/errors.ts";
import type { Vacuumed } from "../../store.ts";
import { quoted } from "./address.ts";
import type { Database } from "./database.ts";

const TABLES = `SELECT c.relname AS name, pg_catalog.pg_has_role(c.relowner, 'USAGE') AS "isOwn"
  FROM pg_catalog.pg_class AS c
  WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' ORDER BY c.relname`;

const SIZE = `SELECT coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint AS bytes
  FROM pg_catalog.pg_class AS c WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r'`;

/** A large table takes long, and the server says nothing before it is done. */
const VACUUM_MS = 6 * 3_600_000;

export async function vacuum(database: Database): Promise<Vacuumed> {
  const { schema, address } = database;
  const tables = await database.run<{ name: string; isOwn: boolean }>(TABLES, [schema]);
  if (!tables.every(({ isOwn }) => isOwn)) {
    throw new HoldfastError("STORE_READONLY", `${address}: this user does not own the tables`, {
      hint: `The server vacuums them by itself. To do it now, connect as their owner, then try again.`,
      data: { address },
    });
  }
  const sizeOf = async (): Promise<number> => {
    const [row] = await database.run<{ bytes: number }>(SIZE, [schema]);
    return row?.bytes ?? 0;
  };
  const before = await sizeOf();
  for (const { name } of tables) await database.run(`VACUUM ${schema}.${quoted(name)}`, [], VACUUM_MS);
  return { before, after: await sizeOf() };
}
