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
import type { AppendOutcome, Guard, Holder, LeaseOutcome, LeaseRequest, LeaseRow } from "../../store.ts";
import { type Clock, remainingMs, timelineOf } from "../kit/index.ts";
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
      const { namespace, lease } = request;
      const { connection, cache, clock } = transaction;
      cache.dropLease(namespace, lease.lease);
      const values = [toText(namespace), toText(lease.lease), lease.token];
      const wasOurs = connection.count(RELEASE, clock.nowMs(), ...values) > 0;
      return { result: { outcome: "released", wasOurs }, wrote: wasOurs };
    }
  }
}

type Request<Act extends LeaseRequest["act"]> = Extract<LeaseRequest, { act: Act }>;

function take(transaction: Transaction, request: Request<"take">): ActResult<LeaseOutcome> {
  const { connection, cache, clock } = transaction;
  const { namespace, name, holder, ttlMs, evict } = request;
  cache.dropLease(namespace, name);
  const old = connection.get<StoredLease>(SELECT, toText(namespace), toText(name));
  const oldHolder = old ? holderOf(old) : null;
  const isOurs = oldHolder?.owner === holder.owner;
  if (old && oldHolder && !isOurs && timeLeftMs(old, clock) > 0 && old.token !== evict) {
    return { result: { outcome: "held", lease: leaseRow(old, clock) }, wrote: false };
  }
  const before = old ?? connection.get<StoredLease>(SELECT, toText(namespace), ERASED);
  const token = old && isOurs ? old.token : (before?.token ?? 0) + 1;
  const expiresAt = clock.nowMs() + ttlMs;
  const stored = toText(JSON.stringify(holder));
  connection.run(UPSERT, toText(namespace), toText(name), token, timelineOf(clock), expiresAt, ttlMs, stored);
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
