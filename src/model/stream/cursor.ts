/** Cursors: the end of a page, as text that callers hand back without parsing it. */

import { HoldfastError } from "../errors.ts";

type Position = readonly (string | number)[];

function encodeCursor(position: Position): string {
  return Buffer.from(JSON.stringify(position)).toString("base64url");
}

/** The position in a cursor; null without one. It must have as many parts as `like`, of the same types. */
export function decodeCursor<Like extends Position>(cursor: string | undefined, like: Like): Like | null {
  if (cursor === undefined) return null;
  const position = parse(cursor);
  const fits =
    Array.isArray(position) &&
    position.length === like.length &&
    position.every((part, index) => typeof part === typeof like[index]);
  if (fits) return position as unknown as Like;
  throw new HoldfastError("INPUT_INVALID", "this cursor is not from a list of this kind", {
    hint: "Pass the cursor of the page before unchanged, with the same request.",
  });
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    return undefined;
  }
}

/** A page from rows that were queried with `limit + 1`: the extra row tells whether more follow. */
export function pageOf<Stored, Row>(
  stored: readonly Stored[],
  limit: number,
  row: (stored: Stored) => Row,
  position: (stored: Stored) => Position,
): { rows: Row[]; cursor: string | null } {
  const rows = stored.slice(0, limit);
  const last = rows.at(-1);
  const cursor = last !== undefined && stored.length > limit ? encodeCursor(position(last)) : null;
  return { rows: rows.map(row), cursor };
}

/** The size of a page of `dump`, give or take one row: many small rows, or a single large one. */
export const MOVED_PAGE_BYTES = 8 * 1024 * 1024;

/** The number of next rows that fill a page, by their sizes; `limit` if all of them fit. */
export function countFittingRows(sizes: readonly { readonly size: number }[], limit: number): number {
  let bytes = 0;
  const last = sizes.findIndex(({ size }) => {
    bytes += size;
    return bytes >= MOVED_PAGE_BYTES;
  });
  return last < 0 ? limit : last + 1;
}
