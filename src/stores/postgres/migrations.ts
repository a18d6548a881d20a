/**
 * Schema versions. A schema's version is in its `meta` table; the migration at index n brings it from version n to
 * n + 1. A released migration never changes: what is new gets a new one. All that a schema lacks run in one transaction
 * under one advisory lock of that transaction, so that of ten processes that start at once one does it and the others
 * find it done, and a crash leaves the old version or the newest, nothing between.
 */

import { randomUUID } from "node:crypto";
import { HoldfastError } from "../../model/errors.ts";
import { quoted } from "./address.ts";
import type { Database, Query } from "./database.ts";
import { OWN_NAMES, schema1 } from "./schema-1.ts";

/** SQL for a schema whose quoted name is given. */
export type Migration = (schema: string) => string;

export const MIGRATIONS: readonly Migration[] = [schema1];

/** Which version and store the schema holds; null where there is none. */
export interface Format {
  readonly version: number;
  readonly store: string;
}

const HAS_META = `SELECT count(*) = 2 AS found FROM pg_catalog.pg_attribute
  WHERE attrelid = to_regclass($1) AND attname IN ('name', 'value') AND NOT attisdropped`;

export async function readFormat(query: Query, schema: string): Promise<Format | null> {
  const table = `${quoted(schema)}.meta`;
  const [has] = await query<{ found: boolean }>(HAS_META, [table]);
  if (!has?.found) return null;
  const rows = await query<{ name: string; value: string }>(
    `SELECT name::text, value::text FROM ${table} WHERE name::text IN ('format', 'store')`,
  );
  const value = (name: string) => rows.find((row) => row.name === name)?.value;
  const [version, store] = [value("format"), value("store")];
  return version === undefined || store === undefined ? null : { version: Number(version), store };
}

/** Brings the schema up to date. Another process may do the same at this moment: whoever comes second finds it done. */
export function migrate(
  database: Database,
  schema: string,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<Format> {
  const name = quoted(schema);
  return database.transaction(async (query) => {
    await query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`holdfast ${schema}`]);
    const found = await readFormat(query, schema);
    if (found && found.version >= migrations.length) return found;
    if (!found) await prepareSchema(query, database.address, schema);
    for (const migration of migrations.slice(found?.version ?? 0)) await query(migration(name));
    const store = found?.store ?? randomUUID();
    await query(
      `INSERT INTO ${name}.meta (name, value) VALUES ('format', $1), ('store', $2)
       ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
      [String(migrations.length), store],
    );
    return { version: migrations.length, store };
  });
}

/** Asking for a schema that is there already needs a right that many users do not have, so it is looked for first. */
async function prepareSchema(query: Query, address: string, schema: string): Promise<void> {
  const [there] = await query("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", [schema]);
  if (!there) await query(`CREATE SCHEMA ${quoted(schema)}`);
  const foreign = await query<{ relname: string }>(
    `SELECT c.relname::text FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relname = ANY ($2) ORDER BY 1`,
    [schema, OWN_NAMES],
  );
  if (foreign.length === 0) return;
  const names = foreign.map(({ relname }) => relname).join(", ");
  throw new HoldfastError("STORE_FOREIGN", `${address} holds tables of another program: ${names}`, {
    hint: "Choose another schema with `?schema=name` or the `schema` option. Nothing was changed.",
    data: { address, schema },
  });
}
