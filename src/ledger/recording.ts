/**
 * Writing down what an attempt came to. With the lease: as its owner. Without it: only the attempt's own late
 * answer, which anyone may append because it can only add to what is known.
 */

import { failpoint } from "../failpoint.ts";
import { type Call, type Draft, isHoldfastError, isOpen, type SessionState } from "../model/index.ts";
import type { Outcome } from "./attempt.ts";
import { type LedgerContext, storeResult } from "./context.ts";

/** Drafts that close the message once its last call is settled; they ride on that call's own commit. */
export type Closing = (state: SessionState, settledNow: string) => readonly Draft[];

/** Records the outcome; what somebody else recorded first stands. */
export async function recordOutcome(
  context: LedgerContext,
  call: { readonly id: string; readonly attempt: number; readonly tool: string },
  outcome: Outcome,
  closing: Closing,
): Promise<void> {
  const stored = outcome.kind === "completed" ? await storeResult(context.journal, outcome.value) : null;
  const decide = (by: "execute" | "late") => (state: SessionState) => {
    const current = state.calls.get(call.id);
    if (
      !current ||
      !isOpen(current.status) ||
      (current.attempt !== call.attempt && outcome.kind !== "completed")
    ) {
      return { events: [], result: false };
    }
    const draft = outcomeDraft(current, outcome, stored?.result ?? null, by);
    const settled = outcome.kind !== "unknown";
    const riders = settled ? (context.riders.get(call.id) ?? []) : [];
    const events =
      settled && by === "execute" ? [draft, ...riders, ...closing(state, call.id)] : [draft, ...riders];
    const releases =
      outcome.kind === "failed" && current.scope === "global" ? { releases: [current.key] } : {};
    return { events, result: true, ...releases, ...(stored && { artifacts: stored.artifacts }) };
  };
  try {
    const wrote = await context.own.write(decide("execute"));
    failpoint("call.recorded");
    if (wrote) announce(context, call, outcome);
  } catch (error) {
    if (isHoldfastError(error, "LEASE_LOST") && outcome.kind !== "unknown") {
      await context.own.log.commit(decide("late"));
    }
    throw error;
  }
}

/** Keeps an eye on an attempt that was given up: its answer, when it comes, is recorded without the lease. */
export function watchLate(context: LedgerContext, call: Call, late: Promise<Outcome>): void {
  const attempt = call.attempt;
  const watching = late
    .then(async (outcome) => {
      if (outcome.kind === "unknown") return;
      const stored = outcome.kind === "completed" ? await storeResult(context.journal, outcome.value) : null;
      await context.own.log.commit((state) => {
        const current = state.calls.get(call.id);
        if (!current || !isOpen(current.status) || current.attempt !== attempt) {
          return { events: [], result: undefined };
        }
        const draft = outcomeDraft(current, outcome, stored?.result ?? null, "late");
        return { events: [draft], result: undefined, ...(stored && { artifacts: stored.artifacts }) };
      });
    })
    .catch((error: unknown) => context.journal.warn(error))
    .finally(() => {
      if (context.running.get(call.id) === watching) context.running.delete(call.id);
    });
  context.running.set(call.id, watching);
}

function outcomeDraft(
  call: Call,
  outcome: Outcome,
  result: Awaited<ReturnType<typeof storeResult>>["result"] | null,
  by: "execute" | "late",
): Draft {
  const { id: callId, attempt } = call;
  switch (outcome.kind) {
    case "completed":
      return {
        type: "call.completed",
        data: { callId, attempt, result, by, ...(outcome.note !== null && { why: outcome.note }) },
      };
    case "failed":
      return {
        type: "call.failed",
        data: { callId, attempt, error: outcome.error, by: by === "late" ? by : "definite" },
      };
    case "unknown":
      return { type: "call.lost", data: { callId, attempt, why: outcome.why } };
  }
}

function announce(context: LedgerContext, call: { id: string; tool: string }, outcome: Outcome): void {
  const { id: callId, tool } = call;
  if (outcome.kind === "completed") context.on({ type: "call.completed", callId, tool, by: "execute" });
  else if (outcome.kind === "failed")
    context.on({ type: "call.failed", callId, tool, error: outcome.error.message });
  else context.on({ type: "call.unknown", callId, tool, why: outcome.why });
}
