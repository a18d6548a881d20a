import type { Page } from "../store.ts";

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
