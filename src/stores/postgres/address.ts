/** What the caller says of the server, as settings for `pg`, and as text for messages that holds no password. */

import type { PoolConfig } from "pg";
import { HoldfastError } from "../../model/errors.ts";
import { didYouMean } from "../../model/options.ts";

const DEFAULT_SCHEMA = "holdfast";
const MAX_IDENTIFIER_BYTES = 63;

export interface Target {
  readonly settings: PoolConfig;
  readonly schema: string;
}

/** The only parameter that is ours. */
const OWN = ["schema"];
/** What `pg` takes from the query of a URL. The database it takes from the path alone. */
const READ_BY_PG = [
  ...["host", "port", "user", "password", "options", "client_encoding"],
  ...["application_name", "fallback_application_name"],
  ...["statement_timeout", "query_timeout", "lock_timeout", "idle_in_transaction_session_timeout"],
  ...["ssl", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat"],
];
/** What stands in addresses that were made for others, and changes nothing of where they lead: passed over. */
const PASSED_OVER = [
  ...["channel_binding", "gssencmode", "target_session_attrs", "connect_timeout", "encoding", "binary"],
  ...["keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"],
  ...["pgbouncer", "connection_limit", "pool_timeout", "statement_cache_size", "supa"],
  ...["sslsni", "sslcertmode", "tcp_user_timeout"],
];
const KNOWN = [...OWN, ...READ_BY_PG, ...PASSED_OVER];

/**
 * A URL as `pg` reads it, TLS parameters included; what it does not say comes from the PG* variables. One parameter is
 * ours: `?schema=name`. One that nobody knows is refused: with `?shcema=name` passed over, the store that opens would be
 * somebody else's.
 */
export function parseUrl(url: string, schema: string | undefined): Target {
  let parsed: URL;
  try {
    // A URL without a host is fine for Postgres, for example with `?host=/run/postgresql`, but not for this class.
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
  // A password with a question mark in it ends up here, and is not shown.
  if (`${search}${hash}`.includes("@")) throw invalid("what follows the question mark are no parameters");
  const isDatabase = unknown === "dbname" || unknown === "database";
  throw new HoldfastError("INPUT_INVALID", `the address has a parameter that is not known: ${unknown}`, {
    hint: isDatabase
      ? "The database stands after the host: postgres://user:password@host:5432/database."
      : `${didYouMean(unknown, KNOWN)}Known are ${KNOWN.join(", ")}.`,
    data: { parameter: unknown, known: KNOWN },
  });
}

/** Modes of psql that ask for TLS. Here each of them also proves who the server is; only `no-verify` does not. */
const VERIFIED = ["prefer", "require", "verify-ca", "verify-full"];

/**
 * The URL with what the PG* variables say of TLS, and with the mode that is meant: today's `pg` takes all these modes
 * for `verify-full` and warns that tomorrow's will not.
 */
function withTls(url: string, asked: URLSearchParams): string {
  if (asked.has("uselibpqcompat") || asked.has("ssl")) return url;
  const mode = asked.get("sslmode") ?? process.env["PGSSLMODE"];
  if (mode === undefined || !VERIFIED.includes(mode)) return url;
  const root = asked.get("sslrootcert") ?? process.env["PGSSLROOTCERT"];
  const bare = url.replace(/([?&])(?:sslmode|sslrootcert)=[^&#]*(?=[&#]|$)/g, "$1");
  const added = `sslmode=verify-full${root && root !== "system" ? `&sslrootcert=${encodeURIComponent(root)}` : ""}`;
  return `${bare}${bare.includes("?") ? "&" : "?"}${added}`;
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
  return new HoldfastError("INPUT_INVALID", `this is no address of a Postgres server: ${why}`, {
    hint: "Write postgres://user:password@host:5432/database, with signs such as @ : / ? # in the password as %40 %3A %2F %3F %23.",
  });
}

/** A name as it stands in SQL. */
export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

interface Whereabouts {
  readonly host?: string | null | undefined;
  readonly port?: number | string | null | undefined;
  readonly database?: string | null | undefined;
}

export function describe({ host, port, database }: Whereabouts, schema: string): string {
  const place = host?.startsWith("/") ? host : `${host ?? "localhost"}:${port ?? 5432}`;
  return `postgres ${place}/${database ?? ""} ${schema}`;
}
