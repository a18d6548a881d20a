/**
 * Tenants: a database role that sees one namespace, enforced by the server with row-level security.
 *
 * A namespace alone is an option of `open`, and anyone who may read the tables can choose another. Policies
 * are bound to the role, not to a setting, because a tenant with a SQL shell can change its settings.
 *
 *     owner of the tables   sees everything, as before
 *     role of a tenant      sees and changes the rows of its namespaces only
 *     any other role        sees nothing any more, whatever was granted to it
 *
 * Tables come from the catalog: every table of the schema with a column `namespace`. Views run with the
 * rights of the reader; Postgres 14 cannot do that, so there a tenant gets no views. All of it is one
 * transaction and can be repeated.
 */

import { sha256 } from "../../model/digest.ts";
import { HoldfastError } from "../../model/errors.ts";
import { quoted } from "./address.ts";
import type { Database, Query } from "./database.ts";
import { storeError } from "./failures.ts";
import { toText } from "./rows.ts";

/** The first version whose views can check the rights of the reader. */
const SECURITY_INVOKER_VERSION = 150_000;

export interface Tenant {
  /** A role that can log in, owns no table here and is no superuser. */
  readonly role: string;
  readonly namespace: string;
}

export interface TenantRights {
  /** The statements, in order. */
  readonly sql: readonly string[];
  /** Other roles that had rights on the tables. They see no rows any more unless they are tenants too. */
  readonly others: readonly string[];
}

/** Gives the role the rows of one namespace, or with `dryRun` only returns the statements. */
export async function grantTenant(
  database: Database,
  tenant: Tenant,
  { dryRun }: { readonly dryRun: boolean },
): Promise<TenantRights> {
  try {
    return await database.transaction(async (query) => {
      await checkRole(query, database.schema, tenant.role);
      const rights = {
        sql: await statements(query, database.schema, tenant),
        others: await otherRoles(query, database.schema, tenant.role),
      };
      if (!dryRun) for (const each of rights.sql) await query(each);
      return rights;
    });
  } catch (error) {
    throw storeError(database.address, error);
  }
}

/** Policies do not bind superusers, roles with BYPASSRLS, and the owner of the tables or its members. */
const ROLE = `SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, m.relowner, 'MEMBER') AS is_free
  FROM pg_catalog.pg_roles AS r, pg_catalog.pg_class AS m
  WHERE r.rolname = $1 AND m.oid = to_regclass($2 || '.meta')`;

async function checkRole(query: Query, schema: string, role: string): Promise<void> {
  const [found] = await query<{ is_free: boolean }>(ROLE, [role, schema]);
  if (found && !found.is_free) return;
  const why = found
    ? "is a superuser, bypasses row-level security, or owns the tables"
    : "does not exist on this server";
  throw new HoldfastError("INPUT_INVALID", `the role ${role} ${why}`, {
    hint: `Create a role of its own for the tenant: CREATE ROLE ${quoted(role)} LOGIN PASSWORD '…'`,
    data: { role },
  });
}

const TABLES = `SELECT c.relname::text AS name, c.relkind::text AS kind FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_class AS meta ON meta.relnamespace = c.relnamespace AND meta.relowner = c.relowner
  WHERE meta.oid = to_regclass($1 || '.meta') AND c.relkind IN ('r', 'p', 'v')
    AND (c.relkind = 'v' OR EXISTS (SELECT 1 FROM pg_catalog.pg_attribute AS a
      WHERE a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped))
  ORDER BY 2, 1`;

async function statements(query: Query, schema: string, tenant: Tenant): Promise<string[]> {
  const [server] = await query<{ version: number }>(
    "SELECT current_setting('server_version_num')::integer AS version",
  );
  const found = await query<{ name: string; kind: string }>(TABLES, [schema]);
  const named = (isView: boolean) =>
    found.filter(({ kind }) => (kind === "v") === isView).map(({ name }) => `${schema}.${quoted(name)}`);
  const [tables, views] = [named(false), named(true)];
  const role = quoted(tenant.role);
  const hasInvoker = (server?.version ?? 0) >= SECURITY_INVOKER_VERSION;
  return [
    ...tables.map((table) => `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY`),
    ...(hasInvoker ? views.map((view) => `ALTER VIEW ${view} SET (security_invoker = true)`) : []),
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    `GRANT SELECT ON ${schema}.meta TO ${role}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables.join(", ")} TO ${role}`,
    `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ${schema} TO ${role}`,
    hasInvoker
      ? `GRANT SELECT ON ${views.join(", ")} TO ${role}`
      : `REVOKE ALL ON ${views.join(", ")} FROM ${role}`,
    ...tables.flatMap((table) => policy(table, tenant)),
  ];
}

/** One policy per role and namespace: a role with two of them sees the rows of both. */
function policy(table: string, { role, namespace }: Tenant): string[] {
  const name = quoted(`holdfast ${sha256(`${role}\0${namespace}`).slice(0, 24)}`);
  const rows = `namespace = ${literal(toText(namespace))}`;
  return [
    `DROP POLICY IF EXISTS ${name} ON ${table}`,
    `CREATE POLICY ${name} ON ${table} TO ${quoted(role)} USING (${rows}) WITH CHECK (${rows})`,
  ];
}

/** A text constant that means the same with any setting of standard_conforming_strings. */
function literal(text: string): string {
  return `E'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
}

/** Roles with rights on `streams` that neither own it nor are named by a policy. */
const OTHER_ROLES = `SELECT DISTINCT coalesce(r.rolname::text, 'PUBLIC') AS name
  FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS g
  LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = g.grantee
  WHERE c.oid = to_regclass($1 || '.streams') AND g.grantee <> c.relowner
    AND r.rolname IS DISTINCT FROM $2 AND NOT EXISTS (
      SELECT 1 FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid AND g.grantee = ANY (p.polroles))
  ORDER BY 1`;

async function otherRoles(query: Query, schema: string, role: string): Promise<string[]> {
  const rows = await query<{ name: string }>(OTHER_ROLES, [schema, role]);
  return rows.map(({ name }) => name);
}
