/**
 * Leases: named rights with fencing tokens. The row of a lease is never deleted, so its token only grows.
 *
 *     none ──take──▶ held ──renew, guarded append──▶ held
 *                     │──release──▶ free (token kept) ──take──▶ held, token + 1
 *                     └──expired, evicted──taken by another──▶ held, token + 1
 *
 * Only `take` looks at a clock, and only at the server's. The current token of a held lease permits a
 * write, however late it comes.
 *
 * Each request can be sent again after a lost connection. The same owner keeps its token, renewing twice is
 * renewing once, and a release that finds its own token released counts as done.
 */

import type { Guard, Holder, LeaseOutcome, LeaseRequest, LeaseRow } from "../../store.ts";
import type { Database, WriteContext } from "./database.ts";
import { fromText, toText } from "./rows.ts";

export interface StoredLease {
  readonly name: string;
  readonly token: number;
  /** JSON text, or null when released. */
  readonly holder: string | null;
  readonly remaining: number;
}

/** The columns of a `StoredLease`. */
export const leaseColumns = (schema: string): string =>
  `name, token, holder, ${schema}.remaining_ms(holder, expires_at, ttl) AS remaining`;

const holderOf = (holder: string | null): Holder | null => (holder === null ? null : JSON.parse(holder));

export function leaseRow({ name, token, holder, remaining }: StoredLease): LeaseRow {
  return { name: fromText(name), token, holder: holderOf(holder), remainingMs: remaining };
}

/** The answer of the SQL functions for a guard that does not hold. */
export interface StoredFence {
  readonly outcome: "fenced";
  readonly lease: string;
  readonly now: StoredLease | null;
}

export function fencedOutcome({ lease, now }: StoredFence): {
  outcome: "fenced";
  lease: string;
  now: LeaseRow | null;
} {
  return { outcome: "fenced", lease: fromText(lease), now: now && leaseRow(now) };
}

export function lease(
  database: Database,
  context: WriteContext,
  request: LeaseRequest,
): Promise<LeaseOutcome> {
  switch (request.act) {
    case "take":
      return take(database, context, request);
    case "renew":
      return renew(database, context, request);
    case "release":
      return release(database, context, request);
  }
}

interface TakeRow {
  readonly granted: boolean;
  readonly token: number;
  readonly holder: string;
  readonly remaining: number;
  readonly from_holder: string | null;
}

async function take(
  database: Database,
  context: WriteContext,
  { namespace, name, holder, ttlMs, evict }: Extract<LeaseRequest, { act: "take" }>,
): Promise<LeaseOutcome> {
  const { row } = await database.change<TakeRow>(
    `SELECT * FROM ${database.schema}.take_lease($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      ...database.writeArguments(context),
      toText(namespace),
      toText(name),
      toText(holder.owner),
      JSON.stringify(holder),
      Math.round(ttlMs),
      evict ?? null,
    ],
  );
  const lease = leaseRow({ ...row, name: toText(name) });
  return row.granted
    ? { outcome: "granted", lease, from: holderOf(row.from_holder) }
    : { outcome: "held", lease };
}

async function renew(
  database: Database,
  context: WriteContext,
  { namespace, leases, ttlMs }: Extract<LeaseRequest, { act: "renew" }>,
): Promise<LeaseOutcome> {
  if (leases.length === 0) return { outcome: "renewed", lost: [] };
  const names = leases.map((each) => toText(each.lease));
  const tokens = leases.map(({ token }) => token);
  const rows = await database.run<{ lost: number }>(
    `SELECT lost FROM ${database.schema}.renew_leases($1, $2, $3, $4, $5, $6, $7)`,
    [...database.writeArguments(context), toText(namespace), names, tokens, Math.round(ttlMs)],
  );
  return { outcome: "renewed", lost: rows.map(({ lost }) => ({ ...(leases[lost - 1] as Guard) })) };
}

async function release(
  database: Database,
  context: WriteContext,
  { namespace, lease: guard }: Extract<LeaseRequest, { act: "release" }>,
): Promise<LeaseOutcome> {
  const { row, mayBeRepeat } = await database.change<{ released: string }>(
    `SELECT ${database.schema}.release_lease($1, $2, $3, $4, $5, $6) AS released`,
    [...database.writeArguments(context), toText(namespace), toText(guard.lease), guard.token],
  );
  return {
    outcome: "released",
    wasOurs: row.released === "ours" || (mayBeRepeat && row.released === "before"),
  };
}
