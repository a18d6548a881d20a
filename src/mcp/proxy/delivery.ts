/**
 * Maps a request of the client to a call of the ledger, and tracks which answers were delivered.
 *
 * A request with the tool and arguments of an earlier call is either a new call or a retry of one whose
 * answer was lost. The difference is whether that answer arrived. Equal calls are numbered,
 * `mcp_<fingerprint>.<n>`:
 *
 *     the latest is open                      the same call: settle it, or await the running one
 *     completed, delivery not confirmed       the same call: replay the recorded answer with a note
 *     completed and delivered, or failed      a new call, number n + 1
 *
 * Over stdio an answer travels: ledger ──▶ pipe ──▶ client's memory ──▶ the agent's own record.
 *
 *   - A write to the pipe proves nothing: the client may die before it reads.
 *   - After each answer the proxy sends a `ping` through the same pipe. Pipes keep their order, so a client
 *     that answers the ping has read the answer. A client that gave the call up sends
 *     `notifications/cancelled` first. Only then is the delivery recorded in the session.
 *   - The protocol of 2026-07-28 has no ping: the client's next request counts, weaker evidence.
 *   - Over HTTP neither holds, since each answer has a stream of its own. The next request on the same socket
 *     counts: HTTP/1.1 sends it only after the answer was read.
 *   - Within one connection no record is needed: an answer to a client that is still connected is not lost.
 *   - An agent resumed from an older record may repeat a call whose answer it had read, and that repeat runs.
 *     `dedupe: session`, `global` or a key prevents it.
 *
 * A crash between answer and record leaves a delivered answer without a record. The next identical call then
 * gets the recorded answer with a note: a new call is delayed, no effect is doubled.
 */

import { commitFailure, type FailureMarks, storeResult } from "../../ledger/index.ts";
import { sha256 } from "../../model/digest.ts";
import { canonicalJson, type Json } from "../../model/json.ts";
import { type Call, draftCompleted, isOpen } from "../../model/session/index.ts";
import type { Draft } from "../../model/stream/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import type { Id } from "./json-rpc.ts";

/** A late answer: a result, or proof that nothing happened. */
export type LateOutcome = { readonly value: Json } | { readonly failure: string };

/**
 * Records an answer that arrives after its call was given up. The call may already wait for a person, who
 * knows less than the server. It needs no lease: it only settles a call that is still open.
 */
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
    // A failure of this attempt proves nothing about another attempt.
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
  private readonly latest = new Map<string, number>();
  /** Numbers of calls whose answer was written to this connection and not cancelled. */
  private readonly answered = new Map<string, number>();
  private readonly unread = new Map<Id, Answered>();

  constructor(session: Pick<Session, "metadata" | "describe">, find: (callId: string) => Call | undefined) {
    this.session = session;
    this.find = find;
  }

  /** `always`: the ledger's own keys detect repeats, so a finished call is followed by a new number. */
  numbered(tool: string, args: Json, always: boolean): NumberedCall {
    const fingerprint = sha256(canonicalJson([tool, args])).slice(0, 24);
    let number = this.latest.get(fingerprint) ?? 1;
    while (this.find(idOf(fingerprint, number + 1))) number += 1;
    this.latest.set(fingerprint, number);
    const latest = this.find(idOf(fingerprint, number));
    const isNew = latest && this.isFinished(latest, fingerprint, number, always);
    if (isNew) number += 1;
    return { callId: idOf(fingerprint, number), fingerprint, number };
  }

  /** The same call one number earlier, if it ran to its end. */
  earlier({ fingerprint, number }: NumberedCall): Call | undefined {
    const call = number > 1 ? this.find(idOf(fingerprint, number - 1)) : undefined;
    return call?.status === "completed" ? call : undefined;
  }

  /** `isOrdered`: a client that sends something later on this connection has the answer, or will have it. */
  sent(call: NumberedCall, requestId: Id, pingId: Id, isOrdered: boolean): void {
    if (isOrdered) this.answered.set(call.fingerprint, call.number);
    this.unread.set(pingId, { ...call, requestId });
  }

  /** The client cancelled the request, so it will not use the answer. */
  cancelled(requestId: Id): void {
    for (const [pingId, each] of this.unread) {
      if (each.requestId !== requestId) continue;
      this.unread.delete(pingId);
      this.answered.delete(each.fingerprint);
    }
  }

  async read(pingId: Id): Promise<void> {
    const answer = this.unread.get(pingId);
    if (!answer) return;
    this.unread.delete(pingId);
    this.answered.set(answer.fingerprint, answer.number);
    await this.record([answer]);
  }

  /** Without pings: the client's next request confirms all earlier answers. */
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

  private isFinished(call: Call, fingerprint: string, number: number, always: boolean): boolean {
    if (isOpen(call.status)) return false;
    if (always || call.status === "failed") return true;
    return Math.max(this.recorded(fingerprint), this.answered.get(fingerprint) ?? 0) >= number;
  }
}

function idOf(fingerprint: string, number: number): string {
  return `mcp_${fingerprint}.${number}`;
}
