/**
 * Leases: named rights with fencing tokens. The row of a lease stays until its stream is erased, and then a
 * new one begins after it. So a token only grows.
 *
 *     none ──take──▶ held ──renew, guarded append──▶ held
 *                     │──release──▶ free (token kept) ──take──▶ held, token + 1
 *                     └──expired, other boot, evicted──take by another──▶ held, token + 1
 *
 * The clock matters only to `take`. The current token of a held lease may write, however late.
 */

import { ERASED } from "../../model/names.ts";
import type {
  AppendOutcome,
  Batch,
  BatchLease,
  Guard,
  Holder,
  LeaseOutcome,
  LeaseRequest,
  LeaseRow,
} from "../../store.ts";
import { type Clock, remainingMs, timelineOf } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import { type ActResult, fromText, type StoredLease, type Transaction, toText } from "./rows.ts";

const SELECT =
  "SELECT name, token, boot, expires_at, ttl, holder FROM leases WHERE namespace = ? AND name = ?";

const UPSERT = `INSERT INTO leases (namespace, name, token, boot, expires_at, ttl, holder)
  VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET token = excluded.token, boot = excluded.boot, expires_at = excluded.expires_at,
    ttl = excluded.ttl, holder = excluded.holder`;

const RENEW = `UPDATE leases SET boot = ?, expires_at = ?, ttl = ?
  WHERE namespace = ? AND name = ? AND token = ? AND holder IS NOT NULL`;

const RELEASE = `UPDATE leases SET holder = NULL, expires_at = ?
  WHERE namespace = ? AND name = ? AND token = ? AND holder IS NOT NULL`;

function timeLeftMs({ name, boot, expires_at, ttl, holder }: StoredLease, clock: Clock): number {
  if (holder === null) return 0;
  const expiry = { name: () => fromText(name), timeline: boot, expiresAt: expires_at, ttlMs: ttl };
  return remainingMs(clock, expiry);
}

function holderOf(lease: StoredLease): Holder | null {
  return lease.holder === null ? null : (JSON.parse(fromText(lease.holder)) as Holder);
}

export function leaseRow(lease: StoredLease, clock: Clock): LeaseRow {
  const { name, token } = lease;
  return { name: fromText(name), token, holder: holderOf(lease), remainingMs: timeLeftMs(lease, clock) };
}

export function lease(transaction: Transaction, request: LeaseRequest): ActResult<LeaseOutcome> {
  switch (request.act) {
    case "take":
      return take(transaction, request);
    case "renew":
      return renew(transaction, request);
    case "release": {
      const wasOurs = release(transaction, request.namespace, request.lease);
      return { result: { outcome: "released", wasOurs }, wrote: wasOurs };
    }
  }
}

function release({ connection, cache, clock }: Transaction, namespace: string, lease: Guard): boolean {
  cache.dropLease(namespace, lease.lease);
  const values = [toText(namespace), toText(lease.lease), lease.token];
  return connection.count(RELEASE, clock.nowMs(), ...values) > 0;
}

// ---- Leases that a batch takes or releases

/** Refuses a batch whose lease has an owner, or whose token is not the next one. */
export function checkTake(
  { connection, clock }: Transaction,
  { namespace, lease }: Batch,
): Extract<AppendOutcome, { outcome: "fenced" }> | null {
  if (lease?.act !== "take") return null;
  const row = connection.get<StoredLease>(SELECT, toText(namespace), toText(lease.name));
  if ((!row || row.holder === null) && lease.token === nextToken(connection, namespace, row)) return null;
  return { outcome: "fenced", lease: lease.name, now: row ? leaseRow(row, clock) : null };
}

/** For a batch that passed every check. */
export function changeLease(transaction: Transaction, namespace: string, lease: BatchLease): void {
  const { name, token } = lease;
  if (lease.act === "release") release(transaction, namespace, { lease: name, token });
  else grant(transaction, namespace, lease);
}

function nextToken(connection: Connection, namespace: string, row: StoredLease | undefined): number {
  const before = row ?? connection.get<StoredLease>(SELECT, toText(namespace), ERASED);
  return (before?.token ?? 0) + 1;
}

function grant(
  { connection, cache, clock }: Transaction,
  namespace: string,
  { name, token, holder, ttlMs }: Omit<Extract<BatchLease, { act: "take" }>, "act">,
): void {
  cache.dropLease(namespace, name);
  const values = [token, timelineOf(clock), clock.nowMs() + ttlMs, ttlMs, toText(JSON.stringify(holder))];
  connection.run(UPSERT, toText(namespace), toText(name), ...values);
}

type Request<Act extends LeaseRequest["act"]> = Extract<LeaseRequest, { act: Act }>;

function take(transaction: Transaction, request: Request<"take">): ActResult<LeaseOutcome> {
  const { connection, clock } = transaction;
  const { namespace, name, holder, ttlMs, evict } = request;
  const old = connection.get<StoredLease>(SELECT, toText(namespace), toText(name));
  const oldHolder = old ? holderOf(old) : null;
  const isOurs = oldHolder?.owner === holder.owner;
  if (old && oldHolder && !isOurs && timeLeftMs(old, clock) > 0 && old.token !== evict) {
    return { result: { outcome: "held", lease: leaseRow(old, clock) }, wrote: false };
  }
  const token = old && isOurs ? old.token : nextToken(connection, namespace, old);
  grant(transaction, namespace, { name, token, holder, ttlMs });
  const granted = { name, token, holder: { ...holder }, remainingMs: ttlMs };
  return { result: { outcome: "granted", lease: granted, from: isOurs ? null : oldHolder }, wrote: true };
}

function renew(transaction: Transaction, request: Request<"renew">): ActResult<LeaseOutcome> {
  const { connection, cache, clock } = transaction;
  const { namespace, leases, ttlMs } = request;
  const expiresAt = clock.nowMs() + ttlMs;
  const timeline = timelineOf(clock);
  const lost = leases.filter(({ lease: name, token }) => {
    cache.dropLease(namespace, name);
    return connection.count(RENEW, timeline, expiresAt, ttlMs, toText(namespace), toText(name), token) === 0;
  });
  const result: LeaseOutcome = { outcome: "renewed", lost };
  return { result, wrote: lost.length < leases.length };
}

/** Returns the held leases of all guards, or the first guard whose token is not current. */
export function checkGuards(
  { connection, cache, clock }: Transaction,
  namespace: string,
  guards: readonly Guard[],
): Extract<AppendOutcome, { outcome: "fenced" }> | StoredLease[] {
  const held: StoredLease[] = [];
  for (const { lease: name, token } of guards) {
    const known = cache.lease(namespace, name);
    const found = known ?? connection.get<StoredLease>(SELECT, toText(namespace), toText(name));
    if (!found || found.holder === null || found.token !== token) {
      return { outcome: "fenced", lease: name, now: found ? leaseRow(found, clock) : null };
    }
    if (!known) cache.setLease(namespace, name, found);
    held.push(found);
  }
  return held;
}

/** A guarded write renews its leases, but for those with most of their time left: that saves a page. */
export function renewGuards(transaction: Transaction, namespace: string, held: readonly StoredLease[]): void {
  if (held.length === 0) return;
  const { connection, cache, clock } = transaction;
  const boot = timelineOf(clock);
  const now = clock.nowMs();
  for (const each of held) {
    const leftMs = each.expires_at - now;
    if (each.boot === boot && leftMs > (each.ttl * 3) / 4 && leftMs <= each.ttl) continue;
    const expiresAt = now + each.ttl;
    connection.run(RENEW, boot, expiresAt, each.ttl, toText(namespace), each.name, each.token);
    cache.setLease(namespace, fromText(each.name), { ...each, boot, expires_at: expiresAt });
  }
}
