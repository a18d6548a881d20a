/** The types that the harness, the workers and the checker of a fleet share. */

import type { Scenario, ScriptedCall } from "../../torture/scenario.ts";

/** The configuration of a worker: its only argument, as JSON. */
export interface WorkerConfig {
  /** The store's address for `open`. */
  readonly address: string;
  /** The folder of the acknowledgements and of the world's log. */
  readonly dir: string;
  /** The world's socket. */
  readonly world: string;
  readonly leaseMs: number;
  /** The model thinks up to this long before it answers. */
  readonly thinkMs: number;
  /**
   * The wall clock of this worker jumps ahead and back by this much, again and again; 0 for one that is
   * right.
   */
  readonly jumpMs: number;
  /** A planted bug of `torture/agent/planted-bugs.ts`. */
  readonly plant: string | null;
}

/** A worker's report on the end of a session that it ran. */
export type Ending =
  | { readonly at: "result"; readonly session: string; readonly status: string; readonly persons: number }
  /** Another worker holds it or has taken it over. */
  | { readonly at: "gone"; readonly session: string; readonly code: string };

const SCRIPT: readonly (readonly ScriptedCall[])[] = [
  [
    { tool: "keyed", item: "a" },
    { tool: "fenced", item: "b" },
    { tool: "read", item: "c" },
  ],
  [{ tool: "ask", item: "d" }],
  [
    { tool: "keyed", item: "e", world: { lose: 1 } },
    { tool: "fenced", item: "f", world: { lose: 1 } },
  ],
  [{ tool: "write", item: "v1" }],
  [
    { tool: "write", item: "v2" },
    { tool: "fail", item: "g" },
  ],
  [{ tool: "write", item: "v1" }],
];

/** The same for every session, but for what it acts on: the world counts requests by item. */
export function scriptOf(session: string): Scenario {
  const turns = SCRIPT.map((calls) => calls.map((call) => ({ ...call, item: `${call.item} of ${session}` })));
  return { name: "fleet", turns, parallel: 3 };
}
