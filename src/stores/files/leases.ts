/**
 * Leases: who holds what is in the journal, until when is in the live file (which says why). So a grant or a release
 * is a durable line, a renewal one small write.
 *
 *     none ──take──▶ held ──renew, guarded append──▶ held
 *                     │──release──▶ free (token kept) ──take──▶ held, token + 1
 *                     └──ran out, other boot, evicted──take by another──▶ held, token + 1
 *
 * The clock has a say in `take` only. Whoever presents the current token of a held lease may write, however late.
 */

import type { Guard, LeaseOutcome, LeaseRequest, LeaseRow } from "../../store.ts";
import { timelineOf } from "../kit/index.ts";
import type { Turn } from "./append.ts";
import { type Lease, lease, list } from "./foundations.ts";
import type { OpenedFolder } from "./opened-folder.ts";

export function leaseAct(turn: Turn, request: LeaseRequest): LeaseOutcome {
  const { folder } = turn;
  const { state, place } = folder;
  const { namespace } = request;
  // Before anything changes, so that what cannot be written is refused while it can be.
  JSON.stringify(request);
  if (request.act === "take") refreshTimes(folder, namespace, [request.name]);
  const outcome = lease(state.space(namespace), request, place.clock.nowMs());
  switch (outcome.outcome) {
    case "granted":
      logLease(turn, namespace, outcome.lease.name);
      break;
    case "released":
      if (request.act === "release" && outcome.wasOurs) logLease(turn, namespace, request.lease.lease);
      break;
    case "renewed":
      if (request.act === "renew") keepTimes(turn, namespace, stillHeld(request.leases, outcome.lost));
      break;
    case "held":
  }
  return outcome;
}

function stillHeld(asked: readonly Guard[], lost: readonly Guard[]): string[] {
  const isLost = ({ lease: name, token }: Guard) =>
    lost.some((each) => each.lease === name && each.token === token);
  return asked.filter((guard) => !isLost(guard)).map((guard) => guard.lease);
}

function logLease(turn: Turn, namespace: string, name: string): void {
  const { state, place } = turn.folder;
  const { token, holder, ttlMs, deadline } = known(turn.folder, namespace, name);
  const slot = state.slot(namespace, name);
  const boot = timelineOf(place.clock);
  const act = { do: "lease", namespace, name, token, holder, ttlMs, deadline, boot, slot } as const;
  const { length } = turn.log(act);
  state.setLease(act, length);
  keepTimes(turn, namespace, [name]);
}

function known(folder: OpenedFolder, namespace: string, name: string): Lease {
  return folder.state.space(namespace).leases.get(name) as Lease;
}

/** A guarded write prolongs its leases, but not those that have most of their time before them. */
export function prolong(turn: Turn, namespace: string, guards: readonly Guard[]): void {
  const { folder } = turn;
  const now = folder.place.clock.nowMs();
  const short = guards.filter(({ lease: name }) => {
    const { deadline, ttlMs } = known(folder, namespace, name);
    return deadline - now <= (ttlMs * 3) / 4;
  });
  for (const { lease: name } of short) {
    refreshTimes(folder, namespace, [name]);
    const held = known(folder, namespace, name);
    const { ttlMs } = held;
    folder.state.renewed(namespace, name, held, { ttlMs, deadline: now + ttlMs, boot: boot(folder) });
  }
  keepTimes(
    turn,
    namespace,
    short.map((guard) => guard.lease),
  );
}

function boot(folder: OpenedFolder): string {
  return timelineOf(folder.place.clock);
}

function keepTimes(turn: Turn, namespace: string, names: readonly string[]): void {
  if (names.length === 0) return;
  const { folder } = turn;
  turn.afterwards.push(() => {
    for (const name of names) {
      const { token, deadline, ttlMs } = known(folder, namespace, name);
      folder.live?.setTime(folder.state.slot(namespace, name), {
        token,
        deadline,
        ttlMs,
        boot: boot(folder),
      });
    }
  });
}

/** Whoever holds these leases may be another process, which renews them without a line. */
export function refreshTimes(folder: OpenedFolder, namespace: string, names: Iterable<string>): void {
  const { state, live } = folder;
  const { leases } = state.space(namespace);
  for (const name of names) {
    const row = leases.get(name);
    if (!row?.holder) continue;
    const time = live?.time(state.slot(namespace, name));
    if (time?.token === row.token) state.renewed(namespace, name, row, time);
  }
}

/** A lease as it is now, for whoever was refused because of it. */
export function leaseNow(folder: OpenedFolder, namespace: string, name: string): LeaseRow | null {
  refreshTimes(folder, namespace, [name]);
  const now = folder.place.clock.nowMs();
  const asked = { of: "leases", namespace, prefix: name, limit: 1 } as const;
  const { rows } = list(folder.state.space(namespace), asked, now);
  const [row] = rows as LeaseRow[];
  return row?.name === name ? row : null;
}
