/** Whether this user may write here at all, asked without writing: opening and looking only need to read. */

import { quoted } from "./address.ts";
import type { Database } from "./database.ts";

/** What appends, leases, artifacts and snapshots need. Who may not delete the rest cannot remove, but can go on. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  INSERT: ["streams", "writes", "items", "leases", "keys", "artifacts", "artifact_refs", "snapshots"],
  UPDATE: ["streams", "items", "leases", "artifacts", "snapshots"],
  DELETE: ["streams", "keys"],
};

interface Standing {
  readonly role: string;
  readonly is_standby: boolean;
  readonly is_read_only: boolean;
}

const STANDING = `SELECT current_user::text AS role, pg_is_in_recovery() AS is_standby,
  current_setting('transaction_read_only') = 'on' AS is_read_only`;

/** Functions of others in the schema are none of ours to call. */
const LACKING = `
  SELECT n.act || ' on ' || string_agg(n.name, ', ' ORDER BY n.name) AS lacking
  FROM unnest($1::text[], $2::text[]) AS n (act, name) WHERE NOT has_table_privilege($3 || '.' || n.name, n.act)
  GROUP BY n.act
  UNION ALL
  SELECT 'EXECUTE on ' || string_agg(p.proname::text, ', ' ORDER BY p.proname)
  FROM pg_catalog.pg_proc AS p
  JOIN pg_catalog.pg_class AS meta ON meta.relnamespace = p.pronamespace AND meta.relowner = p.proowner
  WHERE meta.oid = to_regclass($3 || '.meta') AND NOT has_function_privilege(p.oid, 'EXECUTE')
  HAVING count(*) > 0
  ORDER BY 1`;

export async function unwritable(database: Database): Promise<{ why: string; hint: string } | null> {
  const [standing] = await database.run<Standing>(STANDING);
  if (standing?.is_standby) {
    return { why: "the server is a standby, which takes no writes", hint: "Connect to the primary." };
  }
  if (standing?.is_read_only) {
    return {
      why: "transactions of this user are read only here",
      hint: "Look for default_transaction_read_only: in the address, in PGOPTIONS, at the user (ALTER ROLE … RESET default_transaction_read_only), the database (ALTER DATABASE …) and the server.",
    };
  }
  const { schema } = database;
  const pairs = Object.entries(NEEDED).flatMap(([act, names]) => names.map((name) => [act, name] as const));
  const rows = await database.run<{ lacking: string }>(LACKING, [
    pairs.map(([act]) => act),
    pairs.map(([, name]) => name),
    schema,
  ]);
  if (rows.length === 0) return null;
  const role = standing?.role ?? "";
  return {
    why: `the user ${role} lacks ${rows.map(({ lacking }) => lacking).join("; ")}`,
    hint: `Let the owner of the schema run: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${quoted(role)}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ${schema} TO ${quoted(role)};`,
  };
}
