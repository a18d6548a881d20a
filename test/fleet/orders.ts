/** What the harness, the workers and the checker of a fleet agree on. */

import type { Scenario, ScriptedCall } from "../../torture/scenario.ts";

/** What a worker is started with, as the text of its only argument. */
export interface WorkerConfig {
  /** Of the store, as `open` takes it. */
  readonly address: string;
  /** Where acknowledgements and the world's log are kept. */
  readonly dir: string;
  /** The world's socket. */
  readonly world: string;
  readonly leaseMs: number;
  /** The model thinks up to this long before it answers. */
  readonly thinkMs: number;
  /** The wall clock of this worker jumps ahead and back by this much, again and again; 0 for one that is right. */
  readonly jumpMs: number;
  /** A planted bug of `torture/agent/planted-bugs.ts`. */
  readonly plant: string | null;
}

/** A worker says how a session that it was told to run has ended for it. */
export type Ending =
  | { readonly at: "result"; readonly session: string; readonly status: string; readonly persons: number }
  /** Somebody else has it, or has taken it over. */
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
