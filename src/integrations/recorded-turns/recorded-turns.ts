/**
 * Model responses of somebody else's loop, each recorded before it is handed on and answered from the record afterwards.
 *
 * Durable tools alone are not enough: a program that is run again asks its model again, the model answers in other words
 * with other call ids, and the charge happens twice. So the framework's model and its tools are made durable together.
 * Here is the model's half; `recorded-calls.ts` is that of the tools.
 *
 * Words. A run is what is resumed as one: one execution of a program, or one prompt of a conversation. A turn is one
 * question to the model and its answer; it has a position in its run, and it is stored as an assistant message of the
 * session whose id follows from run and position. The cursor is the position of the turn that this handle comes to next;
 * a new handle stands at 0, so a program that is started again meets the recorded turns in order.
 *
 *     prompt at the cursor ──▶ on record there, same prompt ──▶ answered from the record, cursor + 1
 *                          ──▶ on record there, another prompt ──▶ PROMPT_DIVERGED, nothing is asked
 *                          ──▶ not on record: calls are open, session cancelled or lost, budget spent ──▶ refused
 *                          ──▶ not on record ──▶ the model is asked ──▶ one commit: results of the message before,
 *                              what the user said, the answer, what it cost ──▶ handed on, cursor + 1
 *                                              └──▶ it fails: nothing is written, the cursor stays
 *
 * Invariants
 *  - What the framework sees of an answer is read from the stored message, the first time as well as later. So a resumed
 *    program gets the same bytes, with the same call ids.
 *  - At most one answer for each run and position: the message's id decides, in the commit. Two askers for one position
 *    (the framework's own retry, an abandoned stream that finishes late) both get the one that was stored first.
 *  - No call can start before the answer that asks for it is durable, because nobody has seen the answer before.
 *  - No new question while a call is open: its outcome belongs into that question.
 *
 * What a crash leaves
 *  - Before the commit: the model was asked and perhaps paid, nothing else. The next process asks again; no effect can have
 *    followed from an answer that nobody saw. Inside a stream: the same, though a person may have read some of its text.
 *  - After the commit, before a call began: the answer is on record, its calls are not in the ledger. They begin now.
 *  - During or after calls: see `recorded-calls.ts`.
 *  - After the results, before the next question: the cursor walks over the recorded turns and asks the next question.
 *
 * The same question again. At the end of the record, a prompt that an earlier turn of the run has answered is either a
 * program that tries again after something went wrong, or one that wants a second opinion. After a turn that failed the
 * cursor goes back to that earlier turn: a retry is a resume. Otherwise it is refused as PROMPT_DIVERGED: a second opinion
 * needs a run of its own, because after a crash nobody could tell the two apart.
 *
 * One run at a time and one question at a time: a question while another is under way is refused, unless that one was
 * aborted.
 */

import { failpoint } from "../../failpoint.ts";
import { HoldfastError } from "../../model/errors.ts";
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
import {
  type MessageInput,
  reactivate,
  readMessage,
  type Session,
  sessionCore,
  withUniqueCallIds,
} from "../../session/index.ts";
import { LeftCalls, type TakeUp } from "./left-calls.ts";
import { PromptIdentity, type TurnMark } from "./prompt-identity.ts";
import { type RecordedCall, RecordedCalls, type RecordedOutcome } from "./recorded-calls.ts";
import { abandoned, askedAgain, compacted, diverged, waitsForCalls } from "./refusals.ts";

/** What a model said, as it is stored. The integration must be able to rebuild its framework's answer from it. */
export interface Answer {
  readonly blocks: readonly Block[];
  readonly meta?: JsonObject;
  readonly spent?: Amounts;
}

export interface Question {
  /** The prompt as the framework hands it to a model, one item for each message. It decides whether it is the same question. */
  readonly prompt: readonly unknown[];
  /** What users said in it that the transcript does not have yet: it is stored with the answer. Not asked for in a replay. */
  readonly heard?: (position: number) => Promise<readonly MessageInput[]> | readonly MessageInput[];
  /**
   * The results, as the prompt has them, of calls that were not run as recorded calls: refused by the framework, run by
   * somebody else. Asked for only if such calls are missing in the transcript.
   */
  readonly results?: (asked: Message) => Promise<readonly ToolResultBlock[]> | readonly ToolResultBlock[];
  /** Once it aborts, the question counts as abandoned and another may be asked. */
  readonly signal?: AbortSignal | undefined;
}

/** One question on its way. Either `recorded` is there, or the model is asked and `record` or `failed` is called. */
export interface Turn {
  readonly run: string;
  readonly position: number;
  /** The stored answer, if there is one: hand it on, and do not ask. */
  readonly recorded: Message | null;
  /** Makes the answer durable and returns what is stored, which may be an earlier answer to the same question. */
  record(answer: Answer): Promise<Message>;
  /** Nothing came of it. The next question gets this position. */
  failed(): void;
}

const RUN_LENGTH = 200;

export class RecordedTurns {
  readonly session: Session;
  private run: string;
  private cursor = 0;
  private marks: TurnMark[] = [];
  private lastFailed = false;
  private lastSignal: AbortSignal | undefined;
  private underWay: { readonly signal: AbortSignal | undefined } | null = null;
  private readonly calls: RecordedCalls;
  private readonly left: LeftCalls;

  constructor(session: Session, options: { readonly run?: string } = {}) {
    this.session = session;
    this.calls = new RecordedCalls(session);
    this.left = new LeftCalls(session, (callId) => this.calls.hasTakenUp(callId));
    this.run = "";
    this.begin(options.run ?? "main");
  }

  /** Of the run. */
  get name(): string {
    return this.run;
  }

  /** Goes to the beginning of a run: what it has on record is answered from there. */
  begin(run: string): void {
    if (run.length === 0 || run.length > RUN_LENGTH) {
      throw new HoldfastError("NAME_INVALID", `the name of a run has ${run.length} characters`, {
        hint: `Use 1 to ${RUN_LENGTH}.`,
      });
    }
    this.run = run;
    this.cursor = 0;
    this.lastFailed = false;
    this.marks = marksOf(this.state.messages, run);
  }

  /** For a framework that has kept a state of its own: it does not ask again for the turns before it. */
  skipTo(position: number): void {
    this.cursor = Math.max(this.cursor, position);
  }

  /** The next question. Throws before anything is asked if it cannot be the next one, or must not be asked now. */
  async next(question: Question): Promise<Turn> {
    this.mustBeAlone();
    const identity = new PromptIdentity(question.prompt);
    const mine = { signal: question.signal };
    this.underWay = mine;
    const interrupted = this.lastFailed || this.lastSignal?.aborted === true;
    this.lastSignal = question.signal;
    try {
      await this.session.refresh();
      this.reread();
      this.place(identity, interrupted);
      const recorded = this.recorded(identity);
      if (!recorded) {
        await this.left.settle();
        this.mayAsk();
      }
      return this.turn(question, identity, recorded, mine);
    } catch (error) {
      this.lastFailed = true;
      this.release(mine);
      throw error;
    }
  }

  /** The same for models that answer in one piece. */
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

  /** One call of an answer, through the ledger. */
  call(call: RecordedCall): Promise<RecordedOutcome> {
    return this.calls.run(call);
  }

  /** A tool of this program, for calls that another run has left without an outcome. */
  know(tool: string, takeUp: TakeUp): void {
    this.left.know(tool, takeUp);
  }

  /** Gives every call of an unfinished message a result, so that something else can be said. Not while one is open. */
  async finish(): Promise<void> {
    const { session, left } = this;
    if (!session.unfinished) return;
    if (!left.lacksTools) await left.settle();
    if (session.openCalls.length > 0) throw waitsForCalls(session, left.lacksTools);
    const createdAt = isoTime(sessionCore(session).journal.now());
    await sessionCore(session).write((state) => ({
      events: this.missingResults(state, [], createdAt),
      result: undefined,
    }));
  }

  private get state(): SessionState {
    return sessionCore(this.session).state;
  }

  private release(mine: object): void {
    if (this.underWay === mine) this.underWay = null;
  }

  private mustBeAlone(): void {
    if (!this.underWay || this.underWay.signal?.aborted) return;
    throw new HoldfastError(
      "INPUT_INVALID",
      `session ${this.session.id}: a question to the model is under way, and there is another`,
      {
        hint: "One conversation asks one question at a time. Give agents that work side by side sessions of their own.",
      },
    );
  }

  /** Another handle of this process may have gone on with the run. */
  private reread(): void {
    if (!this.marks[this.cursor] && this.state.messageIds.has(turnId(this.run, this.cursor)))
      this.marks = marksOf(this.state.messages, this.run);
  }

  /** A retry, after something went wrong, goes back to where its question was answered. */
  private place(identity: PromptIdentity, interrupted: boolean): void {
    const here = this.marks[this.cursor];
    if (here && identity.is(here.prompt)) return;
    const answered = this.marks.find((mark) => identity.is(mark.prompt));
    if (!answered) return;
    if (interrupted) this.cursor = answered.position;
    else if (!here) throw askedAgain(this.session.id, this.run, this.cursor, answered.position);
  }

  private recorded(identity: PromptIdentity): Message | null {
    const mark = this.marks[this.cursor];
    if (!mark) return null;
    if (!identity.is(mark.prompt)) {
      const before = this.marks[this.cursor - 1];
      throw diverged(this.session.id, mark, identity, before?.prompt ?? null);
    }
    const id = turnId(this.run, this.cursor);
    const message = this.state.messages.findLast((each) => each.id === id);
    if (!message) throw new Error(`turn ${id} is on record and has no message`);
    return message;
  }

  private mayAsk(): void {
    const { session, state } = this;
    session.lost.throwIfAborted();
    sessionCore(session).stop.throwIfAborted();
    if (state.messageIds.has(turnId(this.run, this.cursor))) throw compacted(session.id, this.run);
    if (state.status === "cancelled") {
      throw new HoldfastError(
        "SESSION_ENDED",
        `session ${session.id} was cancelled: the model is not asked`,
        {
          hint: "Call session.reopen() if it should go on all the same.",
        },
      );
    }
    if (state.openCalls.size > 0) throw waitsForCalls(session);
    const { limit, spent } = state.budget;
    const unit = BUDGET_UNITS.find((each) => (spent[each] ?? 0) >= (limit[each] ?? Number.POSITIVE_INFINITY));
    if (unit) {
      const used = `${spent[unit]} of ${limit[unit]} ${unit}`;
      throw new HoldfastError(
        "BUDGET_EXCEEDED",
        `session ${session.id} has spent ${used}: the model is not asked`,
        {
          hint: "Raise it: session.limit(), or holdfast.sessions.raiseBudget().",
          data: { session: session.id, unit },
        },
      );
    }
  }

  private turn(
    question: Question,
    identity: PromptIdentity,
    recorded: Message | null,
    mine: { readonly signal: AbortSignal | undefined },
  ): Turn {
    const { run, cursor: position } = this;
    const mark = { run, position, prompt: identity.mark };
    if (recorded) this.passed(mine, mark);
    return {
      run,
      position,
      recorded,
      record: async (answer) => {
        failpoint("model.answered");
        const stored = await this.store(question, answer, mark, () => this.underWay === mine);
        failpoint("message.appended");
        this.passed(mine, mark);
        return stored;
      },
      failed: () => {
        this.release(mine);
        this.lastFailed = true;
      },
    };
  }

  private passed(mine: object, mark: TurnMark): void {
    this.release(mine);
    this.lastFailed = false;
    if (this.run !== mark.run) return;
    this.marks[mark.position] ??= mark;
    this.cursor = Math.max(this.cursor, mark.position + 1);
  }

  /** Somebody may have asked again after this question was aborted: then that one's answer counts. */
  private async store(
    question: Question,
    answer: Answer,
    mark: TurnMark,
    isWanted: () => boolean,
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
    const said = (await question.heard?.(mark.position)) ?? [];
    const heard = said.map((each) => readMessage(each, journal.now(), () => journal.newId()));
    const asked = session.unfinished;
    const given = asked && asked.id !== id ? await (question.results?.(asked) ?? []) : [];
    await sessionCore(session).write((state) => {
      if (state.messageIds.has(id) || !isWanted()) return { events: [], result: undefined };
      const events: Draft[] = this.missingResults(state, given, isoTime(journal.now()));
      events.push(...heard.filter(({ data }) => !state.messageIds.has(data.message.id)));
      events.push(withUniqueCallIds(draft, state));
      const spent = addAmounts(answer.spent ?? {}, { turns: 1 });
      events.push({ type: "budget.spent", data: { amounts: spent } });
      if (toolCalls(draft.data.message).length === 0) events.push(draftCheckpoint(state.version + 1, null));
      return { events: reactivate(state, events), result: undefined };
    });
    const stored = this.state.messages.findLast((message) => message.id === id);
    if (!stored) throw isWanted() ? compacted(session.id, mark.run) : abandoned(session.id);
    const known = (stored.meta?.["turn"] as unknown as TurnMark | undefined)?.prompt;
    if (known && known.digest !== mark.prompt.digest) {
      if (!isWanted()) throw abandoned(session.id);
      throw diverged(session.id, { ...mark, prompt: known }, new PromptIdentity(question.prompt), null);
    }
    return stored;
  }

  /** A conversation has a result for every call before it goes on. What nobody ran says so. */
  private missingResults(state: SessionState, given: readonly ToolResultBlock[], createdAt: string): Draft[] {
    const drafts: Draft[] = [];
    for (const id of state.unfinished) {
      const message = state.messages.findLast((each) => each.id === id);
      if (!message) continue;
      // Begun since the question was asked: nobody can say yet what came of it.
      if (toolCalls(message).some((call) => state.openCalls.has(call.id))) throw waitsForCalls(this.session);
      const blocks = toolCalls(message).map(
        ({ id: callId }) =>
          this.calls.known(state, callId) ??
          given.find((block) => block.callId === callId) ?? {
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

/** The message of a turn. Nobody else may use such an id. */
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
