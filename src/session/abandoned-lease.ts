import { type Journal, Lease } from "../journal/index.ts";
import type { LeaseRow } from "../store.ts";

/** Told of a lease that may have been taken from somebody who died, while it is held; with how it was found before. */
export type OnCrash = (lease: Lease, by: string, found: LeaseRow | null) => Promise<void>;

/**
 * The lease of a session that nobody runs, for a person who says something there. It is looked at first: where the answer to the
 * take gets lost and the store is asked once more, only that look tells from whom it was taken.
 */
export async function takeFromDead(
  journal: Journal,
  stream: string,
  by: string,
  onCrash: OnCrash,
): Promise<Lease | LeaseRow> {
  const found = await journal.leases.find(stream);
  const lease = await journal.leases.take(stream, journal.newId(), { label: by, waitMs: 0 });
  if (!(lease instanceof Lease) || (lease.from === null && !found?.holder)) return lease;
  try {
    await onCrash(lease, by, found);
    return lease;
  } catch (error) {
    await lease.release();
    throw error;
  }
}
