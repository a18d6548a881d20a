/** Open calls of all sessions, and a person's answers to them. Works without holding a session. */

import { allRows, type Journal, Lease, type Log } from "../journal/index.ts";
import { commitFailure, type FailureMarks, storeResult } from "../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { copyJson, type Json } from "../model/json.ts";
import { streamId } from "../model/names.ts";
import { checkOption, checkOptions } from "../model/options.ts";
import type { Amounts, Call, CallResult, SessionState } from "../model/session/index.ts";
import { isNotStarted, isOpen, sessionKind } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Holder, ItemRow, Page } from "../store.ts";
import { escalateToPerson, type OnCrash, takeFromDead } from "./abandoned.ts";
import { draftChildSpent } from "./budget.ts";
import { holderText, incarnationOf } from "./session-core.ts";
import { type Spoken, stopSubAgent } from "./sub-agents.ts";
import { noSession } from "./versions.ts";

/** A call without an outcome, as `calls.list` returns it. */
export interface OpenCall {
  readonly session: string;
  readonly callId: string;
  readonly tool: string;
  readonly status: string;
  readonly key: string | null;
  readonly issuedAt: Date;
  /** The call's arguments. Null if its session cannot be read, e.g. without the codec that encrypted it. */
  readonly args: Json;
  readonly why: string | null;
}

/** A person's answer for an open call: `{ outcome: "landed", result: { receipt: 7 } }`. */
export type Answer =
  /** It happened, with this result. Rejected for a call that needs approval. A sub-agent is stopped. */
  | { readonly outcome: "landed"; readonly result?: unknown }
  /** It did not happen and cannot happen any more, or it is approved: the next run makes another attempt. */
  | { readonly outcome: "retry" }
  /** It did not happen: the agent sees the failure and decides. A sub-agent is stopped. */
  | { readonly outcome: "failed" };

const OUTCOMES = ["landed", "retry", "failed"] as const satisfies readonly Answer["outcome"][];

/** The call that was resolved. */
export interface Resolved {
  readonly session: string;
  readonly callId: string;
  /** False if its session was cancelled, and does not run any more. */
  readonly goesOn: boolean;
}

const PARALLEL_READS = 8;

/**
 * `holdfast.calls`: lists calls without an outcome and resolves them for a person.
 *
 * @example
 * const { calls } = await holdfast.calls.list();
 * await holdfast.calls.resolve(calls[0].callId, { outcome: "failed", by: "ann", why: "not in the log" });
 */
export class OpenCalls {
  private readonly journal: Journal;
  private readonly onCrash: OnCrash;

  constructor(journal: Journal, onCrash: OnCrash = async () => undefined) {
    this.journal = journal;
    this.onCrash = onCrash;
  }

  /** Open calls of all sessions, oldest first, 50 to a page unless `limit` is set. Pass `cursor` for more. */
  async list(
    options: { limit?: number; cursor?: string } = {},
  ): Promise<{ calls: OpenCall[]; cursor: string | null }> {
    checkOptions("calls.list", options, { limit: "number", cursor: "text" });
    const { rows, cursor } = await this.rows(options);
    const details = await this.detailsOf(rows);
    const calls = rows.map((row) => {
      const { args = null, why = null } = details.get(row) ?? {};
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

  /** Reads a few sessions at a time, because some are large. */
  private async detailsOf(rows: readonly ItemRow[]): Promise<Map<ItemRow, Pick<Call, "args" | "why">>> {
    const details = new Map<ItemRow, Pick<Call, "args" | "why">>();
    const sessions = [...new Set(rows.map(({ stream }) => stream))];
    const look = async (stream: string): Promise<void> => {
      const state = await this.read(streamId(stream));
      for (const row of rows) {
        const call = row.stream === stream && state?.calls.get(row.id);
        if (call) details.set(row, call);
      }
    };
    for (let from = 0; from < sessions.length; from += PARALLEL_READS) {
      await Promise.all(sessions.slice(from, from + PARALLEL_READS).map(look));
    }
    return details;
  }

  /** Null if the session is encrypted or of a later release. Lists still show its calls. */
  private async read(id: string): Promise<SessionState | null> {
    try {
      return (await this.journal.load(sessionKind, id)).state;
    } catch (error) {
      if (!isHoldfastError(error) || error.code.startsWith("STORE_")) throw error;
      return null;
    }
  }

  /**
   * Settles a call that waits for a person, or one in doubt whose session has no owner. A sub-agent
   * is cancelled first by "landed" and "failed", which are rejected while calls of it are in doubt.
   *
   * @example
   * await holdfast.calls.resolve({ session: "s", callId: "c" }, { outcome: "retry", by: "ann", why: "ok" });
   */
  async resolve(
    call: string | { readonly session: string; readonly callId: string },
    answer: Answer & { readonly by: string; readonly why: string },
  ): Promise<Resolved> {
    checkOption("calls.resolve: outcome", answer?.outcome, OUTCOMES);
    for (const word of ["by", "why"] as const) checkOption(`calls.resolve: ${word}`, answer[word], "text");
    const { session, callId } = typeof call === "string" ? await this.find(call) : call;
    const log = await this.journal.open(sessionKind, session);
    if (!log.exists) throw noSession(session, this.journal.store.address);
    const given = answer.outcome === "landed" ? answer.result : undefined;
    const result = await storeResult(this.journal, given === undefined ? null : copyJson(given, "result"));
    const asked = log.state.calls.get(callId);
    if (!asked || !isOpen(asked.status)) throw notOpen(session, callId, asked);
    const { generation } = log.head;
    // A retry continues the sub-agent as it is, with its calls in doubt.
    const stop = async (): Promise<Amounts | null> => {
      const { outcome, by, why } = answer;
      if (outcome === "retry") return null;
      const { journal, onCrash } = this;
      return stopSubAgent({ journal, onCrash, outcome, by, why }, incarnationOf(session, generation), callId);
    };
    const commit = (lease: Lease | null, spent: Amounts | null) => (marks: FailureMarks) =>
      log.commit((state, head) => {
        // The session was removed meanwhile: the answer must not reach a new session of the same name.
        if (head.generation !== generation) throw noSession(session, this.journal.store.address);
        const current = state.calls.get(callId);
        if (!current || !isOpen(current.status)) throw notOpen(session, callId, current);
        if (!lease && current.status !== "waiting") throw isInProgress(session, current, null);
        if (answer.outcome === "landed" && isNotStarted(current)) throw notRun(session, callId);
        const before = lease ? escalateToPerson([current], WHY_UNATTENDED) : [];
        const costs = spent ? [draftChildSpent(state.budget, callId, spent)] : [];
        const events = [...before, ...costs, answerDraft(current, answer, result, marks)];
        const resolved = { session, callId, goesOn: state.status !== "cancelled" };
        return { events, result: resolved, ...(lease && { guards: [lease.guard] }) };
      });
    const settle = async (lease: Lease | null): Promise<Resolved> =>
      commitFailure(this.journal, asked, commit(lease, await stop()));
    return asked.status === "waiting" ? settle(null) : this.withLease(log, asked, answer.by, settle);
  }

  /** Fences the previous holder: if it wakes up, it starts nothing beside this answer. */
  private async withLease<Result>(
    log: Log<SessionState>,
    call: Call,
    label: string,
    act: (lease: Lease) => Promise<Result>,
  ): Promise<Result> {
    const taken = await takeFromDead(this.journal, log.stream, label, this.onCrash);
    if (!(taken instanceof Lease)) throw isInProgress(streamId(log.stream), call, taken.holder);
    try {
      return await act(taken);
    } finally {
      await taken.release();
    }
  }

  private async find(callId: string): Promise<{ session: string; callId: string }> {
    const open = await allRows((from) => this.rows({ limit: 500, ...from }));
    const sessions = open.filter(({ id }) => id === callId).map(({ stream }) => streamId(stream));
    const [session] = sessions;
    if (session === undefined) throw await this.noneOpen(callId);
    if (sessions.length > 1) throw severalHave(callId, sessions);
    return { session, callId };
  }

  /** Says who has resolved the call, if another person has just been faster. */
  private async noneOpen(callId: string): Promise<HoldfastError> {
    const asked = { of: "items", kind: "call", id: callId, limit: 2 } as const;
    const [row, another] = (await this.journal.list<"items">(asked)).rows;
    const session = row && !another ? streamId(row.stream) : null;
    const call = session === null ? undefined : (await this.read(session))?.calls.get(callId);
    if (session === null || !call) {
      return new HoldfastError(row ? "CALL_NOT_WAITING" : "CALL_NOT_FOUND", `call ${callId} is not open`, {
        hint: "List the open calls; it may have been settled already.",
      });
    }
    return notOpen(session, callId, call);
  }
}

function severalHave(callId: string, sessions: readonly string[]): HoldfastError {
  const problem = `call ${callId} is open in several sessions: ${sessions.join(", ")}`;
  return new HoldfastError("CALL_NOT_FOUND", problem, {
    hint: `Name the session: { session, callId }, on the command line --session ${sessions[0]}`,
    data: { callId, sessions },
  });
}

const WHY_UNATTENDED = "nobody runs its session, and nobody finds out by itself";

function isInProgress(session: string, { id: callId, status }: Call, holder: Holder | null): HoldfastError {
  const who = holder ? holderText(holder) : "a process that took it over";
  const problem = `call ${callId} of session ${session} is ${status}: it waits for nobody`;
  return new HoldfastError("CALL_NOT_WAITING", problem, {
    hint:
      `Its session is held by ${who}, and finds out by itself. ` +
      "Answer once it waits for a person, or cancel the session.",
    data: { session, callId },
  });
}

function notOpen(session: string, callId: string, call: Call | undefined): HoldfastError {
  const what = `call ${callId} of session ${session}`;
  const data = { session, callId };
  if (!call)
    return new HoldfastError("CALL_NOT_FOUND", `${what} is not in its log`, {
      hint: "List its calls.",
      data,
    });
  const { status, settledBy, by, why } = call;
  const who = `: ${by ?? "somebody"} has answered for it${why ? ` (${why})` : ""}`;
  return new HoldfastError("CALL_NOT_WAITING", `${what} is ${status}: it waits for nobody`, {
    hint: `Nothing is left to decide${settledBy === "person" ? who : ""}.`,
    data,
  });
}

function notRun(session: string, callId: string): HoldfastError {
  const problem = `call ${callId} of session ${session} has not been run: it cannot have landed`;
  return new HoldfastError("CALL_TRANSITION", problem, {
    hint: "Answer retry to let it run, or failed to refuse it.",
    data: { session, callId },
  });
}

function answerDraft(
  call: Call,
  answer: Answer & Spoken & { why: string },
  result: CallResult,
  marks: FailureMarks,
): Draft {
  const { id: callId, attempt } = call;
  const { by: person, why } = answer;
  switch (answer.outcome) {
    case "landed":
      return { type: "call.completed", data: { callId, attempt, result, by: "person", person, why } };
    case "failed": {
      const error = { message: `${person} says that it did not happen: ${why}` };
      return { type: "call.failed", data: { callId, attempt, error, by: "person", person, why, ...marks } };
    }
    case "retry":
      return { type: "call.granted", data: { callId, person, why } };
  }
}
