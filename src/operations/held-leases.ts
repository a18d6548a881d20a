/** Who holds what right now. Leases that were let go of, or ran out, stay in the store, so there may be many more than live. */

import { allRows, isProvablyDead } from "../journal/index.ts";
import type { LeaseRow, Page, Store } from "../store.ts";

/** Above this, going through all leases is quicker than asking for each. */
const FEW = 50;
const PAGE = 500;

type Leases = ReadonlyMap<string, LeaseRow>;

/** Those of these leases whose time has not run out, by name. All names begin with `prefix`. */
export async function heldLeases(
  store: Pick<Store, "list">,
  namespace: string,
  prefix: string,
  names: readonly string[],
): Promise<Leases> {
  const rows = await taken(store, namespace, prefix, names);
  return new Map([...rows].filter(([, row]) => row.remainingMs > 0));
}

/**
 * The same for leases that live and die with a process, as those of sessions do: `held` by one that may be alive, `gone`
 * where it was never let go of and its process provably is, however much of its time is left.
 */
export async function leasesOf(
  store: Pick<Store, "list">,
  namespace: string,
  prefix: string,
  names: readonly string[],
): Promise<{ readonly held: Leases; readonly gone: Leases }> {
  const rows = [...(await taken(store, namespace, prefix, names))];
  const gone = new Map(rows.filter(([, { holder }]) => holder !== null && isProvablyDead(holder)));
  const held = new Map(rows.filter(([name, row]) => row.remainingMs > 0 && !gone.has(name)));
  return { held, gone };
}

/** Those that somebody took and did not let go of. */
async function taken(
  store: Pick<Store, "list">,
  namespace: string,
  prefix: string,
  names: readonly string[],
): Promise<Leases> {
  const list = (of: string, limit: number, from: { cursor?: string } = {}): Promise<Page<LeaseRow>> =>
    store.list<"leases">({ of: "leases", namespace, prefix: of, limit, ...from });
  const wanted = new Set(names);
  const found = new Map<string, LeaseRow>();
  const look = (rows: readonly LeaseRow[]): void => {
    for (const row of rows) if (row.holder && wanted.has(row.name)) found.set(row.name, row);
  };
  if (wanted.size <= FEW) {
    // The prefix also matches longer names, but the exact one sorts before them.
    for (const { rows } of await Promise.all([...wanted].map((name) => list(name, 1)))) look(rows);
    return found;
  }
  look(await allRows((from) => list(prefix, PAGE, from)));
  return found;
}
