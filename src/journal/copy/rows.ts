/**
 * What two stores hold, compared row by row without putting the rows in order: each row has a hash over all that it
 * says, and the hashes of one kind are added up. Stores list their rows in orders of their own; sums do not care.
 */

import { createHash } from "node:crypto";
import type { MovedRow } from "../../store.ts";
import type { End } from "./phases.ts";

export interface Tally {
  /** How many rows of this kind, and the sum of their hashes in hex. */
  readonly count: number;
  readonly digest: string;
}

export type Tallies = Readonly<Record<MovedRow["of"], Tally>>;

const KINDS = ["lease", "artifact", "stream", "write", "item", "key"] as const;
const MODULUS = 1n << 256n;

export async function* rowsOf(end: End): AsyncGenerator<readonly MovedRow[]> {
  let cursor: string | null = null;
  do {
    const page: { rows: readonly MovedRow[]; cursor: string | null } = await end.moving.dump(cursor);
    if (page.rows.length > 0) yield page.rows;
    cursor = page.cursor;
  } while (cursor !== null);
}

export async function tally(end: End): Promise<Tallies> {
  const sums = new Map(KINDS.map((kind) => [kind as MovedRow["of"], { count: 0, sum: 0n }]));
  for await (const rows of rowsOf(end)) {
    for (const row of rows) {
      const sum = sums.get(row.of);
      if (!sum) throw new Error(`a copy met a row of the kind ${row.of}`);
      sum.count += 1;
      sum.sum = (sum.sum + BigInt(`0x${hashOf(row)}`)) % MODULUS;
    }
  }
  const entries = [...sums].map(([kind, { count, sum }]) => [kind, { count, digest: sum.toString(16) }]);
  return Object.fromEntries(entries) as Tallies;
}

/** The kinds of rows in which two stores differ. */
export function differences(a: Tallies, b: Tallies): MovedRow["of"][] {
  return KINDS.filter((kind) => a[kind].count !== b[kind].count || a[kind].digest !== b[kind].digest);
}

function hashOf(row: MovedRow): string {
  return createHash("sha256")
    .update(JSON.stringify(plain(row)))
    .digest("hex");
}

/** Fields in the order of their names; bytes told apart from text; without what a clock changes. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: createHash("sha256").update(value).digest("hex") };
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  const fields = Object.entries(value).filter(([name]) => name !== "remainingMs");
  return fields.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, field]) => [name, plain(field)]);
}
