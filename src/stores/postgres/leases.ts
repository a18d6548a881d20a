/**
 * Leases: named rights with fencing tokens. The row of a lease stays until its stream is erased, and then a
 * new one begins after it. So a token only grows.
 *
 *     none ──take──▶ held ──renew, guarded append──▶ held
 *                     │──release──▶ free (token kept) ──take──▶ held, token + 1
 *                     └──expired, evicted──taken by another──▶ held, token + 1
 *
 * Only `take` looks at a clock, the server's. The current token of a held lease permits a write at any time.
 * Each request can be sent again after a lost connection: the same owner keeps its token, and a release that
 * finds its own token released counts as done.
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

export function fencedOutcome({ outcome, lease, now }: StoredFence) {
  return { outcome, lease: fromText(lease), now: now && leaseRow(now) };
}

export function lease(
  database: Database,
  context: WriteContext,
  request: LeaseRequest,
): Promise<LeaseOutcome> {
  if (request.act === "take") return take(database, context, request);
  if (request.act === "renew") return renew(database, context, request);
  return release(database, context, request);
}

type TakeRow = Omit<StoredLease, "name"> & Readonly<{ granted: boolean; from_holder: string | null }>;

async function take(
  database: Database,
  context: WriteContext,
  { namespace, name, holder, ttlMs, evict }: Extract<LeaseRequest, { act: "take" }>,
): Promise<LeaseOutcome> {
  const names = [namespace, name, holder.owner].map(toText);
  const { row } = await database.change<TakeRow>(
    `SELECT * FROM ${database.schema}.take_lease($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [...database.writeArguments(context), ...names, JSON.stringify(holder), Math.round(ttlMs), evict ?? null],
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
  const wasOurs = row.released === "ours" || (mayBeRepeat && row.released === "before");
  return { outcome: "released", wasOurs };
}
