/** Where a page of a list ended, as text that callers hand back without looking inside. */

import { HoldfastError } from "../../model/index.ts";
import type { Page } from "../../store.ts";
import type { Value } from "./database.ts";

export type Position = readonly (string | number)[];

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

/** A page from rows that were asked for with one more than `limit`. A position is of texts as they are stored. */
export function pageOf<Stored, Row>(
  stored: readonly Stored[],
  limit: number,
  row: (stored: Stored) => Row,
  position: (stored: Stored) => Position,
): Page<Row> {
  const rows = stored.slice(0, limit);
  const last = rows.at(-1);
  const cursor = last !== undefined && stored.length > limit ? encodeCursor(position(last)) : null;
  return { rows: rows.map(row), cursor };
}

/** Conditions of a query and their values, side by side. A `?` in a condition is its next value. */
export class Conditions {
  readonly #parts: string[] = [];
  readonly values: Value[] = [];

  add(sql: string, ...values: Value[]): void {
    const given = values.values();
    this.#parts.push(sql.replaceAll("?", () => this.value(given.next().value as Value)));
  }

  /** A value outside a condition, as it stands in SQL. */
  value(value: Value): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }

  get sql(): string {
    return this.#parts.join(" AND ");
  }
}
