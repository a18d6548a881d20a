/** Calls from outside: the queue of those that wait for a person, and that person's answers. */

import { allRows, type Journal, Lease, type Log } from "../journal/index.ts";
import { commitFailure, type FailureMarks, storeResult } from "../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { copyJson, type Json } from "../model/json.ts";
import { streamId } from "../model/names.ts";
import { checkOption, checkOptions } from "../model/options.ts";
import {
  type Amounts,
  type Call,
  type CallResult,
  isNotStarted,
  isOpen,
  type SessionState,
  sessionKind,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Holder, ItemRow, Page } from "../store.ts";
import { escalateToPerson, type OnCrash, takeFromDead } from "./abandoned.ts";
import { incarnationOf } from "./session-core.ts";
import type { Spoken } from "./sessions.ts";
import { childSpent, stopSubAgent } from "./sub-agents.ts";
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
  /**
   * It happened; `result` is what the tool would have returned. Not for a call that needs approval: it has
   * not been run. Of a sub-agent's call: that is all there will be, as the sub-agent is stopped.
   */
  | { readonly outcome: "landed"; readonly result?: unknown }
  /** It did not happen and cannot any more, or it is approved: the next run tries once more. */
  | { readonly outcome: "retry" }
  /**
   * It did not happen: the agent is told and decides. Of a sub-agent's call: nor will it, as the sub-agent is
   * stopped.
   */
  | { readonly outcome: "failed" };

const OUTCOMES = ["landed", "retry", "failed"] as const satisfies readonly Answer["outcome"][];

/** The call that was answered for. */
export interface Resolved {
  readonly session: string;
  readonly callId: string;
  /** False: its session was cancelled, and is not run any more. */
  readonly goesOn: boolean;
}

const READ_AT_ONCE = 8;

export class OpenCalls {
  private readonly journal: Journal;
  private readonly onCrash: OnCrash;

  constructor(journal: Journal, onCrash: OnCrash = async () => undefined) {
    this.journal = journal;
    this.onCrash = onCrash;
  }

  /**
   * Calls without an outcome over all sessions, oldest first, `limit` at once (50). What a call was asked to
   * do stands only in its session, so each session on the page is read, once: where there are many, take them
   * page by page.
   */
  async list(
    options: { limit?: number; cursor?: string } = {},
  ): Promise<{ calls: OpenCall[]; cursor: string | null }> {
    checkOptions("calls.list", options, { limit: "number", cursor: "text" });
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

  /**
   * What only the sessions know of these calls. A few sessions at a time are read, because some are large.
   */
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

  /**
   * Settles a call that waits, or one in doubt whose session nobody runs. Who said it and why is recorded
   * with it. The call's session goes on at its next run. That a sub-agent's call landed or failed is refused
   * while calls of the sub-agent are in doubt; when none is, the sub-agent is cancelled first, and then the
   * outcome is written, with what the sub-agent spent.
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
    // A next attempt takes the sub-agent up as it is, with the calls that it has in doubt.
    const stop = async (): Promise<Amounts | null> => {
      const { outcome, by, why } = answer;
      if (outcome === "retry") return null;
      const { journal, onCrash } = this;
      return stopSubAgent({ journal, onCrash, outcome, by, why }, incarnationOf(session, generation), callId);
    };
    const commit = (lease: Lease | null, spent: Amounts | null) => (marks: FailureMarks) =>
      log.commit((state, head) => {
        // Removed meanwhile: what was answered is not the call of another session that has its name.
        if (head.generation !== generation) throw noSession(session, this.journal.store.address);
        const current = state.calls.get(callId);
        if (!current || !isOpen(current.status)) throw notOpen(session, callId, current);
        if (!lease && current.status !== "waiting") throw isAtIt(session, callId, current, null);
        if (answer.outcome === "landed" && isNotStarted(current)) throw notRun(session, callId);
        const before = lease ? escalateToPerson([current], WHY_UNATTENDED) : [];
        const costs = spent ? [childSpent(state.budget, callId, spent)] : [];
        const events = [...before, ...costs, answerDraft(current, answer, result, marks)];
        const resolved = { session, callId, goesOn: state.status !== "cancelled" };
        return { events, result: resolved, ...(lease && { guards: [lease.guard] }) };
      });
    if (asked.status === "waiting") {
      return commitFailure(this.journal, asked, commit(null, await stop()));
    }
    return this.withLease(log, asked, answer.by, async (lease) => {
      return commitFailure(this.journal, asked, commit(lease, await stop()));
    });
  }

  /**
   * The lease fences whoever held the session: should that one wake up, it begins nothing beside what is said
   * here.
   */
  private async withLease<Result>(
    log: Log<SessionState>,
    call: Call,
    label: string,
    act: (lease: Lease) => Promise<Result>,
  ): Promise<Result> {
    const taken = await takeFromDead(this.journal, log.stream, label, this.onCrash);
    if (!(taken instanceof Lease)) throw isAtIt(streamId(log.stream), call.id, call, taken.holder);
    try {
      return await act(taken);
    } finally {
      await taken.release();
    }
  }

  private async find(callId: string): Promise<{ session: string; callId: string }> {
    const open = await allRows((from) => this.rows({ limit: 500, ...from }));
    const found = open
      .filter(({ id }) => id === callId)
      .map(({ stream }) => ({ session: streamId(stream), callId }));
    const [first, second] = found;
    if (first && !second) return first;
    if (second) throw severalHave(callId, found);
    throw await this.noneOpen(callId);
  }

  /** Somebody may just have answered for it: whoever does so too wants to know who, and how. */
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

function severalHave(callId: string, found: readonly { readonly session: string }[]): HoldfastError {
  const sessions = found.map(({ session }) => session);
  return new HoldfastError(
    "CALL_NOT_FOUND",
    `call ${callId} is open in several sessions: ${sessions.join(", ")}`,
    {
      hint: `Say which session you mean: { session, callId }, on the command line --session ${sessions[0]}`,
      data: { callId, sessions },
    },
  );
}

const WHY_UNATTENDED = "nobody runs its session, and nobody finds out by itself";

function isAtIt(session: string, callId: string, { status }: Call, holder: Holder | null): HoldfastError {
  const who = holder ? `${holder.label} (${holder.host}, pid ${holder.pid})` : "a process that took it over";
  return new HoldfastError(
    "CALL_NOT_WAITING",
    `call ${callId} of session ${session} is ${status}: it waits for nobody`,
    {
      hint: `Its session is held by ${who}, and finds out by itself. Answer once it waits for a person, or cancel the session.`,
      data: { session, callId },
    },
  );
}

function notOpen(session: string, callId: string, call: Call | undefined): HoldfastError {
  const known = call ? `is ${call.status}: it waits for nobody` : "is not in its log";
  const code = call ? "CALL_NOT_WAITING" : "CALL_NOT_FOUND";
  return new HoldfastError(code, `call ${callId} of session ${session} ${known}`, {
    hint: call ? `Nothing is left to decide${settledText(call)}.` : "List its calls.",
    data: { session, callId },
  });
}

function settledText({ settledBy, by, why }: Call): string {
  if (settledBy !== "person") return "";
  return `: ${by ?? "somebody"} has answered for it${why ? ` (${why})` : ""}`;
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
