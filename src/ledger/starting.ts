/**
 * From a durable intent to a recorded outcome. The attempt is registered for as long as it runs, so that nobody else
 * in this process takes it for lost.
 */

import { failpoint } from "../failpoint.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { callOf, executeFacts, type LedgerContext } from "./context.ts";
import { type Attempt, type Closing, recordOutcome, watchLate } from "./recording.ts";
import type { Tool } from "./tool.ts";
import { isOpenToDoubt, lookedInto } from "./verifying.ts";

export function startAndRecord(
  context: LedgerContext,
  run: Attempt,
  vendorKey: string,
  tool: Tool,
  args: unknown,
  closing: Closing,
): Promise<Outcome> {
  const work = start(context, run, vendorKey, tool, args, closing);
  context.attempts.track(run.id, work);
  return work;
}

async function start(
  context: LedgerContext,
  run: Attempt,
  vendorKey: string,
  tool: Tool,
  args: unknown,
  closing: Closing,
): Promise<Outcome> {
  const { lease } = context.own;
  try {
    let ask: (() => Promise<void>) | null = null;
    while (!mayStart(context)) {
      ask ??= context.journal.leases.confirmationPoller(lease);
      await ask();
    }
  } catch (error) {
    const never: Outcome = { kind: "unknown", why: "stopped before it began", late: null, started: false };
    if (!lease.lost.aborted) await recordOutcome(context, run, never, closing);
    throw error;
  }
  const facts = executeFacts(context, { id: run.id, vendorKey }, run.attempt);
  const answer = attempt(tool, args, facts);
  let outcome = answer instanceof Promise ? await answer : answer;
  failpoint("call.executed");
  if (outcome.kind === "failed" && outcome.presumed) {
    const call = callOf(context.own.state, run.id);
    if (isOpenToDoubt(tool, call))
      outcome = await lookedInto({ context, call, tool, args }, outcome.error.message);
  }
  // Before anything is written: a process that has lost its lease still records its attempt's own answer.
  if (outcome.kind === "unknown" && outcome.late) watchLate(context, run, outcome.late);
  const recorded = recordOutcome(context, run, outcome, closing);
  if (recorded instanceof Promise) await recorded;
  return outcome;
}

/**
 * The last look before an effect. The intent is durable under our lease, which must still be ours; false when the store
 * has to be asked first. Nothing is awaited between the look and the start: a process that is stopped at the start of
 * one call looks again before the next.
 */
function mayStart(context: LedgerContext): boolean {
  if (!context.journal.leases.isSurelyHeld(context.own.lease)) return false;
  context.stop.throwIfAborted();
  failpoint("call.starts");
  return true;
}
