/** Addresses of Postgres servers: as settings for `pg`, and as text for messages, without the password. */

import type { PoolConfig } from "pg";
import { HoldfastError } from "../../model/errors.ts";
import { didYouMean } from "../../model/options.ts";

const DEFAULT_SCHEMA = "holdfast";
const MAX_IDENTIFIER_BYTES = 63;

/** Parameters that `pg` reads from the query of a URL. It reads the database from the path only. */
const READ_BY_PG = [
  ...["host", "port", "user", "password", "options", "client_encoding"],
  ...["application_name", "fallback_application_name"],
  ...["statement_timeout", "query_timeout", "lock_timeout", "idle_in_transaction_session_timeout"],
  ...["ssl", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat"],
];
/** Parameters that other drivers use and that do not change which database is meant. */
const IGNORED = [
  ...["channel_binding", "gssencmode", "target_session_attrs", "connect_timeout", "encoding", "binary"],
  ...["keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"],
  ...["pgbouncer", "connection_limit", "pool_timeout", "statement_cache_size", "supa"],
  ...["sslsni", "sslcertmode", "tcp_user_timeout"],
];
const KNOWN = ["schema", ...READ_BY_PG, ...IGNORED];

/**
 * Parses a URL as `pg` does, and `?schema=name`. Unknown parameters are refused: if `?shcema=name` were
 * ignored, another store would open.
 */
export function parseUrl(url: string, schema: string | undefined): { settings: PoolConfig; schema: string } {
  let parsed: URL;
  try {
    // Unlike the class `URL`, Postgres allows a URL without a host: `?host=/run/postgresql`.
    parsed = new URL(url.replace(/^(postgres(?:ql)?:\/\/[^/?#]*@?)(?=[/?#]|$)/i, withHost));
  } catch {
    throw invalid("the address is not a URL");
  }
  if (!/^postgres(ql)?:$/.test(parsed.protocol)) throw invalid("the address does not begin with postgres://");
  checkParameters(parsed);
  const named = parsed.searchParams.get("schema");
  const own = url.replace(/([?&])schema=[^&#]*(&|(?=#|$))/, keepSeparator);
  const settings = { connectionString: withTls(own, parsed.searchParams) };
  return { settings, schema: checkSchema(schema ?? named ?? DEFAULT_SCHEMA) };
}

function checkParameters({ search, hash, searchParams }: URL): void {
  const unknown = [...searchParams.keys()].find((name) => !KNOWN.includes(name));
  if (unknown === undefined) return;
  // A password with an unescaped question mark ends up here. It must not be shown.
  if (`${search}${hash}`.includes("@"))
    throw invalid("there are no valid parameters after the question mark");
  const isDatabase = unknown === "dbname" || unknown === "database";
  throw new HoldfastError("INPUT_INVALID", `the address has an unknown parameter: ${unknown}`, {
    hint: isDatabase
      ? "The database comes after the host: postgres://user:password@host:5432/database."
      : `${didYouMean(unknown, KNOWN)}Known parameters: ${KNOWN.join(", ")}.`,
    data: { parameter: unknown, known: KNOWN },
  });
}

/** TLS modes of psql. Here each of them also verifies the server; only `no-verify` does not. */
const VERIFIED = ["prefer", "require", "verify-ca", "verify-full"];

/**
 * Adds the TLS settings of the PG* variables, and replaces the mode by `verify-full`. Today's `pg` treats
 * all these modes as `verify-full` and warns that a later version will not.
 */
function withTls(url: string, asked: URLSearchParams): string {
  if (asked.has("uselibpqcompat") || asked.has("ssl")) return url;
  const mode = asked.get("sslmode") ?? process.env["PGSSLMODE"];
  if (mode === undefined || !VERIFIED.includes(mode)) return url;
  const root = asked.get("sslrootcert") ?? process.env["PGSSLROOTCERT"];
  const bare = url.replace(/([?&])(?:sslmode|sslrootcert)=[^&#]*(?=[&#]|$)/g, "$1");
  const certificate = root && root !== "system" ? `&sslrootcert=${encodeURIComponent(root)}` : "";
  const added = `sslmode=verify-full${certificate}`;
  return `${bare}${bare.includes("?") ? "&" : "?"}${added}`;
}

/** Whether the address or PGSSLMODE asks for a connection without TLS. */
export function disablesTls(url: string): boolean {
  const asked = new URLSearchParams(/\?([^#]*)/.exec(url)?.[1] ?? "");
  const ssl = asked.get("ssl");
  if (ssl !== null) return ssl === "false" || ssl === "0";
  return (asked.get("sslmode") ?? process.env["PGSSLMODE"]) === "disable";
}

/** A Unix socket or a loopback address. Other names may lead anywhere. */
export function isOnThisMachine(host: string): boolean {
  return host.startsWith("/") || /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);
}

function withHost(authority: string): string {
  return /(\/\/|@)$/.test(authority) ? `${authority}localhost` : authority;
}

function keepSeparator(_: string, before: string, after: string): string {
  return after === "&" ? before : "";
}

export function checkSchema(schema: string | undefined): string {
  const name = schema ?? DEFAULT_SCHEMA;
  const isFine =
    name.length > 0 &&
    Buffer.byteLength(name) <= MAX_IDENTIFIER_BYTES &&
    name.isWellFormed() &&
    !name.includes("\0") &&
    !name.startsWith("pg_");
  if (isFine) return name;
  throw new HoldfastError("INPUT_INVALID", `${JSON.stringify(name)} cannot be the name of a schema`, {
    hint: `Use 1 to ${MAX_IDENTIFIER_BYTES} bytes that do not begin with "pg_".`,
  });
}

function invalid(why: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `not the address of a Postgres server: ${why}`, {
    hint:
      "Write postgres://user:password@host:5432/database. " +
      "Escape @ : / ? # in the password as %40 %3A %2F %3F %23.",
  });
}

/** An identifier, quoted for SQL. */
export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

type Location = Partial<Record<"host" | "port" | "database", string | number | null | undefined>>;

export function describe({ host, port, database }: Location, schema: string): string {
  const place = String(host).startsWith("/") ? host : `${host ?? "localhost"}:${port ?? 5432}`;
  return `postgres ${place}/${database ?? ""} ${schema}`;
}
