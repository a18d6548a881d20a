/** Open calls of all sessions, and a person's answers to them. Works without holding a session. */

import { allRows, type Journal, Lease, type Log } from "../journal/index.ts";
import { commitFailure, type FailureMarks, storeResult } from "../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { copyArgs, copyJson, type Json } from "../model/json.ts";
import { streamId } from "../model/names.ts";
import { checkOption, checkOptions } from "../model/options.ts";
import type { Amounts, AnswerContent, Call, CallResult, SessionState } from "../model/session/index.ts";
import { APPROVED, answerText, isNotStarted, isOpen, sessionKind } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { projectPlace } from "../project-place.ts";
import type { Holder, ItemRow, Page } from "../store.ts";
import { escalateToPerson, type OnCrash, takeFromDead } from "./abandoned.ts";
import { draftChildSpent } from "./budget.ts";
import { holderText, incarnationOf } from "./session-core.ts";
import { stopSubAgent } from "./sub-agents.ts";
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
  /** It happened, with this result. A sub-agent is stopped. */
  | { readonly outcome: "landed"; readonly result?: unknown }
  /** It did not happen and cannot happen any more: the next run makes another attempt. */
  | { readonly outcome: "retry" }
  /** It did not happen: the agent sees the failure and decides. A sub-agent is stopped. */
  | { readonly outcome: "failed" };

/** A person lets a call run that has not run: `{ by: "ann", args: { eur: 50 }, expiresInMs: 3_600_000 }`. */
export interface Approval extends Seen {
  readonly by: string;
  readonly why?: string;
  /** Runs the call with these arguments instead. The model reads that they were changed. */
  readonly args?: unknown;
  /** The approval is void after this time: a call that has not started by then waits for a person again. */
  readonly expiresInMs?: number;
}

const SEEN = { seq: "count", via: "text", sign: "function", asAgent: "flag" } as const;
const APPROVAL = { by: "text", why: "text", args: null, expiresInMs: "duration", ...SEEN } as const;

/** More fields of an answer: `{ seq: 41, via: "web" }`. */
export interface Seen {
  /** The position of the session that the person saw. A call that changed since is not answered. */
  readonly seq?: number;
  /** The surface that the person used, recorded with the answer. */
  readonly via?: string;
  /** Signs the answer with an approver's ssh key, for a tool with `requireApprover`. */
  readonly sign?: (text: string) => Promise<string>;
  /** The answer is an agent's. Only tools with `agentAnswers` accept it. */
  readonly asAgent?: boolean;
}

/** The signature of an answer and the name of its signer; empty if the tool requires none. */
interface Proof {
  readonly approver?: string;
  readonly signature?: string;
}

type Said = Seen & { readonly by: string; readonly why: string };

type AnyAnswer =
  | (Answer & Said)
  | ({ readonly outcome: "approved" } & Approval)
  | ({ readonly outcome: "denied" } & Said);

const OUTCOMES = ["landed", "retry", "failed"] as const satisfies readonly Answer["outcome"][];

/** The call that was resolved. */
export interface Resolved {
  readonly session: string;
  readonly callId: string;
  /** False if its session was cancelled, and does not run any more. */
  readonly goesOn: boolean;
}

/** A call by its id, or with its session if several sessions have a call of that id. */
type CallName = string | { readonly session: string; readonly callId: string };

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
   * Settles a call that may have happened: one that waits for a person, or one in doubt whose session has no
   * owner. A call that has not run is approved or denied instead. A sub-agent is cancelled first by "landed"
   * and "failed", which are rejected while calls of it are in doubt.
   *
   * @example
   * await holdfast.calls.resolve({ session: "s", callId: "c" }, { outcome: "retry", by: "ann", why: "ok" });
   */
  async resolve(
    call: CallName,
    answer: Answer & Seen & { readonly by: string; readonly why: string },
  ): Promise<Resolved> {
    checkOption("calls.resolve: outcome", answer?.outcome, OUTCOMES);
    for (const word of ["by", "why"] as const) checkOption(`calls.resolve: ${word}`, answer[word], "text");
    return this.answer(call, answer);
  }

  /**
   * Lets a call run that waits for approval: the next run of its session makes it.
   *
   * @example
   * await holdfast.calls.approve("c1", { by: "ann", args: { amount: 50 }, expiresInMs: 3_600_000 });
   */
  async approve(call: CallName, approval: Approval): Promise<Resolved> {
    checkOptions("calls.approve", approval, APPROVAL);
    checkOption("calls.approve: by", approval?.by, "text");
    return this.answer(call, { outcome: "approved", ...approval });
  }

  /**
   * Refuses a call that waits for approval. The model reads who denied it, and why.
   *
   * @example
   * await holdfast.calls.deny("c1", { by: "ann", why: "over the limit" });
   */
  async deny(
    call: CallName,
    denial: Seen & { readonly by: string; readonly why: string },
  ): Promise<Resolved> {
    checkOptions("calls.deny", denial, { by: "text", why: "text", ...SEEN });
    for (const word of ["by", "why"] as const) checkOption(`calls.deny: ${word}`, denial?.[word], "text");
    return this.answer(call, { outcome: "denied", ...denial });
  }

  private async answer(call: CallName, answer: AnyAnswer): Promise<Resolved> {
    const { session, callId } = typeof call === "string" ? await this.find(call) : call;
    const log = await this.journal.open(sessionKind, session);
    if (!log.exists) throw noSession(session, this.journal.store.address);
    const given = answer.outcome === "landed" ? answer.result : undefined;
    const result = await storeResult(this.journal, given === undefined ? null : copyJson(given, "result"));
    const asked = log.state.calls.get(callId);
    if (!asked || !isOpen(asked.status)) throw notOpen(session, callId, asked);
    mustFit(session, asked, answer);
    const { generation } = log.head;
    const seen = markOf(asked);
    const content = contentOf(answer, this.journal.now());
    const proof = await this.proofOf(asked, { session, generation }, answer, content);
    if (answer.seq !== undefined) await this.mustBeAsSeen(log, asked, answer.seq);
    // A retry continues the sub-agent as it is, with its calls in doubt. An unapproved call has none.
    const stop = async (): Promise<Amounts | null> => {
      const { outcome, by, why } = answer;
      if (outcome !== "landed" && outcome !== "failed") return null;
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
        mustFit(session, current, answer);
        const isExact = answer.seq !== undefined || proof.signature !== undefined;
        if (isExact && markOf(current) !== seen) throw hasChanged(session, callId);
        const before = lease ? escalateToPerson([current], WHY_UNATTENDED) : [];
        const costs = spent ? [draftChildSpent(state.budget, callId, spent)] : [];
        const said = { ...answer, ...proof };
        const events = [...before, ...costs, answerDraft(current, said, result, marks, content.until)];
        const resolved = { session, callId, goesOn: state.status !== "cancelled" };
        return { events, result: resolved, ...(lease && { guards: [lease.guard] }) };
      });
    const settle = async (lease: Lease | null): Promise<Resolved> =>
      commitFailure(this.journal, asked, commit(lease, await stop()));
    return asked.status === "waiting" ? settle(null) : this.withLease(log, asked, answer.by, settle);
  }

  /** Refuses an answer that the tool of the call does not accept, before anything is written. */
  private async proofOf(
    call: Call,
    of: { readonly session: string; readonly generation: number },
    answer: AnyAnswer,
    content: AnswerContent,
  ): Promise<Proof> {
    const { callId, tool, answers } = call;
    const { session } = of;
    if (answer.asAgent && answers !== "agent") throw notForAgents(session, callId, tool);
    if (answers !== "approver") return {};
    const changed = answer.outcome === "approved" ? answer.args : undefined;
    const args = changed === undefined ? call.args : copyArgs(changed, `args of ${tool}`);
    const text = answerText({ namespace: this.journal.namespace, ...of }, { ...call, args }, content);
    const signature = await answer.sign?.(text);
    if (signature === undefined) throw approverRequired(session, callId, tool, "the answer is not signed");
    const { SignatureCheck } = await import("../signing/index.ts");
    const check = new SignatureCheck(projectPlace(process.cwd()).root, this.journal.warn);
    const approver = await check.signerOf({ purpose: "answer", text, signature });
    if (approver !== null) return { approver, signature };
    throw approverRequired(session, callId, tool, "its key is no approver's on this machine");
  }

  /** Other events of the session do not matter: a running agent writes all the time. */
  private async mustBeAsSeen(
    { stream, head }: Log<SessionState>,
    { callId }: Call,
    seq: number,
  ): Promise<void> {
    for await (const [, { data }] of this.journal.events(stream, seq, head.seq))
      if ((data as { callId?: unknown }).callId === callId) throw hasChanged(streamId(stream), callId);
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

function isInProgress(session: string, { callId, status }: Call, holder: Holder | null): HoldfastError {
  const who = holder ? holderText(holder) : "a process that took it over";
  const problem = `call ${callId} of session ${session} is ${status}: it waits for nobody`;
  return new HoldfastError("CALL_NOT_WAITING", problem, {
    hint:
      `Its session is held by ${who}, and finds out by itself. ` +
      "Answer once it waits for a person, or cancel the session.",
    data: { session, callId },
  });
}

/** Differs after every event about the call. */
function markOf({ status, attempt, issuedAt, lostAt, verify, by, why }: Call): string {
  return JSON.stringify([status, attempt, issuedAt, lostAt, verify?.at, by, why]);
}

function hasChanged(session: string, callId: string): HoldfastError {
  return new HoldfastError("CALL_CHANGED", `call ${callId} of session ${session} has changed meanwhile`, {
    hint: "Nothing was recorded. Look at it again, then answer.",
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

/** The answer as it is recorded and signed. */
function contentOf(answer: AnyAnswer, now: number): AnswerContent {
  const { outcome, by } = answer;
  const why = answer.why || APPROVED;
  if (outcome === "landed" && answer.result !== undefined)
    return { outcome, by, why, result: copyJson(answer.result, "result") };
  if (outcome !== "approved" || answer.expiresInMs === undefined) return { outcome, by, why };
  return { outcome, by, why, until: now + answer.expiresInMs };
}

function approverRequired(session: string, callId: string, tool: string, why: string): HoldfastError {
  const message = `call ${callId} of session ${session}: ${tool} requires an approver (${why})`;
  return new HoldfastError("APPROVER_REQUIRED", message, {
    hint: "Set your key: holdfast sign --key <file>. Allow it: holdfast approver add <name> <key>",
    data: { session, callId, tool },
  });
}

function notForAgents(session: string, callId: string, tool: string): HoldfastError {
  const message = `call ${callId} of session ${session}: ${tool} takes no answer of an agent`;
  return new HoldfastError("ROLE_REFUSED", message, {
    hint: "Ask a person to answer. A tool allows agents with agentAnswers: true.",
    data: { session, callId, tool },
  });
}

/** A call that has not run is approved or denied; one that may have run is resolved. */
function mustFit(session: string, call: Call, { outcome }: AnyAnswer): void {
  const isApproval = outcome === "approved" || outcome === "denied";
  if (isApproval === isNotStarted(call)) return;
  const { callId } = call;
  const problem = isApproval
    ? "does not wait for approval: it may have run"
    : `has not been run: it cannot be ${outcome === "retry" ? "retried" : outcome}`;
  const hint = isApproval
    ? `Say what became of it: holdfast resolve ${callId} landed|retry|failed`
    : `Let it run: holdfast approve ${callId}. Or refuse it: holdfast deny ${callId}`;
  throw new HoldfastError("CALL_TRANSITION", `call ${callId} of session ${session} ${problem}`, {
    hint,
    data: { session, callId },
  });
}

function answerDraft(
  call: Call,
  answer: AnyAnswer & Proof,
  result: CallResult,
  marks: FailureMarks,
  until: number | undefined,
): Draft {
  const { callId, attempt } = call;
  const { by: person, asAgent, approver, signature } = answer;
  const via = asAgent ? "agent" : answer.via;
  const how = {
    ...{ person, ...(via !== undefined && { via }) },
    ...(approver !== undefined && { approver, signature: signature ?? "" }),
  };
  switch (answer.outcome) {
    case "landed": {
      const { why } = answer;
      return { type: "call.completed", data: { callId, attempt, result, by: "person", ...how, why } };
    }
    case "failed":
    case "denied": {
      const { outcome, why } = answer;
      const said = outcome === "denied" ? "denied it" : "says that it did not happen";
      const error = { message: `${person} ${said}: ${why}` };
      return { type: "call.failed", data: { callId, attempt, error, by: "person", ...how, why, ...marks } };
    }
    case "retry":
      return { type: "call.granted", data: { callId, ...how, why: answer.why } };
    case "approved": {
      const { why, args } = answer;
      const changed = args === undefined ? {} : { args: copyArgs(args, `args of ${call.tool}`) };
      const expiring = until === undefined ? {} : { until };
      return {
        type: "call.approved",
        data: { callId, ...how, ...(why && { why }), ...changed, ...expiring },
      };
    }
  }
}
