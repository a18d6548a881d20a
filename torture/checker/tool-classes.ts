/** The checker's own knowledge of each tool, independent of what a planted bug tells the ledger. */

import type { ToolName } from "../scenario.ts";

export interface ToolClass {
  readonly read?: true;
  /** Repeating with the same key is safe. */
  readonly idempotent?: true;
  readonly verifies?: "fence" | "time";
  /** An unknown outcome may be declared failed. */
  readonly givesUp?: true;
}

const TOOL_CLASSES: Readonly<Record<ToolName, ToolClass>> = {
  read: { read: true },
  keyed: { idempotent: true },
  fenced: { verifies: "fence" },
  timed: { verifies: "time" },
  ask: {},
  fail: { givesUp: true },
  once: { verifies: "fence" },
  onceFail: { givesUp: true },
  write: { idempotent: true },
};

export function classOf(tool: string): ToolClass {
  const found = TOOL_CLASSES[tool as ToolName];
  if (!found) throw new Error(`the checker does not know the tool ${tool}`);
  return found;
}
