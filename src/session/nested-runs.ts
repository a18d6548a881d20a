/**
 * Recognises a run that is started from within a run of the same session: a tool that awaited it would wait
 * forever.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { HoldfastError } from "../model/errors.ts";
import type { SessionCore } from "./session-core.ts";

interface ActiveRun {
  readonly session: SessionCore;
  /** The run of another session whose tool started this one. */
  readonly outer: ActiveRun | undefined;
  /** True when the run has ended. Work that a tool left behind still has this store. */
  isOver: boolean;
}

const innermost = new AsyncLocalStorage<ActiveRun>();
let activeRuns = 0;

export function isWithinRunOf(session: SessionCore): boolean {
  for (let run = innermost.getStore(); run; run = run.outer) {
    if (run.session === session && !run.isOver) return true;
  }
  return false;
}

export async function asRunOf<Result>(session: SessionCore, work: () => Promise<Result>): Promise<Result> {
  const run: ActiveRun = { session, outer: innermost.getStore(), isOver: false };
  activeRuns += 1;
  try {
    return await innermost.run(run, work);
  } finally {
    run.isOver = true;
    activeRuns -= 1;
    // On Node 20 every promise of the process pays for an enabled AsyncLocalStorage.
    if (activeRuns === 0) innermost.disable();
  }
}

export function nestedRun(session: string): HoldfastError {
  const problem = "run was called from within a run of the same session, which would wait for itself";
  const otherwise = "For a sub-agent use agentTool(). sessions.prompt() queues a message.";
  const hint = `Call it when that run has ended. ${otherwise}`;
  return new HoldfastError("INPUT_INVALID", `session ${session}: ${problem}`, { hint, data: { session } });
}
