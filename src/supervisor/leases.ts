import { seemsGone } from "../goal/index.ts";
import { allRows, type Journal } from "../journal/index.ts";
import type { LeaseRow } from "../store.ts";

/** All leases whose name begins so, by name. */
export async function leasesUnder(journal: Journal, prefix: string): Promise<Map<string, LeaseRow>> {
  const rows = await allRows((from) => journal.list<"leases">({ of: "leases", prefix, limit: 500, ...from }));
  return new Map(rows.map((row) => [row.name, row]));
}

/** Held by somebody of whom nothing says that they are gone. */
export function isLive(row: LeaseRow | undefined): boolean {
  return row?.holder != null && row.remainingMs > 0 && !seemsGone(row.holder);
}

/** Held by somebody who did not let go of it and seems to be gone. Taking it is the proof. */
export function isAbandoned(row: LeaseRow | undefined): row is LeaseRow {
  return row?.holder != null && !isLive(row);
}
