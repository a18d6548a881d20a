/** Where a page of a list ended, as text that callers hand back without looking inside. */

import { HoldfastError } from "../errors.ts";

type Position = readonly (string | number)[];

function encodeCursor(position: Position): string {
  return Buffer.from(JSON.stringify(position)).toString("base64url");
}

/** The position in a cursor that has as many parts as `like`, of the same types. Without a cursor, null. */
export function decodeCursor<Like extends Position>(cursor: string | undefined, like: Like): Like | null {
  if (cursor === undefined) return null;
  const position = parse(cursor);
  const fits =
    Array.isArray(position) &&
    position.length === like.length &&
    position.every((part, index) => typeof part === typeof like[index]);
  if (fits) return position as unknown as Like;
  throw new HoldfastError("INPUT_INVALID", "this cursor is not from a list of this kind", {
    hint: "Pass a cursor exactly as the page before gave it, with the same request.",
  });
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    return undefined;
  }
}

/** A page from rows that were asked for with one more than `limit`. */
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

/** For what moves to another store: what a page of rows with bytes of their own may weigh, give or take one row: many small ones, or a single large one. */
export const MOVED_PAGE_BYTES = 8 * 1024 * 1024;

/** How many of the rows that come next make up a page, by their sizes; `limit` where all of these fit. */
export function countFittingRows(sizes: readonly { readonly size: number }[], limit: number): number {
  let bytes = 0;
  const last = sizes.findIndex(({ size }) => {
    bytes += size;
    return bytes >= MOVED_PAGE_BYTES;
  });
  return last < 0 ? limit : last + 1;
}
