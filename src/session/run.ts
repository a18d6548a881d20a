/**
 * The agent loop.
 *
 *     settle interrupted calls ──▶ append the prompt ──▶ ┌─▶ calls open? ──▶ waiting
 *                                                        │   unfinished message ──▶ run its calls ──────┐
 *                                                        │   last message is the model's ──▶ done       │
 *                                                        │   budget, deadline or turns used up ──▶ paused
 *                                                        └── ask the model, append its message ◀────────┘
 *
 * Every arrow is a commit or a pure look at the state, so the loop can be entered again anywhere. A process
 * that was killed finds its place from the log alone. The assistant message is durable before any of its
 * calls, and a resumed turn never asks the model again for a message that it has.
 *
 * Commits are shared (decision 029; `wave.ts` has the crash table of a turn):
 *
 *     prompt            the raised limits, the prompt, the reservation of the first question
 *     assistant message its cost, the intents of its first wave; or, if it is final, the checkpoint
 *     last outcome      the results, the checkpoint, the reservation of the next question
 */

import { failpoint } from "../failpoint.ts";
import { emitSafely } from "../journal/index.ts";
import { type BlockedCall, type FirstWave, mustNotBeCancelled, sleep, withTimeout } from "../ledger/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Amounts, Budget, Message, SessionState } from "../model/session/index.ts";
import {
  addAmounts,
  countableAmounts,
  messageText,
  reactivate,
  reactivation,
  toolCalls,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { isoTime } from "../model/time.ts";
import {
  draftRaisedLimits,
  draftReservation,
  limitBudget,
  mustBeAmounts,
  mustCountLimits,
  uncountedUnit,
} from "./budget.ts";
import { appendDrafts, readMessage, withUniqueCallIds } from "./messages.ts";
import { asRunOf, isWithinRunOf, nestedRun } from "./nested-runs.ts";
import {
  answerTo,
  isFinal,
  moveAfterAnswer,
  mustSayTheSame,
  nameRepeatedPrompt,
  type PromptRecord,
  promptId,
  promptRecord,
  promptText,
  putAgain,
  unansweredPrompts,
} from "./prompts.ts";
import { type RepeatedCalls, repeatedCalls } from "./repeated-calls.ts";
import type { ModelResponse, RunOptions, RunProgress, RunResult } from "./run-options.ts";
import {
  badUsage,
  checkRunOptions,
  describeTools,
  isRetryable,
  messageOf,
  mustAnswer,
  waitingCalls,
} from "./run-options.ts";
import { PATIENCE_MS, type SessionCore, watchForCancel } from "./session-core.ts";
import { type CadenceOption, checkpointDraft, isCheckpointDue } from "./versions.ts";

const LOOP = { warnAt: 5, stopAt: 10 };

/** `leaves`: the commit of the answer releases the session, because the caller closes it then. */
export function startRun(session: SessionCore, options: RunOptions, leaves = false): Promise<RunResult> {
  if (isWithinRunOf(session)) return Promise.reject(nestedRun(session.id));
  try {
    checkRunOptions(session.id, options);
  } catch (error) {
    return Promise.reject(error);
  }
  const { promptCounts: counts } = session;
  const { prompt } = options;
  const isCounted = counts !== null && typeof prompt === "string";
  const named = isCounted ? { ...options, prompt: nameRepeatedPrompt(counts, prompt) } : options;
  // A second loop would ask the model about a conversation that the first one is changing.
  const previous = session.latestRun;
  const run = session.track(async () => {
    await previous.catch(() => undefined);
    if (!beginsWithCommit(session, named)) await session.refresh();
    return asRunOf(session, () => runLoop(session, named, leaves));
  });
  session.latestRun = run;
  return run;
}

/** True for a prompt to an idle session: its append meets others' events as a conflict, and rereads. */
function beginsWithCommit({ state }: Pick<SessionCore, "state">, { prompt }: RunOptions): boolean {
  if (prompt === undefined || state.openCalls.size > 0 || state.unfinished.size > 0) return false;
  const id = promptId(prompt);
  return id === null ? unansweredPrompts(state.messages).length === 0 : !state.messageIds.has(id);
}

async function runLoop(session: SessionCore, options: RunOptions, leaves: boolean): Promise<RunResult> {
  const { perCall = {}, ...limits } = options.budget ?? {};
  mustBeAmounts("budget", limits);
  mustBeAmounts("budget.perCall", perCall);
  const run = new Run(session, options, leaves);
  try {
    return await run.toTheEnd();
  } catch (error) {
    const ended = run.endedBy(error);
    if (ended) return ended;
    throw error;
  } finally {
    run.stopWatching();
    await run.giveReservationBack();
  }
}

class Run {
  private readonly session: SessionCore;
  private readonly options: RunOptions;
  private readonly leaves: boolean;
  private readonly cancelled = new AbortController();
  private readonly stop: AbortSignal;
  private readonly drain: AbortSignal;
  private readonly cadence: CadenceOption;
  private readonly replayed: string[] = [];
  private readonly startedAt = performance.now();
  private turns = 0;
  /** Ids of the last model message that this run appended, and of the last message sent to the model. */
  private lastAppended: string | null = null;
  private lastSent: string | undefined;
  private answer: Message | null = null;
  /** Usage of this run's answers. A unit that is missing here was never reported. */
  private reported: Amounts = {};
  /** The prompt was compacted away without an answer: it has to be put again. */
  private isPromptGone = false;
  /** Id of the reservation for the next question, made in the commit before it. */
  private reserved: string | null = null;
  readonly stopWatching: () => void;

  constructor(session: SessionCore, options: RunOptions, leaves: boolean) {
    this.session = session;
    this.options = options;
    this.leaves = leaves;
    const signals = [session.stop, this.cancelled.signal, ...(options.signal ? [options.signal] : [])];
    this.stop = AbortSignal.any(signals);
    this.drain = options.drain ? AbortSignal.any([session.drain, options.drain]) : session.drain;
    this.cadence = options.cadence ?? "turn";
    this.stopWatching = watchForCancel(session, this.cancelled);
  }

  /** `done` is true for good. `waiting` and `paused` are true while no other process takes over. */
  async toTheEnd(): Promise<RunResult> {
    const result = await this.untilResult();
    if (result.status !== "done") await this.session.mustHold();
    return result;
  }

  private async untilResult(): Promise<RunResult> {
    const { session } = this;
    const ended = await this.begin();
    if (ended) return ended;
    for (;;) {
      this.stop.throwIfAborted();
      const message = session.unfinished;
      if (!message && session.state.openCalls.size > 0) return this.result("waiting", "calls");
      const result = message ? await this.runCalls(message) : await this.nextTurn();
      if (result) return result;
    }
  }

  /** Settles what is left and appends the prompt, under the lease. Returns a result if that is all. */
  private async begin(): Promise<RunResult | null> {
    const { session } = this;
    mustNotBeCancelled(session.id, session.state);
    // Then the prompt's commit takes the session and raises the limits.
    const isFirst = beginsWithCommit(session, this.options);
    if (!isFirst && !session.own.isOpen) {
      // A recorded answer needs no lease. All else does: the owner may be asking the model right now.
      const known = await this.recordedAnswer();
      if (known) return known;
      this.replayed.length = 0;
      await session.own.open(() => undefined);
      return this.begin();
    }
    if (this.options.budget && !isFirst) await limitBudget(session, this.options.budget);
    const recorded = await this.recordedAnswer();
    if (recorded) return recorded;
    if (session.rehearsal) session.rehearsal.hasEnded = true;
    const unfinished = session.unfinished;
    await this.ledger().settle(({ messageId }) => messageId !== unfinished?.id);
    const blocked = await this.appendPrompt();
    return blocked === "outdated" ? this.begin() : blocked;
  }

  /** A cancelled session and the caller's own signal end the run with a result, not an error. */
  endedBy(error: unknown): RunResult | null {
    if (this.session.own.lease.lost.aborted) return null;
    if (this.session.state.status === "cancelled") return this.result("paused", "cancelled");
    if (this.options.signal?.aborted && error === this.options.signal.reason)
      return this.result("paused", "stopped");
    if (this.drain.aborted && error === this.drain.reason) return this.result("paused", "drained");
    return null;
  }

  /** Null if there is work to do: the prompt, or something else that is unanswered. */
  private async recordedAnswer(): Promise<RunResult | null> {
    const { prompt } = this.options;
    if (typeof prompt !== "object") return null;
    const { own, journal } = this.session;
    const record = await promptRecord(journal, own.log, prompt.id);
    if (!record) return null;
    mustSayTheSame(this.session.id, journal, prompt, record.text);
    this.isPromptGone = record.isGone;
    if (!record.answer) return null;
    this.answer = record.answer;
    this.replayed.push(prompt.id);
    return this.hasUnanswered(record) ? null : this.result("done", "answered", messageText(record.answer));
  }

  /** Queued prompts belong to no run: the first one that finds nothing else in progress answers them. */
  private hasUnanswered({ unanswered }: PromptRecord): boolean {
    const { prompts, openCalls } = this.session.state;
    return unanswered === "own" || (unanswered === null && prompts.length > 0 && openCalls.size === 0);
  }

  /** If open calls stand in the way, returns the result: an answer must follow its prompt. */
  private async appendPrompt(): Promise<RunResult | "outdated" | null> {
    const { prompt } = this.options;
    if (prompt === undefined) return null;
    const { state } = this.session;
    const id = promptId(prompt);
    if (id !== null && state.messageIds.has(id) && !this.isPromptGone) return null;
    const text = promptText(prompt);
    if (id === null && unansweredPrompts(state.messages).some((each) => messageText(each) === text))
      return null;
    // A new prompt breaks a loop of identical calls: the pending ones run once more.
    const unfinished = this.session.unfinished;
    const waiting = unfinished && (await this.runCalls(unfinished, false));
    if (waiting) return waiting;
    if (id !== null && this.isPromptGone) await this.putPromptAgain(id, text);
    else if (!(await this.appendFirst({ id: id ?? this.session.journal.newId(), text }))) return "outdated";
    failpoint("prompt.appended");
    return null;
  }

  /**
   * One commit: the limits of this run, its prompt, and the reservation of its first question. False if it
   * took the session from an owner that left work since it was read: the run has to begin again.
   */
  private async appendFirst(prompt: { id: string; text: string }): Promise<boolean> {
    const { session } = this;
    const { journal } = session;
    const drafted = readMessage({ role: "user", ...prompt }, journal.now(), () => prompt.id);
    const { reserve, noteReserved } = this.nextReservation();
    const isFirst = beginsWithCommit(session, this.options);
    let isOutdated = false;
    await session.writeEvents((state) => {
      isOutdated = isFirst && !beginsWithCommit({ state }, this.options);
      if (isOutdated) return [];
      const queued = state.prompts.find(({ id }) => id === prompt.id);
      if (queued) mustSayTheSame(session.id, journal, prompt, messageText(queued));
      const { limits, events: raised } = draftRaisedLimits(state.budget, this.options.budget ?? {});
      const appended = appendDrafts(session.id, [drafted], state, undefined);
      if (appended.length === 0) return raised;
      const budget = { ...state.budget, limit: { ...state.budget.limit, ...limits } };
      return [...raised, ...appended, ...reserve(state, budget)];
    });
    if (isOutdated) return false;
    noteReserved();
    failpoint("message.appended");
    return true;
  }

  /** `first`: the wave that became durable with the message. Its calls start in any case. */
  private async runCalls(
    message: Message,
    stopLoops = this.session.state.prompts.length === 0,
    first?: FirstWave,
  ): Promise<RunResult | null> {
    const wave = first ?? (await this.session.takeFirstWave(message.id));
    const isIssued = wave?.issued !== undefined && wave.issued !== null;
    if (this.drain.aborted && !isIssued) return this.result("paused", "drained");
    const loop = this.options.loop ?? LOOP;
    const repeated = repeatedCalls(this.session.state.messages);
    if (stopLoops && repeated.count >= loop.stopAt && !isIssued) {
      this.emit({ type: "loop", ...repeated });
      return this.result("paused", "loop");
    }
    const { reserve, noteReserved } = this.nextReservation();
    const finishing = (state: SessionState) => [...this.checkpoint(state), ...reserve(state, state.budget)];
    const outcome = await this.ledger().run(message, finishing, wave).finally(noteReserved);
    if (!outcome.done && this.drain.aborted) return this.result("paused", "drained");
    if (!outcome.done) return this.result("waiting", "calls", "", outcome.blocked);
    if (stopLoops && repeated.count >= loop.warnAt) await this.warnModel(message, repeated);
    return null;
  }

  private async warnModel(message: Message, repeated: RepeatedCalls): Promise<void> {
    this.emit({ type: "loop", ...repeated });
    const { tool, count } = repeated;
    const round = tool.includes(", ") ? `${tool} were called in turn` : `${tool} was called`;
    const text =
      `[holdfast] ${round} ${count} times in a row with the same arguments. ` +
      "Repeating it will not change its answer: do something else, or say what is missing.";
    const id = `${message.id}.loop`;
    await this.session.append([{ id, role: "user", text, meta: { holdfast: "loop" } }]);
  }

  private async nextTurn(): Promise<RunResult | null> {
    mustNotBeCancelled(this.session.id, this.session.state);
    await this.appendQueuedPrompts();
    // Another process may have taken over and added calls meanwhile: look at the state again.
    if (this.session.unfinished) return null;
    const last = this.session.state.messages.at(-1);
    if (!last || last.role === "assistant") return this.finished(last);
    const pause = this.pauseReason();
    if (pause) return this.result("paused", pause);
    // An active session: a supervisor notices if it dies, and it is not pruned as ended.
    if (this.session.state.status !== "active") await this.session.writeEvents(reactivation);
    const reservation = this.reserved ?? (await this.reserve());
    if (reservation === "exceeded") return this.result("paused", "budget");
    this.reserved = null;
    this.turns++;
    this.emit({ type: "model.asked", turn: this.turns });
    const response = await this.askModel();
    failpoint("model.answered");
    const { message, first } = await this.appendAnswer(response, reservation);
    mustCountLimits(this.session.id, this.session.state.budget, this.reported);
    // Another owner may have the session by now: the state is no longer this run's to act on.
    if (this.session.own.lease.isReleased) return this.finished(message);
    return first?.issued ? this.runCalls(message, undefined, first) : null;
  }

  /** Not every last message is ours: a process that took over may have answered another prompt. */
  private async finished(last: Message | undefined): Promise<RunResult | null> {
    const answer = await this.ownAnswer(last);
    if (!answer) return null;
    if (last?.id !== this.lastAppended) await this.session.mustHold();
    failpoint("run.done");
    return this.result("done", "answered", messageText(answer));
  }

  /** The answer to this run's prompt. Null if the prompt was compacted away and had to be put again. */
  private async ownAnswer(last: Message | undefined): Promise<Message | null> {
    const { prompt } = this.options;
    const { own, journal } = this.session;
    if (typeof prompt !== "object") {
      if (last) return last;
      throw new HoldfastError("INPUT_INVALID", `session ${this.session.id} has no message to answer`, {
        hint: "Pass a prompt to run(), or append a user message first.",
      });
    }
    this.answer ??= (await promptRecord(journal, own.log, prompt.id))?.answer ?? null;
    if (!this.answer) await this.putPromptAgain(prompt.id, prompt.text);
    return this.answer;
  }

  private async putPromptAgain(id: string, text: string): Promise<void> {
    const { journal } = this.session;
    const drafted = readMessage({ id, role: "user", text }, journal.now(), () => journal.newId());
    const { message } = drafted.data;
    await this.session.writeEvents((state) => reactivate(state, [putAgain(state, message)]));
  }

  private pauseReason(): "turns" | "deadline" | "drained" | null {
    if (this.drain.aborted) return "drained";
    const { maxTurns, deadlineMs } = this.options;
    if (maxTurns !== undefined && this.turns >= maxTurns) return "turns";
    if (deadlineMs !== undefined && performance.now() - this.startedAt >= deadlineMs) return "deadline";
    return null;
  }

  private async appendQueuedPrompts(): Promise<void> {
    if (this.session.state.prompts.length === 0) return;
    await this.session.writeEvents((state) => {
      const events = state.prompts.map(({ id, blocks, at, by }): Draft => {
        const createdAt = isoTime(at);
        return { type: "message", data: { message: { id, role: "user", createdAt, blocks, meta: { by } } } };
      });
      return reactivate(state, events);
    });
  }

  /** Null without limits, which saves the commit. Looks again before `exceeded`, since limits are raised. */
  private async reserve(isRefreshed = false): Promise<string | null | "exceeded"> {
    if (Object.keys(this.session.state.budget.limit).length === 0) return null;
    const id = this.session.journal.newId();
    const verdict = await this.session.write((state) => {
      const events = draftReservation(id, state, state.budget, this.options.budget?.perCall);
      return { events, result: events.length > 0 ? id : ("exceeded" as const) };
    });
    failpoint("budget.reserved");
    if (verdict !== "exceeded" || isRefreshed) return verdict;
    await this.session.refresh();
    return this.reserve(true);
  }

  /**
   * A reservation that joins the commit before the question. `reserve` drafts nothing if no question follows,
   * or if that commit's spending is not known yet: then `reserve()` has a commit of its own.
   */
  private nextReservation() {
    const id = this.session.journal.newId();
    const reserve = (state: SessionState, budget: Budget): Draft[] => {
      const spendsMore = [...this.session.riders.keys()].some((callId) => state.openCalls.has(callId));
      const follows = this.pauseReason() === null && !this.stop.aborted;
      if (this.reserved !== null || spendsMore || !follows || Object.keys(budget.limit).length === 0)
        return [];
      return draftReservation(id, state, budget, this.options.budget?.perCall);
    };
    const noteReserved = (): void => {
      if (Object.hasOwn(this.session.state.budget.reserved, id)) this.reserved = id;
    };
    return { reserve, noteReserved };
  }

  /** The run ends before the reserved question. If this fails, the next owner books it as spent. */
  async giveReservationBack(): Promise<void> {
    const { reserved: id, session } = this;
    if (id === null || session.own.lease.lost.aborted) return;
    this.reserved = null;
    const settled = { type: "budget.settled", data: { id, spent: {} } };
    try {
      await session.own.write(({ budget }) => {
        return { events: Object.hasOwn(budget.reserved, id) ? [settled] : [], result: undefined };
      });
    } catch (error) {
      session.journal.warn(error);
    }
  }

  private async askModel(): Promise<ModelResponse> {
    const retries = this.options.modelRetries ?? 4;
    for (let tries = 0; ; tries++) {
      try {
        const messages = [...this.session.messages];
        this.lastSent = messages.at(-1)?.id;
        const answer = this.options.model({
          system: this.options.system ?? null,
          messages,
          tools: describeTools(this.options.tools ?? []),
          signal: this.stop,
          partial: (part) => this.emit({ type: "model.partial", ...part }),
        });
        return await withTimeout(answer, Number.POSITIVE_INFINITY, this.stop, null).then(mustAnswer);
      } catch (error) {
        this.stop.throwIfAborted();
        if (tries >= retries || !isRetryable(error)) throw error;
        const inMs = 250 * 2 ** tries;
        this.emit({ type: "model.retried", error: String((error as Error).message ?? error), inMs });
        await sleep(inMs, AbortSignal.any([this.stop, this.drain]));
      }
    }
  }

  /** Appends the message, with the intents of its first wave if nothing keeps them from starting. */
  private async appendAnswer(
    response: ModelResponse,
    reservation: string | null,
  ): Promise<{ message: Message; first?: FirstWave }> {
    const { session } = this;
    const { journal } = session;
    const input = { role: "assistant", ...messageOf(response) } as const;
    const drafted = readMessage(input, journal.now(), () => journal.newId());
    const { id } = drafted.data.message;
    const spent = addAmounts(this.usageOf(response), { turns: 1 });
    const answer = (state: SessionState, unique = withUniqueCallIds(drafted, state)) =>
      this.draftAnswer(state, unique, reservation, spent);
    const unique = withUniqueCallIds(drafted, session.state);
    const { message } = unique.data;
    let first: FirstWave | undefined;
    if (this.mayIssue(message)) {
      const leading = (state: SessionState) => {
        const now = withUniqueCallIds(unique, state);
        return now === unique ? answer(state, now) : null;
      };
      first = await this.ledger().append(message, leading, () => this.noteAnswer(id));
    }
    if (!first?.issued) {
      await session.write((state) => {
        const events = answer(state);
        const isLast = this.leaves && isFinal(message) && this.isOver(state, events);
        const lease = this.leaves ? session.own.lease.releasing(isLast) : undefined;
        return { events, result: undefined, lease };
      });
      this.noteAnswer(id);
    }
    return { message: session.findMessage(id) ?? message, ...(first?.pending && { first }) };
  }

  private noteAnswer(id: string): void {
    const { session } = this;
    const { prompt } = this.options;
    this.lastAppended = id;
    const message = session.findMessage(id);
    if (message && isFinal(message) && typeof prompt === "object")
      this.answer ??= answerTo(session.state.messages, prompt.id);
    failpoint("message.appended");
    if (message) this.emit({ type: "message", message });
  }

  /** True if nothing is left to answer after these events. */
  private isOver({ prompts, openCalls, messages }: SessionState, events: readonly Draft[]): boolean {
    const { prompt } = this.options;
    const isMoved = events.some(({ type }) => type === "transcript.replaced");
    const isAnswered =
      typeof prompt !== "object" || this.answer || messages.some(({ id }) => id === prompt.id);
    return prompts.length === 0 && openCalls.size === 0 && !isMoved && Boolean(isAnswered);
  }

  private draftAnswer(
    state: SessionState,
    drafted: Draft<"message", { readonly message: Message }>,
    reservation: string | null,
    spent: Amounts,
  ): Draft[] {
    const final = isFinal(drafted.data.message);
    const events: Draft[] = [drafted];
    const { system = null } = this.options;
    if (system !== state.system) events.push({ type: "system.set", data: { text: system } });
    if (final) events.push(...moveAfterAnswer(state, this.lastSent));
    if (reservation !== null) events.push({ type: "budget.settled", data: { id: reservation, spent } });
    else events.push({ type: "budget.spent", data: { amounts: spent } });
    if (final) events.push(...this.checkpoint(state, 1));
    return events;
  }

  /** False if the run ends after the message, so that its calls must not be issued. */
  private mayIssue(message: Message): boolean {
    const { state } = this.session;
    if (toolCalls(message).length === 0 || this.drain.aborted || this.stop.aborted) return false;
    if (uncountedUnit(state.budget, this.reported) !== null) return false;
    const { stopAt } = this.options.loop ?? LOOP;
    return state.prompts.length > 0 || repeatedCalls(state.messages, message).count < stopAt;
  }

  private usageOf({ usage }: ModelResponse): Amounts {
    const { amounts, uncountable } = countableAmounts(usage, this.options.budget?.perCall ?? {});
    if (uncountable.length > 0) this.session.journal.warn(badUsage(this.session.id, uncountable));
    this.reported = addAmounts(this.reported, amounts);
    return amounts;
  }

  private ledger() {
    const { parallel, deadlineMs, patienceMs = PATIENCE_MS } = this.options;
    const spentMs = performance.now() - this.startedAt;
    const leftMs = deadlineMs === undefined ? patienceMs : Math.max(0, deadlineMs - spentMs);
    return this.session.ledger(this.options.tools ?? [], {
      signal: this.stop,
      drain: this.drain,
      ...(this.cadence === "call" && { perCall: (state) => [checkpointDraft(state, true)] }),
      ...(parallel !== undefined && { parallel }),
      patienceMs: Math.min(patienceMs, leftMs),
      on: (progress) => {
        if (progress.type === "call.repeated") this.replayed.push(progress.callId);
        this.emit(progress);
      },
    });
  }

  private checkpoint(state: SessionState, pending: 0 | 1 = 0): readonly Draft[] {
    const isDue = isCheckpointDue(this.cadence, state, this.session.journal.now(), pending);
    return isDue ? [checkpointDraft(state, true)] : [];
  }

  private emit(progress: RunProgress): void {
    emitSafely(() => this.options.on?.(progress), this.session.journal.warn);
  }

  private result(
    status: RunResult["status"],
    reason: RunResult["reason"],
    text = "",
    blocked: readonly BlockedCall[] = [],
  ): RunResult {
    const { session } = this;
    session.resumed?.replayed.push(...this.replayed);
    session.noteSettled();
    const waiting = waitingCalls(session.openCalls, blocked);
    const { budget, version } = session.state;
    return { status, reason, text, waiting, spent: budget.spent, replayed: [...this.replayed], version };
  }
}
