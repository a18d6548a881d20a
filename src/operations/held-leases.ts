/** Who holds what right now. Leases that were let go of, or ran out, stay in the store, so there may be many more than live. */

import type { LeaseRow, Page, Store } from "../store.ts";

/** Above this, going through all leases is quicker than asking for each. */
const FEW = 50;
const PAGE = 500;

/** Those of these leases that somebody holds, by name. All names begin with `prefix`. */
export async function heldLeases(
  store: Pick<Store, "list">,
  namespace: string,
  prefix: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, LeaseRow>> {
  const list = (of: string, limit: number, from: { cursor?: string } = {}): Promise<Page<LeaseRow>> =>
    store.list<"leases">({ of: "leases", namespace, prefix: of, limit, ...from });
  const wanted = new Set(names);
  const held = new Map<string, LeaseRow>();
  const look = (rows: readonly LeaseRow[]): void => {
    for (const row of rows)
      if (row.holder && row.remainingMs > 0 && wanted.has(row.name)) held.set(row.name, row);
  };
  if (wanted.size <= FEW) {
    // The prefix also matches longer names, but the exact one sorts before them.
    for (const { rows } of await Promise.all([...wanted].map((name) => list(name, 1)))) look(rows);
    return held;
  }
  for (let from: { cursor?: string } = {}; ; ) {
    const { rows, cursor } = await list(prefix, PAGE, from);
    look(rows);
    if (cursor === null) return held;
    from = { cursor };
  }
}
