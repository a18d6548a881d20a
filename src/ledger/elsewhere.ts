/**
 * A key that another session has claimed: the same operation, once over all sessions. Its outcome is read there.
 *
 *     finished there ──▶ repeated here, with its result      failed there ──▶ its key is free again: try again
 *     open there ──▶ not ours to decide: later               its session was removed ──▶ it was done; say so
 */

import type { Journal } from "../journal/index.ts";
import { streamId } from "../model/names.ts";
import { type Call, isOpen, sessionKind } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { callOf, type LedgerContext, mustNotBeCancelled } from "./context.ts";
import type { Closing } from "./recording.ts";
import type { Ready } from "./wave.ts";

/** The call of another session that has the key and no outcome yet. */
export interface Blocker {
  readonly session: string;
  readonly callId: string;
  /** Whether it waits for a person. */
  readonly person: boolean;
}

export type SettledElsewhere = "settled" | "retry" | Blocker;

export async function settleElsewhere(
  context: LedgerContext,
  ready: Ready,
  by: { stream: string; seq: number },
  closing: Closing,
): Promise<SettledElsewhere> {
  const first = await findCall(context.journal, by, ready.key.key);
  const session = streamId(by.stream);
  if (first && isOpen(first.status)) return { session, callId: first.id, person: first.status === "waiting" };
  if (first?.status === "failed") return "retry";
  const { callId, messageId, tool, raw: args, key } = ready;
  const draft: Draft = first
    ? {
        type: "call.repeated",
        data: {
          callId,
          messageId,
          tool: tool.name,
          effect: tool.effect,
          args,
          key: key.key,
          of: { session, callId: first.id },
          since: first.settledAt ?? first.issuedAt,
          ...(first.result && { result: first.result }),
        },
      }
    : {
        type: "call.failed",
        data: { callId, attempt: 0, error: removed(session), by: "tool", messageId, tool: tool.name, args },
      };
  await context.own.write((state) => {
    mustNotBeCancelled(context.session, state);
    if (state.calls.has(callId)) return { events: [], result: undefined };
    return { events: [draft, ...closing(state, callId)], result: undefined };
  });
  const call = callOf(context.own.state, callId);
  if (call.repeats) context.on({ type: "call.repeated", callId, tool: tool.name, of: call.repeats.callId });
  else if (call.error)
    context.on({ type: "call.failed", callId, tool: tool.name, error: call.error.message });
  return "settled";
}

function removed(session: string): { message: string } {
  return {
    message: `Not run: session ${session}, since removed, did this already, and its result is no longer on record.`,
  };
}

/** The call that holds the claim, as it stands now in its own session; null when that session is gone. */
async function findCall(
  journal: Journal,
  by: { stream: string; seq: number },
  key: string,
): Promise<Call | null> {
  // Opened and not just read, although nothing is written to it: who acts on a record verifies it.
  const log = await journal.open(sessionKind, streamId(by.stream));
  if (!log.exists) return null;
  for (const call of log.state.calls.values()) {
    // A session of the same name that came later may have another call at that place.
    if (call.seq === by.seq && call.key === key) return call;
  }
  return null;
}
