/**
 * Which mutant is active in this process. Instrumented sources import `__m` from a copy of this file. A child
 * process gets its mutant from the environment. While coverage is recorded, it notes the mutants it reaches.
 */

import { appendFileSync } from "node:fs";

export interface Active {
  id: number;
  /** Mutants that were reached since the last test began. Null: nothing is recorded. */
  reached: Set<number> | null;
}

const HITS = process.env["MUTANT_HITS"];
const shared = globalThis as { holdfastMutant?: Active };
const isChild = HITS !== undefined && shared.holdfastMutant === undefined;
/** Set by the suite in the process of the tests. A child process has none. */
shared.holdfastMutant ??= {
  id: Number(process.env["MUTANT"] ?? 0),
  reached: HITS === undefined ? null : new Set(),
};
const active = shared.holdfastMutant;

export function __m(id: number): boolean {
  const { reached } = active;
  if (reached !== null && !reached.has(id)) {
    reached.add(id);
    if (isChild) note(id);
  }
  return active.id === id;
}

function note(id: number): void {
  try {
    appendFileSync(HITS as string, `${id}\n`);
  } catch {
    // A test of a process without descriptors. Its mutants count as not reached by it.
  }
}
