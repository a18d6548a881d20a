/** What lists and views may see of a stream. An absent field keeps its value, `null` clears it. */
export interface StreamFacets {
  readonly status?: string | null;
  readonly title?: string | null;
  readonly goal?: string | null;
  /** How many calls have no outcome yet; a stream with open calls is not removed. */
  readonly openCalls?: number;
  /** Wall clock, milliseconds: after this the state counts as stale. */
  readonly expiresAt?: number | null;
  /** Small JSON text, for the budgets view. */
  readonly budget?: string | null;
}

/** The last moment that a Date can hold. Every store can keep it, and JavaScript can read it back. */
const LAST_MOMENT = 8_640_000_000_000_000;

/** When what was changed at `at` and lives for `ttlMs` counts as stale: a whole number, however long that is. */
export function expiryOf(at: number, ttlMs: number): number {
  return Math.min(Math.floor(at + ttlMs), LAST_MOMENT);
}

/**
 * One row that lists and views may see inside a stream: a call, a checkpoint, a decision. Absent fields keep
 * their value. An item without `doneAt` is open.
 */
export interface Item {
  readonly kind: string;
  readonly id: string;
  /** The event that holds the content of its beginning, and of its end. */
  readonly seq?: number;
  readonly endSeq?: number;
  readonly status?: string;
  readonly name?: string;
  readonly key?: string;
  readonly at?: number;
  readonly doneAt?: number | null;
}
