/**
 * One file holds one measure; `main.ts` has the table of all. To add one, write its file and name it in the
 * table.
 */

import type { Scratch } from "./scratch.ts";

/** Named figures behind a value. Their names end in their unit. */
export type Numbers = Readonly<Record<string, number>>;

export interface Measured {
  readonly value: number;
  readonly numbers: Numbers;
}

export interface Measure {
  readonly name: string;
  /** The comparison, in one line. */
  readonly what: string;
  /** Null for a figure that has no bar. */
  readonly bar: number | null;
  readonly direction: "at most" | "at least";
  run(scratch: Scratch): Promise<Measured>;
}

export interface Result extends Measured {
  readonly bar: number | null;
  readonly ok: boolean;
  readonly direction: Measure["direction"];
}

export function judge(measure: Measure, measured: Measured): Result {
  const { bar, direction } = measure;
  const { value, numbers } = measured;
  const isMet = bar === null || (direction === "at most" ? value <= bar : value >= bar);
  return { value, bar, ok: isMet && Number.isFinite(value), direction, numbers };
}
