import type { Page, Store, StreamRow } from "../store.ts";

/** Reads a list to its end, page by page. Whoever takes the first page for all of it is wrong on the day there is a second. */
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

/** The same at once, for what is changed while its rows are gone through, or has to be put in order. */
export async function allRows<Row>(
  read: (from: { readonly cursor?: string }) => Promise<Page<Row>>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const row of everyRow(read)) rows.push(row);
  return rows;
}

const STREAMS_AT_ONCE = 200;

/**
 * Each stream that is there at the beginning, once. What is written to meanwhile moves to the head of the list, past the
 * page that is read next: so the list is read again until nothing new of that age is in it.
 */
export async function* everyStream(
  { store, namespace, now }: { readonly store: Store; readonly namespace: string; now(): number },
  only: { readonly kind?: string; readonly hidden?: true },
): AsyncGenerator<StreamRow> {
  const begun = now();
  const asked = { of: "streams", namespace, limit: STREAMS_AT_ONCE, ...only } as const;
  const seen = new Set<string>();
  for (let found = Number.POSITIVE_INFINITY; found > 0; ) {
    const isFirst = seen.size === 0;
    found = 0;
    for await (const row of everyRow((from) => store.list<"streams">({ ...asked, ...from }))) {
      if (seen.has(row.stream) || (!isFirst && row.createdAt > begun)) continue;
      seen.add(row.stream);
      found += 1;
      yield row;
    }
  }
}
