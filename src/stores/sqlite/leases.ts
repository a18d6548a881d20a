/**
 * Leases: named rights with fencing tokens. The row of a lease stays for ever, so its token only grows.
 *
 *     none ──take──▶ held ──renew, guarded append──▶ held
 *                     │──release──▶ free (token kept) ──take──▶ held, token + 1
 *                     └──ran out, other boot, evicted──take by another──▶ held, token + 1
 *
 * The clock has a say in `take` only. Whoever presents the current token of a held lease may write, however late.
 */

import type { Guard, Holder, LeaseOutcome, LeaseRequest, LeaseRow } from "../../store.ts";
import { type Clock, remainingMs as remaining, timelineOf } from "../kit/index.ts";
import type { StoredLease } from "./rows.ts";
import { fromText, toText } from "./text.ts";
import type { Done, Transaction } from "./transaction.ts";

const SELECT =
  "SELECT name, token, boot, expires_at, ttl, holder FROM leases WHERE namespace = ? AND name = ?";

const UPSERT = `INSERT INTO leases (namespace, name, token, boot, expires_at, ttl, holder) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET token = excluded.token, boot = excluded.boot, expires_at = excluded.expires_at,
    ttl = excluded.ttl, holder = excluded.holder`;

const RENEW = `UPDATE leases SET boot = ?, expires_at = ?, ttl = ?
  WHERE namespace = ? AND name = ? AND token = ? AND holder IS NOT NULL`;

const RELEASE = `UPDATE leases SET holder = NULL, expires_at = ?
  WHERE namespace = ? AND name = ? AND token = ? AND holder IS NOT NULL`;

function remainingMs({ name, boot, expires_at, ttl, holder }: StoredLease, clock: Clock): number {
  if (holder === null) return 0;
  return remaining(clock, { name: () => fromText(name), timeline: boot, expiresAt: expires_at, ttlMs: ttl });
}

function holderOf(lease: StoredLease): Holder | null {
  return lease.holder === null ? null : (JSON.parse(fromText(lease.holder)) as Holder);
}

export function leaseRow(lease: StoredLease, clock: Clock): LeaseRow {
  const { name, token } = lease;
  return { name: fromText(name), token, holder: holderOf(lease), remainingMs: remainingMs(lease, clock) };
}

export function lease(transaction: Transaction, clock: Clock, request: LeaseRequest): Done<LeaseOutcome> {
  switch (request.act) {
    case "take":
      return take(transaction, clock, request);
    case "renew":
      return renew(transaction, clock, request);
    case "release": {
      const { namespace, lease } = request;
      const { connection, cache } = transaction;
      cache.forgetLease(namespace, lease.lease);
      const values = [toText(namespace), toText(lease.lease), lease.token];
      const wasOurs = connection.count(RELEASE, clock.nowMs(), ...values) > 0;
      return { result: { outcome: "released", wasOurs }, wrote: wasOurs };
    }
  }
}

function take(
  { connection, cache }: Transaction,
  clock: Clock,
  request: Extract<LeaseRequest, { act: "take" }>,
): Done<LeaseOutcome> {
  const { namespace, name, holder, ttlMs, evict } = request;
  cache.forgetLease(namespace, name);
  const old = connection.get<StoredLease>(SELECT, toText(namespace), toText(name));
  const oldHolder = old ? holderOf(old) : null;
  const isOurs = oldHolder?.owner === holder.owner;
  if (old && oldHolder && !isOurs && remainingMs(old, clock) > 0 && old.token !== evict) {
    return { result: { outcome: "held", lease: leaseRow(old, clock) }, wrote: false };
  }
  const token = old && isOurs ? old.token : (old?.token ?? 0) + 1;
  const expiresAt = clock.nowMs() + ttlMs;
  const stored = toText(JSON.stringify(holder));
  connection.run(UPSERT, toText(namespace), toText(name), token, timelineOf(clock), expiresAt, ttlMs, stored);
  const granted = { name, token, holder: { ...holder }, remainingMs: ttlMs };
  return { result: { outcome: "granted", lease: granted, from: isOurs ? null : oldHolder }, wrote: true };
}

function renew(
  { connection, cache }: Transaction,
  clock: Clock,
  { namespace, leases, ttlMs }: Extract<LeaseRequest, { act: "renew" }>,
): Done<LeaseOutcome> {
  const expiresAt = clock.nowMs() + ttlMs;
  const timeline = timelineOf(clock);
  const lost = leases.filter(({ lease: name, token }) => {
    cache.forgetLease(namespace, name);
    return connection.count(RENEW, timeline, expiresAt, ttlMs, toText(namespace), toText(name), token) === 0;
  });
  const result: LeaseOutcome = { outcome: "renewed", lost };
  return { result, wrote: lost.length < leases.length };
}

export interface Fenced {
  readonly outcome: "fenced";
  readonly lease: string;
  readonly now: LeaseRow | null;
}

/** The first guard whose token is not the current one of a held lease, or the leases, to be renewed later. */
export function checkGuards(
  { connection, cache }: Transaction,
  clock: Clock,
  namespace: string,
  guards: readonly Guard[],
): Fenced | StoredLease[] {
  const held: StoredLease[] = [];
  for (const { lease: name, token } of guards) {
    const known = cache.lease(namespace, name);
    const found = known ?? connection.get<StoredLease>(SELECT, toText(namespace), toText(name));
    if (!found || found.holder === null || found.token !== token) {
      return { outcome: "fenced", lease: name, now: found ? leaseRow(found, clock) : null };
    }
    if (!known) cache.keepLease(namespace, name, found);
    held.push(found);
  }
  return held;
}

/** A guarded write prolongs its leases, but not those that have most of their time before them: a page less to write. */
export function renewGuards(
  { connection, cache }: Transaction,
  clock: Clock,
  namespace: string,
  held: readonly StoredLease[],
): void {
  const boot = timelineOf(clock);
  const now = clock.nowMs();
  for (const each of held) {
    const leftMs = each.expires_at - now;
    if (each.boot === boot && leftMs > (each.ttl * 3) / 4 && leftMs <= each.ttl) continue;
    const expiresAt = now + each.ttl;
    connection.run(RENEW, boot, expiresAt, each.ttl, toText(namespace), each.name, each.token);
    cache.keepLease(namespace, fromText(each.name), { ...each, boot, expires_at: expiresAt });
  }
}
