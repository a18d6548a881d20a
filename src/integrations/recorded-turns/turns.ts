/**
 * Model answers of a framework's loop, each recorded before the framework sees it and replayed from the
 * record afterwards. This is the model's half of a durable program; `calls.ts` is the tools' half.
 *
 * A run is what is resumed as one: one execution of a program, or one prompt of a conversation. A turn is one
 * question to the model and its answer. It has a position in its run, and is stored as an assistant message
 * whose id follows from run and position. The cursor is the position of the next turn. A new handle starts at
 * 0, so a restarted program meets the recorded turns in order.
 *
 *     prompt at the cursor ──▶ on record, same prompt ──▶ replayed, cursor + 1
 *                          ──▶ on record, another prompt ──▶ see `OnDiverge`
 *                          ──▶ not on record, but calls open, session ended or budget spent ──▶ refused
 *                          ──▶ not on record ──▶ the model is asked ──▶ one commit: results of the message
 *                              before, new user messages, the answer, its cost ──▶ returned, cursor + 1
 *                                              ├──▶ its cost lacks a limited unit: BUDGET_UNIT_UNKNOWN
 *                                              └──▶ the model fails: nothing is written, the cursor stays
 *
 * Invariants:
 *  - The framework gets an answer as it is stored, the first time as well as on a replay.
 *  - There is at most one answer for each run and position. The message id decides, in the commit. Two
 *    askers for one position (the framework's own retry, an aborted stream that finishes late) both get the
 *    answer stored first.
 *  - No call can start before the answer that asks for it is durable.
 *  - There is no new question while a call is open, because its outcome belongs into that question. A call
 *    that is set aside has a provisional result instead (`outcomes.ts`).
 *
 * | crash                                     | on resume                                                  |
 * |-------------------------------------------|------------------------------------------------------------|
 * | before the commit, also within a stream   | the model is asked again; no effect can have followed      |
 * | after the commit, before a call started   | the answer is replayed; its calls start now                |
 * | during or after calls                     | see `calls.ts`                                             |
 * | after the results, before the next prompt | the recorded turns are replayed, then the next is asked    |
 *
 * Repeated questions. A new question may have a prompt that an earlier turn of the run answered. After a
 * failed turn it is a retry, and a retry is a resume: the cursor moves back to that earlier turn. Otherwise
 * it asks for a second opinion, and is refused as PROMPT_DIVERGED: after a crash it would look like a retry.
 *
 * A handle works on one run and one question at a time, unless the first question was aborted.
 */

import { failpoint } from "../../failpoint.ts";
import { checkOption } from "../../model/options.ts";
import {
  type Amounts,
  addAmounts,
  type Block,
  BUDGET_UNITS,
  draftCheckpoint,
  draftResults,
  type JsonObject,
  type Message,
  type SessionState,
  type ToolResultBlock,
  toolCalls,
} from "../../model/session/index.ts";
import type { Draft } from "../../model/stream/index.ts";
import { isoTime } from "../../model/time.ts";
import type { MessageInput, Session } from "../../session/index.ts";
import {
  mustCountLimits,
  reactivate,
  readMessage,
  sessionCore,
  withUniqueCallIds,
} from "../../session/index.ts";
import { refusal } from "../refusal.ts";
import type { RecordedCall, RecordedOutcome, ResumeCall } from "./calls.ts";
import { PendingCalls, RecordedCalls } from "./calls.ts";
import { callsPending, promptDiverged, questionAbandoned, questionRepeated, runCompacted } from "./errors.ts";
import { outcomePrompts, outcomesDue } from "./outcomes.ts";
import { PromptIdentity, type PromptMark } from "./prompts.ts";

/** A model's answer, as it is stored. The framework's answer must be rebuildable from it. */
export interface Answer {
  readonly blocks: readonly Block[];
  readonly meta?: JsonObject;
  readonly spent?: Amounts;
}

export interface Question {
  /** One item per message, as the framework passes it to a model. It identifies the question. */
  readonly prompt: readonly unknown[];
  /** User messages in the prompt that the transcript lacks: stored with the answer. */
  readonly newMessages?: (position: number) => Promise<readonly MessageInput[]> | readonly MessageInput[];
  /** Results of calls that did not go through the ledger: refused by the framework, or run elsewhere. */
  readonly outsideResults?: (
    message: Message,
  ) => Promise<readonly ToolResultBlock[]> | readonly ToolResultBlock[];
  /** After an abort another question may be asked. */
  readonly signal?: AbortSignal | undefined;
}

/** One question in flight. If `recorded` is null, ask the model, then call `record` or `failed`. */
export interface Turn {
  readonly run: string;
  readonly position: number;
  readonly recorded: Message | null;
  /** Makes the answer durable. Returns the stored one, maybe an earlier answer to the same question. */
  record(answer: Answer): Promise<Message>;
  failed(): void;
}

/**
 * Decides about a question whose turn is on record with another prompt, for example after a deploy.
 *
 *     refuse   PROMPT_DIVERGED, the model is not asked
 *     adopt    the recorded answer is given; the new prompt counts from the first turn that is not on record
 *     branch   the run continues as another one, and the model is asked; refused as PROMPT_DIVERGED if a call
 *              of the turns left behind has had an effect or may have: a new answer would repeat it
 */
export type OnDiverge = "refuse" | "adopt" | "branch";

export interface TurnsOptions {
  readonly run?: string | undefined;
  readonly onDiverge?: OnDiverge | undefined;
}

type Ticket = Pick<Question, "signal">;

const RUN_LENGTH = 200;

export class RecordedTurns {
  readonly session: Session;
  private currentRun = "";
  private cursor = 0;
  private marks: TurnMark[] = [];
  private lastFailed = false;
  private lastSignal: AbortSignal | undefined;
  private inFlight: Ticket | null = null;
  /** Usage of the answers that were recorded through this handle. */
  private reported: Amounts = {};
  private readonly calls: RecordedCalls;
  private readonly pending: PendingCalls;
  private readonly onDiverge: OnDiverge;

  constructor(session: Session, options: TurnsOptions = {}) {
    this.session = session;
    this.onDiverge = options.onDiverge ?? "refuse";
    checkOption("onDiverge", this.onDiverge, ["refuse", "adopt", "branch"]);
    this.calls = new RecordedCalls(session);
    this.pending = new PendingCalls(session, (callId) => this.calls.hasStarted(callId));
    this.begin(options.run ?? "main");
  }

  get run(): string {
    return this.currentRun;
  }

  /** Aborts a model call when the session is lost or closed, too. */
  signalWith(signal: AbortSignal | undefined): AbortSignal {
    const { stop } = sessionCore(this.session);
    return signal ? AbortSignal.any([stop, signal]) : stop;
  }

  /** Moves to the beginning of a run. Its recorded turns are replayed from there. */
  begin(run: string): void {
    if (run.length === 0 || run.length > RUN_LENGTH) {
      throw refusal(
        "NAME_INVALID",
        `run name: ${run.length} characters (expected 1 to ${RUN_LENGTH})`,
        `Use a name of 1 to ${RUN_LENGTH} characters.`,
      );
    }
    this.currentRun = run;
    this.cursor = 0;
    this.lastFailed = false;
    this.marks = marksOf(this.state.messages, run);
  }

  /** For a framework that restores its own state and does not ask for the turns before `position` again. */
  skipTo(position: number): void {
    this.cursor = Math.max(this.cursor, position);
  }

  /** Starts the next question. Throws, before the model is asked, if it may not be asked. */
  async next(question: Question): Promise<Turn> {
    const { drain, rehearsal } = sessionCore(this.session);
    if (!rehearsal) drain.throwIfAborted();
    this.checkIdle();
    const identity = new PromptIdentity(question.prompt);
    const ticket = { signal: question.signal };
    this.inFlight = ticket;
    const isRetry = this.lastFailed || this.lastSignal?.aborted === true;
    this.lastSignal = question.signal;
    try {
      await this.session.refresh();
      this.reloadMarks();
      this.seek(identity, isRetry);
      const recorded = this.findRecorded(identity);
      if (rehearsal) rehearsal[recorded ? "hasReplayed" : "hasEnded"] = true;
      if (!recorded) {
        drain.throwIfAborted();
        await this.pending.settle();
        this.checkMayAsk();
      }
      return this.turn(question, identity, recorded, ticket);
    } catch (error) {
      rehearsal?.note(error);
      this.lastFailed = true;
      this.release(ticket);
      throw error;
    }
  }

  async ask(question: Question, sample: () => Promise<Answer>): Promise<Message> {
    const turn = await this.next(question);
    if (turn.recorded) return turn.recorded;
    try {
      return await turn.record(await sample());
    } catch (error) {
      turn.failed();
      throw error;
    }
  }

  call(call: RecordedCall): Promise<RecordedOutcome> {
    return this.calls.run(call);
  }

  /** For a tool that runs other tools: see `RecordedCalls.within`. */
  callsWithin<Result>(callId: string, work: () => Promise<Result>): Promise<Result> {
    return this.calls.within(callId, work);
  }

  /** For calls that another run left without an outcome. */
  registerTool(name: string, resume: ResumeCall): void {
    this.pending.registerTool(name, resume);
    sessionCore(this.session).rehearsal?.tools.set(name, resume);
  }

  /** Gives every call of an unfinished message a result. Refused while one is open. */
  async finish(): Promise<void> {
    const { session, pending } = this;
    if (!session.unfinished) return;
    if (!pending.lacksTools) await pending.settle();
    if (this.isBlocked) throw callsPending(session, pending.lacksTools);
    const createdAt = isoTime(sessionCore(session).journal.now());
    await sessionCore(session).write((state) => ({
      events: this.missingResults(state, [], createdAt),
      result: undefined,
    }));
  }

  /** The provisional result that the model got for this call. Null if it got none. */
  provisionalFor(callId: string): string | null {
    return this.calls.provisionalFor(this.state, callId);
  }

  /** Queues the outcomes of calls that were set aside. Those that a person allowed run first. */
  async queueOutcomes(): Promise<void> {
    if (outcomesDue(this.state).length === 0) return;
    if (!this.pending.lacksTools) await this.pending.settle();
    await sessionCore(this.session).writeEvents((state) => outcomePrompts(state));
  }

  private get state(): SessionState {
    return sessionCore(this.session).state;
  }

  private get isBlocked(): boolean {
    return [...this.state.openCalls].some((callId) => this.isBlocking(this.state, callId));
  }

  private isBlocking(state: SessionState, callId: string): boolean {
    return state.openCalls.has(callId) && this.calls.provisionalFor(state, callId) === null;
  }

  private release(ticket: Ticket): void {
    if (this.inFlight === ticket) this.inFlight = null;
  }

  private checkIdle(): void {
    if (!this.inFlight || this.inFlight.signal?.aborted) return;
    throw refusal(
      "INPUT_INVALID",
      `session ${this.session.id}: a question to the model is in flight already`,
      "Ask one question at a time. Give agents that work in parallel sessions of their own.",
    );
  }

  /** Another handle of this process may have continued the run. */
  private reloadMarks(): void {
    if (!this.marks[this.cursor] && this.state.messageIds.has(turnId(this.run, this.cursor)))
      this.marks = marksOf(this.state.messages, this.run);
  }

  /** A retry moves back to the turn that answered its question. */
  private seek(identity: PromptIdentity, isRetry: boolean): void {
    const here = this.marks[this.cursor];
    if (here && identity.equals(here.prompt)) return;
    const answered = this.marks.find((mark) => identity.equals(mark.prompt));
    if (!answered) return;
    if (isRetry) this.cursor = answered.position;
    else if (!here) throw questionRepeated(this.session.id, this.run, this.cursor, answered.position);
  }

  private findRecorded(identity: PromptIdentity): Message | null {
    const mark = this.marks[this.cursor];
    if (!mark) return null;
    if (!identity.equals(mark.prompt) && this.onDiverge !== "adopt") {
      const effects = this.onDiverge === "branch" ? this.effectsFrom(this.cursor) : [];
      if (this.onDiverge === "branch" && effects.length === 0) {
        this.branch(identity);
        return this.findRecorded(identity);
      }
      const before = this.marks[this.cursor - 1]?.prompt;
      const sameMessages = before && identity.startsWith(before) ? before.count : 0;
      throw promptDiverged(this.session.id, mark, identity.mark.count, sameMessages, effects);
    }
    const id = turnId(this.run, this.cursor);
    const message = this.state.messages.findLast((each) => each.id === id);
    if (!message) throw new Error(`turn ${id} is on record and has no message`);
    return message;
  }

  /** The branch is named after its first question, so that a restarted program finds it again. */
  private branch(identity: PromptIdentity): void {
    this.currentRun = `${this.run}~${this.cursor}.${identity.mark.digest.slice(0, 16)}`;
    this.cursor = 0;
    this.marks = marksOf(this.state.messages, this.run);
  }

  /** Calls of the recorded turns from `position` on that have had an effect, or may have. */
  private effectsFrom(position: number): string[] {
    const { messages, calls } = this.state;
    const left = new Set(this.marks.slice(position).map((mark) => turnId(mark.run, mark.position)));
    const asked = messages.filter(({ id }) => left.has(id)).flatMap(toolCalls);
    return asked.flatMap(({ id }) => {
      const call = calls.get(id);
      return call && call.status !== "failed" ? [`${call.tool} ${id}`] : [];
    });
  }

  private checkMayAsk(): void {
    const { session, state } = this;
    session.lost.throwIfAborted();
    sessionCore(session).stop.throwIfAborted();
    if (state.messageIds.has(turnId(this.run, this.cursor))) throw runCompacted(session.id, this.run);
    if (state.status === "cancelled") {
      const problem = `session ${session.id} was cancelled: the model is not asked`;
      throw refusal("SESSION_ENDED", problem, "Call session.reopen() to continue it.");
    }
    if (this.isBlocked) throw callsPending(session);
    const { limit, spent } = state.budget;
    const unit = BUDGET_UNITS.find((each) => (spent[each] ?? 0) >= (limit[each] ?? Number.POSITIVE_INFINITY));
    if (unit) {
      const used = `${spent[unit]} of ${limit[unit]} ${unit}`;
      throw refusal(
        "BUDGET_EXCEEDED",
        `session ${session.id} has spent ${used}: the model is not asked`,
        "Raise it: session.limit(), or holdfast.sessions.raiseBudget().",
        { session: session.id, unit },
      );
    }
  }

  private turn(question: Question, identity: PromptIdentity, recorded: Message | null, ticket: Ticket): Turn {
    const { run, cursor: position } = this;
    const mark = { run, position, prompt: identity.mark };
    if (recorded) this.advance(ticket, mark);
    return {
      run,
      position,
      recorded,
      record: async (answer) => {
        failpoint("model.answered");
        const stored = await this.store(question, answer, mark, () => this.inFlight === ticket);
        failpoint("message.appended");
        this.advance(ticket, mark);
        this.reported = addAmounts(this.reported, answer.spent ?? {});
        mustCountLimits(this.session.id, this.state.budget, this.reported);
        return stored;
      },
      failed: () => {
        this.release(ticket);
        this.lastFailed = true;
      },
    };
  }

  private advance(ticket: Ticket, mark: TurnMark): void {
    this.release(ticket);
    this.lastFailed = false;
    if (this.run !== mark.run) return;
    this.marks[mark.position] ??= mark;
    this.cursor = Math.max(this.cursor, mark.position + 1);
  }

  /** An aborted question that was asked again (`isCurrent` is false) stores nothing. */
  private async store(
    question: Question,
    answer: Answer,
    mark: TurnMark,
    isCurrent: () => boolean,
  ): Promise<Message> {
    const { session } = this;
    const { journal } = sessionCore(session);
    const id = turnId(mark.run, mark.position);
    const meta = { ...answer.meta, turn: mark as unknown as JsonObject };
    const draft = readMessage(
      { id, role: "assistant", blocks: answer.blocks, meta },
      journal.now(),
      () => id,
    );
    const newMessages = ((await question.newMessages?.(mark.position)) ?? []).map((each) =>
      readMessage(each, journal.now(), () => journal.newId()),
    );
    const { unfinished } = session;
    const outside =
      unfinished && unfinished.id !== id ? await (question.outsideResults?.(unfinished) ?? []) : [];
    await sessionCore(session).write((state) => {
      if (state.messageIds.has(id) || !isCurrent()) return { events: [], result: undefined };
      const events: Draft[] = this.missingResults(state, outside, isoTime(journal.now()));
      events.push(...newMessages.filter(({ data }) => !state.messageIds.has(data.message.id)));
      events.push(withUniqueCallIds(draft, state));
      const spent = addAmounts(answer.spent ?? {}, { turns: 1 });
      events.push({ type: "budget.spent", data: { amounts: spent } });
      if (toolCalls(draft.data.message).length === 0) events.push(draftCheckpoint(state.version + 1, null));
      return { events: reactivate(state, events), result: undefined };
    });
    const stored = this.state.messages.findLast((message) => message.id === id);
    if (!stored) throw isCurrent() ? runCompacted(session.id, mark.run) : questionAbandoned(session.id);
    const prompt = (stored.meta?.["turn"] as unknown as TurnMark | undefined)?.prompt;
    if (prompt && prompt.digest !== mark.prompt.digest && this.onDiverge !== "adopt") {
      if (!isCurrent()) throw questionAbandoned(session.id);
      throw promptDiverged(session.id, { ...mark, prompt }, question.prompt.length, 0);
    }
    return stored;
  }

  /** Every call needs a result before the conversation continues, also one that never ran. */
  private missingResults(
    state: SessionState,
    outside: readonly ToolResultBlock[],
    createdAt: string,
  ): Draft[] {
    const drafts: Draft[] = [];
    for (const id of state.unfinished) {
      const message = state.messages.findLast((each) => each.id === id);
      if (!message) continue;
      // The call started after the question was asked, and has no outcome yet.
      if (toolCalls(message).some((call) => this.isBlocking(state, call.id)))
        throw callsPending(this.session);
      const blocks = toolCalls(message).map(
        ({ id: callId }) =>
          this.calls.resultFor(state, callId) ??
          outside.find((block) => block.callId === callId) ?? {
            kind: "tool_result" as const,
            callId,
            content: "[holdfast] this call was not run",
            isError: true,
          },
      );
      drafts.push(draftResults(`${id}.results`, createdAt, blocks));
    }
    return drafts;
  }
}

/** The id of a turn's message. No other message may use such an id. */
function turnId(run: string, position: number): string {
  return `turn:${run}:${position}`;
}

function marksOf(messages: readonly Message[], run: string): TurnMark[] {
  const marks: TurnMark[] = [];
  for (const { role, meta } of messages) {
    const mark = role === "assistant" ? (meta?.["turn"] as unknown as TurnMark | undefined) : undefined;
    if (mark?.run === run) marks[mark.position] = mark;
  }
  return marks;
}

/** The question that an assistant message answers: stored under its `meta.turn`. */
interface TurnMark {
  readonly run: string;
  readonly position: number;
  readonly prompt: PromptMark;
}
