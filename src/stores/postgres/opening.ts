/**
 * From an address to a schema that can be trusted.
 *
 *     empty ───────────────────────────┐
 *     ours, older ─────────────────────┼──▶ migrate, under a lock ──▶ use
 *     ours, of this version ───────────┴───────────────────────────▶ use
 *     newer, of another program, not durable, not UTF-8 ──▶ refused, nothing written
 *
 * A server that is starting up is waited for. A missing server, or a refused login, is reported at once.
 *
 * The migration at index n brings a schema from version n (in its `meta` table) to n + 1. A released
 * migration never changes. All missing ones run in one transaction under an advisory lock, so a crash leaves
 * the old version or the newest.
 */

import { randomUUID } from "node:crypto";
import { HoldfastError } from "../../model/errors.ts";
import { tooNewError } from "../kit/index.ts";
import { quoted } from "./address.ts";
import { backoff, type Database, type Query } from "./database.ts";
import * as failures from "./failures.ts";
import { OWN_NAMES, schema1 } from "./schema-1.ts";

const MIN_SERVER_VERSION = 140_000;

type OpeningOptions = Readonly<{ schema: string; allowLoss: boolean; mustExist: boolean }>;

/** Returns the id of the store in the schema. */
export async function openSchema(database: Database, options: OpeningOptions): Promise<string> {
  const begun = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      return await openOnce(database, options);
    } catch (error) {
      if (error instanceof HoldfastError) throw error;
      const failure = failures.asFailure(error);
      const isStarting = failure.state !== null && failures.isTransientState(failure.state);
      const isRetryable = isStarting || failures.isCollision(failure) || isRace(failure.state);
      if (!isRetryable || performance.now() - begun > database.limits.busyMs) {
        throw failures.storeError(database.address, failure);
      }
      await backoff(tries);
    }
  }
}

/** Two programs create the same schema at the same moment, one of them without our lock. */
function isRace(state: string | null): boolean {
  return state === "42P06" || state === "23505";
}

async function openOnce(database: Database, options: OpeningOptions): Promise<string> {
  const { address } = database;
  const { schema, allowLoss, mustExist } = options;
  const found = await database.transaction(async (query) => {
    const [server] = await query<Server>(SERVER);
    if (server) checkServer(address, server, allowLoss);
    return readFormat(query, schema);
  });
  if (found && found.version > MIGRATIONS.length) {
    throw tooNewError({ address }, found.version, MIGRATIONS.length);
  }
  if (found?.version === MIGRATIONS.length) return found.store;
  if (!found && mustExist) throw notFound(address);
  const { store } = await migrate(database, schema);
  return store;
}

const READ_COMMITTED = ["read committed", "read uncommitted"];

type Server = Readonly<Record<"version" | "encoding" | "fsync" | "synchronous_commit" | "isolation", string>>;

const SERVER = `SELECT current_setting('server_version_num') AS version,
  current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('default_transaction_isolation') AS isolation`;

function checkServer(address: string, server: Server, allowLoss: boolean): void {
  const { version, encoding, fsync, synchronous_commit: commit, isolation } = server;
  if (Number(version) < MIN_SERVER_VERSION) {
    throw new HoldfastError("STORE_FOREIGN", `${address}: this server is too old`, {
      hint: "Use Postgres 14 or later.",
      data: { address, version },
    });
  }
  if (encoding !== "UTF8") {
    throw new HoldfastError("STORE_FOREIGN", `${address}: this database stores text as ${encoding}`, {
      hint: "Create a database with ENCODING 'UTF8' for Holdfast. Nothing was changed.",
      data: { address, encoding },
    });
  }
  if (!allowLoss && (fsync === "off" || commit === "off")) throw failures.notDurable(address);
  if (!READ_COMMITTED.includes(isolation)) throw failures.wrongIsolation(address, isolation);
}

function notFound(address: string): HoldfastError {
  return new HoldfastError("STORE_NOT_FOUND", `${address}: there is no store`, {
    hint: "Check the address and its schema. To create a store: holdfast init, or open without `mustExist`.",
    data: { address },
  });
}

/** SQL for the schema with this quoted name. */
export type Migration = (schema: string) => string;

export const MIGRATIONS: readonly Migration[] = [schema1];

/** `store`: the id of the store. */
type Format = Readonly<{ version: number; store: string }>;

const HAS_META = `SELECT count(*) = 2 AS found FROM pg_catalog.pg_attribute
  WHERE attrelid = to_regclass($1) AND attname IN ('name', 'value') AND NOT attisdropped`;

/** Null if the schema holds no store. */
async function readFormat(query: Query, schema: string): Promise<Format | null> {
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

/** Brings the schema up to date. If another process does the same, the second finds it done. */
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

/** Looks for the schema first: CREATE SCHEMA IF NOT EXISTS needs a right that many users do not have. */
async function prepareSchema(query: Query, address: string, schema: string): Promise<void> {
  const [exists] = await query("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", [schema]);
  if (!exists) await query(`CREATE SCHEMA ${quoted(schema)}`);
  const foreign = await query<{ relname: string }>(
    `SELECT c.relname::text FROM pg_catalog.pg_class AS c
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
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

/** Rights that appends, leases, artifacts and snapshots need. Removal needs more. */
const REQUIRED_RIGHTS: Readonly<Record<string, readonly string[]>> = {
  INSERT: ["streams", "writes", "items", "leases", "keys", "artifacts", "artifact_refs", "snapshots"],
  UPDATE: ["streams", "items", "leases", "artifacts", "snapshots"],
  DELETE: ["streams", "keys"],
};

const ROLE = `SELECT current_user::text AS name, pg_is_in_recovery() AS is_standby,
  current_setting('transaction_read_only') = 'on' AS is_read_only`;

/** Only functions of the owner of `meta`: others may have functions in the schema too. */
const MISSING_RIGHTS = `
  SELECT n.act || ' on ' || string_agg(n.name, ', ' ORDER BY n.name) AS missing
  FROM unnest($1::text[], $2::text[]) AS n (act, name)
    WHERE NOT has_table_privilege($3 || '.' || n.name, n.act)
  GROUP BY n.act
  UNION ALL
  SELECT 'EXECUTE on ' || string_agg(p.proname::text, ', ' ORDER BY p.proname)
  FROM pg_catalog.pg_proc AS p
  JOIN pg_catalog.pg_class AS meta ON meta.relnamespace = p.pronamespace AND meta.relowner = p.proowner
  WHERE meta.oid = to_regclass($3 || '.meta') AND NOT has_function_privilege(p.oid, 'EXECUTE')
  HAVING count(*) > 0
  ORDER BY 1`;

/** Why this user cannot write here, found without writing; null if it can. */
export async function unwritable(database: Database): Promise<{ why: string; hint: string } | null> {
  const [role] = await database.run<{ name: string; is_standby: boolean; is_read_only: boolean }>(ROLE);
  if (role?.is_standby) {
    return { why: "the server is a standby, which takes no writes", hint: "Connect to the primary." };
  }
  if (role?.is_read_only) {
    return {
      why: "transactions of this user are read only here",
      hint:
        "Look for default_transaction_read_only: in the address, in PGOPTIONS, at the user " +
        "(ALTER ROLE … RESET default_transaction_read_only), the database (ALTER DATABASE …) and the server.",
    };
  }
  const { schema } = database;
  const pairs = Object.entries(REQUIRED_RIGHTS).flatMap(([act, names]) =>
    names.map((name) => [act, name] as const),
  );
  const rows = await database.run<{ missing: string }>(MISSING_RIGHTS, [
    pairs.map(([act]) => act),
    pairs.map(([, name]) => name),
    schema,
  ]);
  if (rows.length === 0) return null;
  const name = role?.name ?? "";
  return {
    why: `the user ${name} lacks ${rows.map(({ missing }) => missing).join("; ")}`,
    hint:
      "Let the owner of the schema run: " +
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${quoted(name)}; ` +
      `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ${schema} TO ${quoted(name)};`,
  };
}
