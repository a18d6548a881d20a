/** Lists that are longer than one page. */

import type { Page, Store, StreamRow } from "../store.ts";

/** Every row of a list, read page by page. */
export async function* everyRow<Row>(
  read: (from: { readonly cursor?: string }) => Promise<Page<Row>>,
): AsyncGenerator<Row> {
  let from: { readonly cursor?: string } = {};
  for (;;) {
    const { rows, cursor } = await read(from);
    yield* rows;
    if (cursor === null) return;
    from = { cursor };
  }
}

/** All rows of a list as an array, for callers that sort them, or change the list while they walk it. */
export async function allRows<Row>(
  read: (from: { readonly cursor?: string }) => Promise<Page<Row>>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const row of everyRow(read)) rows.push(row);
  return rows;
}

const STREAMS_PER_PAGE = 200;

/**
 * Each stream that exists at the start, once. The list is sorted by the latest change: a stream that is
 * written to meanwhile moves to the front, behind our cursor. So the list is read again until it has no old
 * stream left to find.
 */
export async function* everyStream(
  { store, namespace, now }: { readonly store: Store; readonly namespace: string; now(): number },
  only: { readonly kind?: string; readonly hidden?: true },
): AsyncGenerator<StreamRow> {
  const startedAt = now();
  const request = { of: "streams", namespace, limit: STREAMS_PER_PAGE, ...only } as const;
  const seen = new Set<string>();
  for (let found = Number.POSITIVE_INFINITY; found > 0; ) {
    const isFirst = seen.size === 0;
    found = 0;
    for await (const row of everyRow((from) => store.list<"streams">({ ...request, ...from }))) {
      if (seen.has(row.stream) || (!isFirst && row.createdAt > startedAt)) continue;
      seen.add(row.stream);
      found += 1;
      yield row;
    }
  }
}
