import { failpoint } from "../failpoint.ts";
import { leaseLost } from "../journal/index.ts";
import type { LedgerContext } from "./context.ts";

/**
 * The last look before an effect. The intent is durable under our lease; if a quarter of the lease has passed since
 * the store last confirmed it (the process was stopped, the machine slept), it is asked again first.
 */
export async function startAllowed(context: LedgerContext): Promise<void> {
  const { lease } = context.own;
  const { leases } = context.journal;
  if (performance.now() - lease.confirmedAt > leases.ttlMs / 4) await leases.confirm(lease);
  if (lease.lost.aborted) throw leaseLost(lease.name, null);
  context.stop.throwIfAborted();
  failpoint("call.starts");
}
