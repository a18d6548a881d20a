/**
 * The agent loop.
 *
 *     settle what was interrupted ──▶ take the prompt in ──▶ ┌─▶ calls open? ──▶ waiting
 *                                                            │   unfinished message ──▶ run its calls ──┐
 *                                                            │   last word is the model's ──▶ done      │
 *                                                            │   budget, deadline, turns ──▶ paused     │
 *                                                            └── ask the model, append its message ◀────┘
 *
 * Every arrow is a commit or a pure look at the fold, so the loop can be entered again anywhere: a process that was
 * killed finds its place from the log alone. The assistant message is durable before any of its calls, and a
 * resumed turn never asks the model again for a message that it has.
 *
 * What comes of a prompt with a name is its own answer, the first final one after it: at first, and from the record ever
 * after. What else is said to its run is answered too before it ends, also by a run that finds the prompt answered.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { failpoint } from "../failpoint.ts";
import { emitSafely } from "../journal/index.ts";
import { type BlockedCall, mustNotBeCancelled, sleep, withTimeout } from "../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { canonicalText } from "../model/json.ts";
import {
  type Amounts,
  addAmounts,
  type Call,
  countableAmounts,
  exceededLimit,
  type Message,
  messageText,
  reactivate,
  reactivation,
  type SessionState,
  toolCalls,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { isoTime } from "../model/time.ts";
import { limitBudget, mustBeAmounts, spentUp } from "./budget.ts";
import { readMessage, withUniqueCallIds } from "./messages.ts";
import {
  answerTo,
  isFinal,
  mustSayTheSame,
  type PromptRecord,
  promptId,
  promptRecord,
  promptText,
  putAgain,
  putBehindAnswer,
  unansweredPrompts,
} from "./prompts.ts";
import {
  describeTools,
  isRetryable,
  type ModelResponse,
  mustAnswer,
  type RunOptions,
  type RunProgress,
  type RunResult,
  saidIn,
  type WaitingCall,
} from "./run-options.ts";
import { PATIENCE_MS, type SessionCore } from "./session-core.ts";
import { Cadence } from "./versions.ts";

/**
 * Which runs the code that asks was called from. A run waits for its tools, and a second run of the same session waits
 * for the first: a tool that waited for such a second run would wait for ever, so that one is refused.
 */

interface RunUnderWay {
  readonly session: object;
  /** The run of another session whose tool began this one. */
  readonly outer: RunUnderWay | undefined;
  /** What a tool leaves running behind may go on after its run. */
  isOver: boolean;
}

const innermost = new AsyncLocalStorage<RunUnderWay>();
let underWay = 0;

export function isWithinRunOf(session: object): boolean {
  for (let run = innermost.getStore(); run; run = run.outer) {
    if (run.session === session && !run.isOver) return true;
  }
  return false;
}

export async function asRunOf<Result>(session: object, work: () => Promise<Result>): Promise<Result> {
  const run: RunUnderWay = { session, outer: innermost.getStore(), isOver: false };
  underWay += 1;
  try {
    return await innermost.run(run, work);
  } finally {
    run.isOver = true;
    underWay -= 1;
    // On Node 20 every promise of the process pays for this, so nobody does while there is no run.
    if (underWay === 0) innermost.disable();
  }
}

function nothingToAnswer(id: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `session ${id} has no message to answer`, {
    hint: "Pass a prompt to run(), or append a user message first.",
  });
}

function badUsage(id: string, units: readonly string[]): HoldfastError {
  const named = units.join(", ");
  return new HoldfastError("INPUT_INVALID", `session ${id}: the model's usage of ${named} is not an amount`, {
    hint: "The answer is kept, and counted as `budget.perCall` or as nothing. Return finite numbers as usage.",
    data: { session: id, units },
  });
}

const WATCH_MS = 100;

/** Others may cancel, answer and prompt while we work: their events are taken in soon, not only at a conflict. */
function watchForCancel(session: SessionCore, cancelled: AbortController): () => void {
  const { own, journal } = session;
  let timer: NodeJS.Timeout | null = null;
  const look = (): void => {
    timer = null;
    own.log.refresh().then(
      (state) => {
        if (state.status === "cancelled") cancelled.abort(cancelledError(session.id));
      },
      (error: unknown) => {
        // A store that was closed under a run that was given up has nothing more to say.
        if (!isHoldfastError(error, "STORE_CLOSED")) journal.warn(error);
      },
    );
  };
  const unwatch = journal.watch(own.log.stream, () => {
    timer ??= setTimeout(look, WATCH_MS).unref();
  });
  return () => {
    unwatch();
    if (timer) clearTimeout(timer);
  };
}

function cancelledError(id: string): HoldfastError {
  return new HoldfastError("SESSION_ENDED", `session ${id} was cancelled`, { hint: "Reopen it to go on." });
}

/** What a run waits for: its own open calls, and those that it may not begin before another session's have an outcome. */
function waitingCalls(open: readonly Call[], blocked: readonly BlockedCall[]): WaitingCall[] {
  const own = open.map(({ id, tool, status, needsPerson, why }) => ({
    callId: id,
    tool,
    person: status === "waiting" || needsPerson,
    why: why ?? "its outcome is not known yet",
  }));
  return [...own, ...blocked.map(blockedCall)];
}

function blockedCall({ callId, tool, by }: BlockedCall): WaitingCall {
  const { session, person } = by;
  const why = `call ${by.callId} of session ${session} does the same and has no outcome yet`;
  return { callId, tool, person, why, blockedBy: { session, callId: by.callId } };
}

/**
 * How often the latest call was made in a row with the same arguments, counted from the durable transcript, so that
 * a restart does not make an agent forget that it is going in circles.
 */
function repeatedCalls(messages: readonly Message[]): { tool: string; count: number } {
  let name = "";
  let same = "";
  let count = 0;
  for (let index = messages.length - 1; index >= 0; index--) {
    const message = messages[index] as Message;
    if (message.role === "tool" || message.meta?.["holdfast"] === "loop") continue;
    const calls = message.role === "assistant" ? toolCalls(message) : [];
    if (calls.length === 0) break;
    const asked = canonicalText(calls.map((call) => [call.name, call.args]));
    if (count === 0) {
      same = asked;
      name = calls.map((call) => call.name).join(" + ");
    }
    if (asked !== same) break;
    count++;
  }
  return { tool: name, count };
}

const LOOP = { warnAt: 5, stopAt: 10 };

export async function runLoop(session: SessionCore, options: RunOptions): Promise<RunResult> {
  const { perCall = {}, ...limits } = options.budget ?? {};
  mustBeAmounts("budget", limits);
  mustBeAmounts("budget.perCall", perCall);
  const run = new Run(session, options);
  try {
    return await run.toTheEnd();
  } catch (error) {
    const ended = run.endedBy(error);
    if (ended) return ended;
    throw error;
  } finally {
    run.stopWatching();
  }
}

class Run {
  private readonly session: SessionCore;
  private readonly options: RunOptions;
  private readonly cancelled = new AbortController();
  private readonly stop: AbortSignal;
  private readonly cadence: Cadence;
  private readonly replayed: string[] = [];
  private readonly startedAt = performance.now();
  private turns = 0;
  /** Id of the last message that this run appended for the model. */
  private lastWord: string | null = null;
  /** Id of the last message that the model was shown. */
  private heard: string | undefined;
  /** The answer to this run's prompt, if that has a name: as far as it is known. */
  private answer: Message | null = null;
  /** The prompt is on record and has to be put again all the same. */
  private isGone = false;
  private readonly unwatch: () => void;

  constructor(session: SessionCore, options: RunOptions) {
    this.session = session;
    this.options = options;
    const signals = [session.stop, this.cancelled.signal, ...(options.signal ? [options.signal] : [])];
    this.stop = AbortSignal.any(signals);
    this.cadence = new Cadence(options.cadence ?? "turn", session.journal.now);
    this.unwatch = watchForCancel(session, this.cancelled);
  }

  private get state(): SessionState {
    return this.session.state;
  }

  /** What is done stays done. That something is still open is only true for as long as nobody else has taken over. */
  async toTheEnd(): Promise<RunResult> {
    const result = await this.untilResult();
    if (result.status !== "done") await this.session.mustHold();
    return result;
  }

  private async untilResult(): Promise<RunResult> {
    mustNotBeCancelled(this.session.id, this.state);
    if (this.options.budget) await limitBudget(this.session, this.options.budget);
    const known = await this.recordedAnswer();
    if (known) return known;
    const about = this.session.unfinished;
    await this.ledger().settle(({ messageId }) => messageId !== about?.id);
    const held = await this.takePrompt();
    if (held) return held;
    for (;;) {
      this.stop.throwIfAborted();
      const message = this.session.unfinished;
      if (!message && this.state.openCalls.size > 0) return this.result("waiting", "calls");
      const step = message ? await this.runCalls(message) : await this.nextTurn();
      if (step) return step;
    }
  }

  /** A cancelled session and a caller's own signal end the run as a result, not as an error. */
  endedBy(error: unknown): RunResult | null {
    if (this.session.own.lease.lost.aborted) return null;
    if (this.state.status === "cancelled") return this.result("paused", "cancelled");
    if (this.options.signal?.aborted && error === this.options.signal.reason)
      return this.result("paused", "stopped");
    return null;
  }

  stopWatching(): void {
    this.unwatch();
  }

  /** Null where there is something to do: no answer yet, or something else that was said to the prompt's run. */
  private async recordedAnswer(): Promise<RunResult | null> {
    const { prompt } = this.options;
    if (typeof prompt !== "object") return null;
    const { own, journal } = this.session;
    const record = await promptRecord(journal, own.log, prompt.id);
    if (!record) return null;
    mustSayTheSame(this.session.id, journal, prompt, record.words);
    this.isGone = record.isGone;
    if (!record.answer) return null;
    this.answer = record.answer;
    this.replayed.push(prompt.id);
    return this.isOwed(record) ? null : this.result("done", "answered", messageText(record.answer));
  }

  /** What is queued waits for nobody in particular: whoever finds nothing else under way takes it up. */
  private isOwed({ unanswered }: PromptRecord): boolean {
    const { prompts, openCalls } = this.state;
    return unanswered === "own" || (unanswered === null && prompts.length > 0 && openCalls.size === 0);
  }

  /**
   * An unfinished prompt with the same words is resumed, not appended twice. One that calls stand in the way of is not
   * taken in, and the run ends there: an answer without it would be none.
   */
  private async takePrompt(): Promise<RunResult | null> {
    const { prompt } = this.options;
    if (prompt === undefined) return null;
    const id = promptId(prompt);
    if (id !== null && this.state.messageIds.has(id) && !this.isGone) return null;
    const text = promptText(prompt);
    if (id === null && unansweredPrompts(this.state.messages).some((each) => messageText(each) === text))
      return null;
    // A new word from outside breaks a loop: the calls that are due are run, and then it is heard.
    const unfinished = this.session.unfinished;
    const waiting = unfinished && (await this.runCalls(unfinished, false));
    if (waiting) return waiting;
    if (id !== null && this.isGone) await this.putAgain(id, text);
    else await this.session.append([{ ...(id !== null && { id }), role: "user", text }]);
    failpoint("prompt.appended");
    return null;
  }

  private async runCalls(
    message: Message,
    stopLoops = this.state.prompts.length === 0,
  ): Promise<RunResult | null> {
    const loop = this.options.loop ?? LOOP;
    const repeated = repeatedCalls(this.state.messages);
    if (stopLoops && repeated.count >= loop.stopAt) {
      this.emit({ type: "loop", ...repeated });
      return this.result("paused", "loop");
    }
    const outcome = await this.ledger().run(message, (state) => this.cadence.afterTurn(state));
    if (!outcome.done) return this.result("waiting", "calls", "", outcome.blocked);
    if (stopLoops && repeated.count >= loop.warnAt) await this.noteLoop(message, repeated);
    return null;
  }

  private async noteLoop(message: Message, repeated: { tool: string; count: number }): Promise<void> {
    this.emit({ type: "loop", ...repeated });
    const text = `[holdfast] ${repeated.tool} was called ${repeated.count} times in a row with the same arguments. Repeating it will not change its answer: do something else, or say what is missing.`;
    const id = `${message.id}.loop`;
    await this.session.append([{ id, role: "user", text, meta: { holdfast: "loop" } }]);
  }

  /** One model call, unless the conversation is complete or something says stop. */
  private async nextTurn(): Promise<RunResult | null> {
    await this.takeQueuedPrompts();
    // Whoever has taken over may have gone on while we looked for prompts: then where we stand is to be seen anew.
    if (this.session.unfinished) return null;
    const last = this.state.messages.at(-1);
    if (!last || last.role === "assistant") return this.finished(last);
    const pause = this.mustPause();
    if (pause) return this.result("paused", pause);
    await this.reactivate();
    const reservation = await this.reserve();
    if (reservation === "exceeded") return this.result("paused", "budget");
    this.turns++;
    this.emit({ type: "model.asked", turn: this.turns });
    const response = await this.askModel();
    failpoint("model.answered");
    await this.appendAnswer(response, reservation);
    return null;
  }

  /** The last word of somebody who has taken over may answer another prompt than ours. */
  private async finished(last: Message | undefined): Promise<RunResult | null> {
    const answer = await this.ownAnswer(last);
    if (!answer) return null;
    if (last?.id !== this.lastWord) await this.session.mustHold();
    failpoint("run.done");
    return this.result("done", "answered", messageText(answer));
  }

  /** Null when the prompt had to be put again: it was compacted away, and what is left does not ask for its answer. */
  private async ownAnswer(last: Message | undefined): Promise<Message | null> {
    const { prompt } = this.options;
    const { own, journal } = this.session;
    if (typeof prompt !== "object") {
      if (last) return last;
      throw nothingToAnswer(this.session.id);
    }
    this.answer ??= (await promptRecord(journal, own.log, prompt.id))?.answer ?? null;
    if (!this.answer) await this.putAgain(prompt.id, prompt.text);
    return this.answer;
  }

  private async putAgain(id: string, text: string): Promise<void> {
    const { journal } = this.session;
    const drafted = readMessage({ id, role: "user", text }, journal.now(), () => journal.newId());
    await this.session.write((state) => ({
      events: reactivate(state, [putAgain(state, drafted.data.message)]),
      result: undefined,
    }));
  }

  /** What is worked on counts as active: when its process dies, that is noticed, and it is not pruned as an ended one. */
  private async reactivate(): Promise<void> {
    if (this.state.status === "active") return;
    await this.session.write((state) => ({ events: reactivation(state), result: undefined }));
  }

  private mustPause(): string | null {
    const { maxTurns, deadlineMs } = this.options;
    if (maxTurns !== undefined && this.turns >= maxTurns) return "turns";
    if (deadlineMs !== undefined && performance.now() - this.startedAt >= deadlineMs) return "deadline";
    return null;
  }

  private async takeQueuedPrompts(): Promise<void> {
    await this.session.write((state) => {
      const events = state.prompts.map(({ id, blocks, at, by }): Draft => {
        const createdAt = isoTime(at);
        return { type: "message", data: { message: { id, role: "user", createdAt, blocks, meta: { by } } } };
      });
      return { events: reactivate(state, events), result: undefined };
    });
  }

  /**
   * Only a session with limits pays for this commit. `exceededLimit` when the next call might overspend; looked at again
   * before that is said, because somebody may have raised the limit.
   */
  private async reserve(isFresh = false): Promise<string | null | "exceeded"> {
    if (Object.keys(this.state.budget.limit).length === 0) return null;
    const id = this.session.journal.newId();
    const verdict = await this.session.write((state) => {
      const amounts = { ...this.options.budget?.perCall, turns: 1 };
      const over = exceededLimit(state.budget, amounts) ?? spentUp(state.budget);
      if (over) return { events: [], result: "exceeded" as const };
      return { events: [{ type: "budget.reserved", data: { id, amounts } }], result: id };
    });
    failpoint("budget.reserved");
    if (verdict !== "exceeded" || isFresh) return verdict;
    await this.session.refresh();
    return this.reserve(true);
  }

  private async askModel(): Promise<ModelResponse> {
    const retries = this.options.modelRetries ?? 4;
    for (let tries = 0; ; tries++) {
      try {
        const messages = [...this.session.messages];
        this.heard = messages.at(-1)?.id;
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
        await sleep(inMs, this.stop);
      }
    }
  }

  /** The message, what it cost and the turn's checkpoint, in one commit. */
  private async appendAnswer(response: ModelResponse, reservation: string | null): Promise<void> {
    const { journal } = this.session;
    const drafted = readMessage({ role: "assistant", ...saidIn(response) }, journal.now(), () =>
      journal.newId(),
    );
    const spent = addAmounts(this.usageOf(response), { turns: 1 });
    const final = isFinal(drafted.data.message);
    const { prompt } = this.options;
    await this.session.write((state) => {
      const events: Draft[] = [withUniqueCallIds(drafted, state)];
      if (final) events.push(...putBehindAnswer(state, this.heard));
      if (reservation !== null) events.push({ type: "budget.settled", data: { id: reservation, spent } });
      else events.push({ type: "budget.spent", data: { amounts: spent } });
      if (final) events.push(...this.cadence.afterTurn(state, 1));
      return { events, result: undefined };
    });
    this.lastWord = drafted.data.message.id;
    if (final && typeof prompt === "object") this.answer ??= answerTo(this.state.messages, prompt.id);
    failpoint("message.appended");
    const stored = this.session.messages.findLast(({ id }) => id === this.lastWord);
    if (stored) this.emit({ type: "message", message: stored });
  }

  private usageOf({ usage }: ModelResponse): Amounts {
    const { amounts, uncountable } = countableAmounts(usage, this.options.budget?.perCall ?? {});
    if (uncountable.length > 0) this.session.journal.warn(badUsage(this.session.id, uncountable));
    return amounts;
  }

  private ledger() {
    const { parallel, deadlineMs, patienceMs = PATIENCE_MS } = this.options;
    const spentMs = performance.now() - this.startedAt;
    const leftMs = deadlineMs === undefined ? patienceMs : Math.max(0, deadlineMs - spentMs);
    return this.session.ledger(this.options.tools ?? [], {
      signal: this.stop,
      perCall: (state) => this.cadence.afterCall(state),
      ...(parallel !== undefined && { parallel }),
      patienceMs: Math.min(patienceMs, leftMs),
      on: (progress) => {
        if (progress.type === "call.repeated") this.replayed.push(progress.callId);
        this.emit(progress);
      },
    });
  }

  private emit(progress: RunProgress): void {
    emitSafely(() => this.options.on?.(progress), this.session.journal.warn);
  }

  private result(
    status: RunResult["status"],
    reason: string,
    text = "",
    blocked: readonly BlockedCall[] = [],
  ): RunResult {
    this.session.resumed?.replayed.push(...this.replayed);
    this.session.noteSettled();
    const waiting = waitingCalls(this.session.openCalls, blocked);
    const { spent } = this.state.budget;
    return {
      status,
      reason,
      text,
      waiting,
      spent,
      replayed: [...this.replayed],
      version: this.state.version,
    };
  }
}
