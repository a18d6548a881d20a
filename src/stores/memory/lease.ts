import type { Guard, Holder, LeaseOutcome, LeaseRequest } from "../../store.ts";
import { holds, leaseRow, type Space } from "./data.ts";

/** The clock decides one thing only: whether somebody else may take over. */
export function lease(space: Space, request: LeaseRequest, now: number): LeaseOutcome {
  switch (request.act) {
    case "take":
      return take(space, request, now);
    case "renew":
      return { outcome: "renewed", lost: renew(space, request.leases, request.ttlMs, now) };
    case "release":
      return { outcome: "released", wasOurs: release(space, request.lease, now) };
  }
}

function take(
  { leases }: Space,
  { name, holder, ttlMs, evict }: { name: string; holder: Holder; ttlMs: number; evict?: number },
  now: number,
): LeaseOutcome {
  const old = leases.get(name);
  const isOurs = old?.holder?.owner === holder.owner;
  const isHeld = old?.holder && !isOurs && old.deadline > now && old.token !== evict;
  if (isHeld) return { outcome: "held", lease: leaseRow(name, old, now) };
  const token = old && isOurs ? old.token : (old?.token ?? 0) + 1;
  const taken = { token, holder: { ...holder }, ttlMs, deadline: now + ttlMs };
  leases.set(name, taken);
  const from = old?.holder && !isOurs ? { ...old.holder } : null;
  return { outcome: "granted", lease: leaseRow(name, taken, now), from };
}

function renew({ leases }: Space, guards: readonly Guard[], ttlMs: number, now: number): Guard[] {
  const lost: Guard[] = [];
  for (const guard of guards) {
    const old = leases.get(guard.lease);
    if (holds(old, guard)) leases.set(guard.lease, { ...old, ttlMs, deadline: now + ttlMs });
    else lost.push({ lease: guard.lease, token: guard.token });
  }
  return lost;
}

/** The row stays: its token is what the next owner has to exceed. */
function release({ leases }: Space, guard: Guard, now: number): boolean {
  const old = leases.get(guard.lease);
  if (!holds(old, guard)) return false;
  leases.set(guard.lease, { ...old, holder: null, deadline: now });
  return true;
}
