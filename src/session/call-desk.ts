/** Calls from outside: the queue of those that wait for a person, and that person's answers. */

import { allRows, type Journal } from "../journal/index.ts";
import { storeResult, withNextMark } from "../ledger/index.ts";
import {
  type Call,
  type CallResult,
  copyJson,
  type Draft,
  HoldfastError,
  isHoldfastError,
  isOpen,
  isUnbegun,
  type Json,
  type SessionState,
  sessionKind,
  streamId,
} from "../model/index.ts";
import type { ItemRow, Page } from "../store.ts";
import { putBeforePerson } from "./abandoned-calls.ts";
import type { Spoken } from "./sessions.ts";
import { noSession } from "./versions.ts";

export interface OpenCall {
  readonly session: string;
  readonly callId: string;
  readonly tool: string;
  readonly status: string;
  readonly key: string | null;
  readonly issuedAt: Date;
  /** What it was asked to do. Null where its session cannot be read, as without the codec that wrote it. */
  readonly args: Json;
  /** Why nobody knows its outcome, or why it waits. */
  readonly why: string | null;
}

export type Answer =
  /** It happened; `result` is what the tool would have returned. Not for a call that needs approval: it has not been run. */
  | { readonly outcome: "landed"; readonly result?: unknown }
  /** It did not happen and cannot any more, or it is approved: the next run tries once more. */
  | { readonly outcome: "retry" }
  /** It did not happen: the agent is told and decides. */
  | { readonly outcome: "failed" };

const READ_AT_ONCE = 8;

export class CallDesk {
  private readonly journal: Journal;

  constructor(journal: Journal) {
    this.journal = journal;
  }

  /**
   * Calls without an outcome over all sessions, oldest first, `limit` at once (50). What a call was asked to do stands only in its
   * session, so each session on the page is read, once: where there are many, take them page by page.
   */
  async list(
    options: { limit?: number; cursor?: string } = {},
  ): Promise<{ calls: OpenCall[]; cursor: string | null }> {
    const { rows, cursor } = await this.rows(options);
    const said = await this.saidOf(rows);
    const calls = rows.map((row) => {
      const { args = null, why = null } = said.get(row) ?? {};
      return {
        session: streamId(row.stream),
        callId: row.id,
        tool: row.name ?? "unknown",
        status: row.status ?? "unknown",
        key: row.key,
        issuedAt: new Date(row.at ?? 0),
        args,
        why,
      };
    });
    return { calls, cursor };
  }

  private rows({ limit = 50, ...rest }: { limit?: number; cursor?: string }): Promise<Page<ItemRow>> {
    return this.journal.list<"items">({ of: "items", kind: "call", open: true, limit, ...rest });
  }

  /** What only the sessions know of these calls. A few sessions at a time are read, because some are large. */
  private async saidOf(rows: readonly ItemRow[]): Promise<Map<ItemRow, Pick<Call, "args" | "why">>> {
    const said = new Map<ItemRow, Pick<Call, "args" | "why">>();
    const sessions = [...new Set(rows.map(({ stream }) => stream))];
    const look = async (stream: string): Promise<void> => {
      const state = await this.read(streamId(stream));
      for (const row of rows.filter((each) => each.stream === stream)) {
        const call = state?.calls.get(row.id);
        if (call) said.set(row, { args: call.args, why: call.why });
      }
    };
    for (let from = 0; from < sessions.length; from += READ_AT_ONCE) {
      await Promise.all(sessions.slice(from, from + READ_AT_ONCE).map(look));
    }
    return said;
  }

  /** Null: it is encrypted, or of a later release; what lists say of its calls is there all the same. */
  private async read(id: string): Promise<SessionState | null> {
    try {
      return (await this.journal.load(sessionKind, id)).state;
    } catch (error) {
      if (!isHoldfastError(error) || error.code.startsWith("STORE_")) throw error;
      return null;
    }
  }

  /** Settles a waiting call. Who said it and why is recorded with it. The call's session goes on at its next run. */
  async resolve(
    call: string | { readonly session: string; readonly callId: string },
    answer: Answer & { readonly by: string; readonly why: string },
  ): Promise<void> {
    const { session, callId } = typeof call === "string" ? await this.find(call) : call;
    const log = await this.journal.open(sessionKind, session);
    if (!log.exists) throw noSession(session, this.journal.store.address);
    const given = answer.outcome === "landed" ? answer.result : undefined;
    const result = await storeResult(this.journal, given === undefined ? null : copyJson(given, "result"));
    const held = await this.journal.leases.isHeld(log.stream);
    const { call: waiting } = waitingCall(log.state, session, callId, held);
    const { key } = waiting;
    if (answer.outcome === "landed" && isUnbegun(waiting)) throw notRun(session, callId);
    const { generation, seq } = log.head;
    const commit = (failures: number) =>
      log.commit((state, head) => {
        // Removed meanwhile: what was answered is not the call of another session that has its name.
        if (head.generation !== generation) throw noSession(session, this.journal.store.address);
        // Whoever has written since may have taken the session over: then its calls are that one's.
        const { call: current, before } = waitingCall(state, session, callId, held || head.seq !== seq);
        return { events: [...before, answerDraft(current, answer, result, failures)], result: undefined };
      });
    await withNextMark(this.journal, key, commit);
  }

  private async find(callId: string): Promise<{ session: string; callId: string }> {
    const open = await allRows((from) => this.rows({ limit: 500, ...from }));
    const found = open
      .filter(({ id }) => id === callId)
      .map(({ stream }) => ({ session: streamId(stream), callId }));
    const [first, second] = found;
    if (first && !second) return first;
    const problem = second
      ? `is open in several sessions: ${found.map((each) => each.session).join(", ")}`
      : "is not open";
    throw new HoldfastError("CALL_NOT_FOUND", `call ${callId} ${problem}`, {
      hint: second ? "Say which session you mean." : "List the open calls; it may have been settled already.",
    });
  }
}

/** Also one that would wait, if its session had not been ended before anybody could say so. */
function waitingCall(
  state: SessionState,
  session: string,
  callId: string,
  held: boolean,
): { call: Call; before: Draft[] } {
  const call = state.calls.get(callId);
  if (call?.status === "waiting") return { call, before: [] };
  const isAbandoned = state.status !== "active" && !held;
  if (call && isOpen(call.status) && isAbandoned) return { call, before: putBeforePerson([call]) };
  const known = call ? `is ${call.status}` : "is not in its log";
  const hint =
    call && isOpen(call.status)
      ? "Its session is still finding out by itself. Answer once it waits for a person, or cancel the session."
      : "Nothing is left to decide.";
  throw new HoldfastError(
    "CALL_NOT_WAITING",
    `call ${callId} of session ${session} ${known}: it waits for nobody`,
    { hint },
  );
}

function notRun(session: string, callId: string): HoldfastError {
  return new HoldfastError(
    "CALL_TRANSITION",
    `call ${callId} of session ${session} has not been run: it cannot have landed`,
    {
      hint: "Say retry to let it run, or failed to refuse it.",
      data: { session, callId },
    },
  );
}

/** `failures` is 0 unless others have failed with the same global key since the call was issued. */
function answerDraft(
  call: Call,
  answer: Answer & Spoken & { why: string },
  result: CallResult,
  failures: number,
): Draft {
  const { id: callId, attempt } = call;
  const { by: person, why } = answer;
  switch (answer.outcome) {
    case "landed":
      return { type: "call.completed", data: { callId, attempt, result, by: "person", person, why } };
    case "failed": {
      const error = { message: `${person} says that it did not happen: ${why}` };
      const data = { callId, attempt, error, by: "person", person, why };
      return { type: "call.failed", data: failures > 0 ? { ...data, failures } : data };
    }
    case "retry":
      return { type: "call.granted", data: { callId, person, why } };
  }
}
