/**
 * Which call of the ledger a request of the client is, and when an answer counts as delivered.
 *
 * The same tool with the same arguments may be meant twice: an agent may want two rows. Or it is the same call again,
 * because its answer was lost when a process died. The requests look alike; what tells them apart is whether the first
 * answer has arrived. Calls of the same tool with the same arguments are numbered, `mcp_<fingerprint>.<n>`, and:
 *
 *     the latest is open                        the same call: it is settled, or the running one is awaited
 *     completed, and not known as delivered     the same call: the recorded answer is given again, and says so
 *     completed and delivered, or failed        another call, number n + 1: it is run
 *
 * Over stdio an answer goes: ledger ──▶ pipe ──▶ client's memory ──▶ the agent's own record. What is known of that:
 *
 *  - Taken by the pipe says nothing: the client may die without having read it.
 *  - After each answer that matters we send a `ping` down the same pipe. Pipes keep their order, so a client that answers
 *    the ping has read the answer before. If it had given the call up by then, its `notifications/cancelled` would have
 *    come first, and the answer does not count. Only now is it recorded as delivered, in the session.
 *  - The protocol of 2026-07-28 has no ping. There the next request of the client counts in its place. That is weaker: a
 *    client that has several requests under way may have sent it before it read the answer.
 *  - Within one connection no record is needed: an answer that the pipe took, to a client that is still there and has not
 *    cancelled, is not lost; the same call again is another call.
 *  - Whether the agent has written the answer down before it died cannot be known from here. An agent that is resumed
 *    from an older record of its own may repeat a call whose answer had been read; that repeat is run. For tools where
 *    that must not be, declare `dedupe: session`, `global` or a key: then it is never run again.
 *
 * A crash between answer and ping, or between ping and record, leaves an answer that was read and does not count as
 * delivered. The next identical call then gets it again and is told so, instead of being run: the call that is meant
 * anew is delayed, the effect is never doubled.
 */

import { sha256 } from "../../model/digest.ts";
import { canonicalJson, type Json } from "../../model/json.ts";
import { type Call, isOpen, draftCompleted } from "../../model/session/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import type { Id } from "./json-rpc.ts";
import { commitFailure, type FailureMarks, storeResult } from "../../ledger/index.ts";
import type { Draft } from "../../model/stream/index.ts";

/**
 * An answer that comes after its call was given up. By then the call may wait for a person, who knows less than the server
 * does: so it is recorded, as the ledger records what a tool answers after its time-out. That needs no lease, since
 * it can only add to what is known; what somebody else has found out first stands.
 */



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



/** One call of the ledger, as a request of the client names it. */
export interface NumberedCall {
  readonly callId: string;
  readonly fingerprint: string;
  readonly number: number;
}

interface Answered extends NumberedCall {
  readonly requestId: Id;
}

const RECORD = "mcp.delivered.";

export class Deliveries {
  private readonly session: Pick<Session, "metadata" | "describe">;
  private readonly find: (callId: string) => Call | undefined;
  /** Where the count stood when it was last looked at. */
  private readonly latest = new Map<string, number>();
  /** Taken by this connection's pipe, to a client that has not cancelled. */
  private readonly answered = new Map<string, number>();
  /** Waits for the client's sign that it was read, by the id of the ping. */
  private readonly unread = new Map<Id, Answered>();

  constructor(session: Pick<Session, "metadata" | "describe">, find: (callId: string) => Call | undefined) {
    this.session = session;
    this.find = find;
  }

  /** `always`: the ledger's own keys decide about repeats, so every finished call is followed by a new one. */
  numbered(tool: string, args: Json, always: boolean): NumberedCall {
    const fingerprint = sha256(canonicalJson([tool, args])).slice(0, 24);
    let number = this.latest.get(fingerprint) ?? 1;
    while (this.find(idOf(fingerprint, number + 1))) number += 1;
    this.latest.set(fingerprint, number);
    const latest = this.find(idOf(fingerprint, number));
    const isAnother = latest && this.isOver(latest, fingerprint, number, always);
    if (isAnother) number += 1;
    return { callId: idOf(fingerprint, number), fingerprint, number };
  }

  /** The pipe has taken the answer; `pingId` is the ping that went after it, or a name for the request that is awaited. */
  sent(call: NumberedCall, requestId: Id, pingId: Id): void {
    this.answered.set(call.fingerprint, call.number);
    this.unread.set(pingId, { ...call, requestId });
  }

  /** The client gave the request up: if it had not read the answer by then, it never will. */
  cancelled(requestId: Id): void {
    for (const [pingId, each] of this.unread) {
      if (each.requestId !== requestId) continue;
      this.unread.delete(pingId);
      this.answered.delete(each.fingerprint);
    }
  }

  /** The client has read everything up to this ping. */
  async read(pingId: Id): Promise<void> {
    const answer = this.unread.get(pingId);
    if (!answer) return;
    this.unread.delete(pingId);
    await this.record([answer]);
  }

  /** Without pings: a request that comes after an answer stands for having read it. */
  async readAll(): Promise<void> {
    const answers = [...this.unread.values()];
    this.unread.clear();
    await this.record(answers);
  }

  private async record(answers: readonly NumberedCall[]): Promise<void> {
    if (answers.length === 0) return;
    const metadata = Object.fromEntries(
      answers.map(({ fingerprint, number }) => [
        RECORD + fingerprint,
        Math.max(number, this.recorded(fingerprint)),
      ]),
    );
    await this.session.describe({ metadata });
  }

  private recorded(fingerprint: string): number {
    return Number(this.session.metadata[RECORD + fingerprint] ?? 0);
  }

  private isOver(call: Call, fingerprint: string, number: number, always: boolean): boolean {
    if (isOpen(call.status)) return false;
    if (always || call.status === "failed") return true;
    return Math.max(this.recorded(fingerprint), this.answered.get(fingerprint) ?? 0) >= number;
  }
}

function idOf(fingerprint: string, number: number): string {
  return `mcp_${fingerprint}.${number}`;
}
