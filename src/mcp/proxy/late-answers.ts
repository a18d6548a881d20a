/**
 * An answer that comes after its call was given up. By then the call may wait for a person, who knows less than the server
 * does: so it is recorded, as the ledger records what a tool answers after its time-out. That needs no lease, since
 * it can only add to what is known; what somebody else has found out first stands.
 */

import { commitFailure, type FailureMarks, storeResult } from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";
import { type Call, draftCompleted, isOpen } from "../../model/session/index.ts";
import type { Draft } from "../../model/stream/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";

/** What the answer says: a result, or that nothing can have happened. */
export type LateOutcome = { readonly value: Json } | { readonly failure: string };

export async function recordLate(
  session: Session,
  { callId, attempt }: { readonly callId: string; readonly attempt: number },
  outcome: LateOutcome,
): Promise<void> {
  const { own, journal } = sessionCore(session);
  const { generation } = own.log.head;
  const result = "value" in outcome ? await storeResult(journal, outcome.value) : null;
  const draft = (call: Call, marks: FailureMarks): Draft | null => {
    if (result) return draftCompleted({ callId, attempt: call.attempt, result, by: "late" });
    // That this attempt did nothing says nothing about another one.
    if (call.attempt !== attempt || (call.doubt !== null && call.doubt !== attempt)) return null;
    const error = { message: "failure" in outcome ? outcome.failure : "" };
    return { type: "call.failed", data: { callId, attempt, error, by: "late", ...marks } };
  };
  const commit = (marks: FailureMarks) =>
    own.log.commit((state, head) => {
      const call = head.generation === generation ? state.calls.get(callId) : undefined;
      const late = call && isOpen(call.status) ? draft(call, marks) : null;
      return { events: late ? [late] : [], result: undefined };
    });
  await commitFailure(journal, own.state.calls.get(callId), commit);
}
