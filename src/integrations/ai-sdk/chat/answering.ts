/**
 * Answers under way in this process. An answer belongs to its session, not to the request that asked for it:
 * it is produced, kept and recorded even if every browser leaves.
 *
 *     prompt ──▶ the session is free ──▶ chunks: log in memory, kept in the store (`session/live-answer.ts`)
 *                                          ├──▶ a call waits for a person ──▶ its part, then `finish`
 *                                          └──▶ recorded ──▶ cleared ──▶ session closed ──▶ last chunk
 *
 * The last chunk comes after the session is closed, so that the next request of a client finds it free. An
 * answer that this process cannot end (it is closing, or has lost the session) has no last chunk: its readers
 * ask another process.
 */

import type { Journal } from "../../../journal/index.ts";
import { isHoldfastError } from "../../../model/errors.ts";
import type { Json } from "../../../model/json.ts";
import { provisionalResult } from "../../../model/session/index.ts";
import type { Holdfast } from "../../../open.ts";
import { LiveAnswerKeeper, type Session, type SessionOptions, sessionCore } from "../../../session/index.ts";
import { type Chunk, ChunkLog, isLast } from "../../chat-chunks.ts";
import { queuePrompt } from "../../recorded-turns/index.ts";
import { type Durable, durable, promptMessage } from "../durable.ts";
import type { DurableOptions, DurablePrompt } from "../options.ts";
import { outcomeChunks, waitingChunk } from "./ui-messages.ts";

/** The result of `streamText`, or a stream of UI message chunks. */
export type AnswerStream =
  | { toUIMessageStream(options?: { onError?: (error: unknown) => string }): ReadableStream<unknown> }
  | ReadableStream<unknown>;

/** The arguments of an `answer` function. */
export interface AnswerContext {
  readonly session: Session;
  /** `durable(session)`: use its model, tools and messages. */
  readonly durable: Durable;
  /** For `durable.messages`. Absent when an answer is resumed: the record has the prompt. */
  readonly prompt: DurablePrompt | undefined;
}

/**
 * Answers the prompt of a chat. It is called again to resume an answer that was cut off.
 * @example
 * async ({ durable: d, prompt }) =>
 *   streamText({ model: d.model(model), tools: d.tools({ pay }), messages: await d.messages(prompt) })
 */
export type AnswerFunction = (context: AnswerContext) => AnswerStream | Promise<AnswerStream>;

export interface AnsweringOptions {
  readonly answer: AnswerFunction;
  /** Options of `durable`. */
  readonly durable?: DurableOptions;
  /** Options of the session, for a new one: title, metadata, time to live. */
  readonly session?: Omit<SessionOptions, "ifHeld" | "signal" | "parent">;
  /** The text of an error for the page. Default: `An error occurred.`, so that no secret gets out. */
  readonly errorText?: (error: unknown) => string;
}

export type ChatPrompt = Exclude<DurablePrompt, string> & { readonly id: string };

/** One attempt at an answer. */
export class Answering {
  readonly attempt = crypto.randomUUID();
  readonly log = new ChunkLog();
  promptId: string | null;
  isOver = false;
  private readonly holdfast: Holdfast;
  private readonly id: string;
  private readonly prompt: ChatPrompt | undefined;
  private readonly options: AnsweringOptions;
  private readonly waiting = new Set<() => void>();

  private constructor(
    holdfast: Holdfast,
    id: string,
    prompt: ChatPrompt | undefined,
    options: AnsweringOptions,
  ) {
    this.holdfast = holdfast;
    this.id = id;
    this.prompt = prompt;
    this.promptId = prompt?.id ?? null;
    this.options = options;
  }

  /** The answer under way to this prompt, or to any prompt of the session. */
  static find({ journal }: Holdfast, id: string, promptId?: string): Answering | null {
    const all = [...(underWay.get(journal)?.get(id) ?? [])];
    return all.find((each) => promptId === undefined || each.promptId === promptId) ?? null;
  }

  static start(
    holdfast: Holdfast,
    id: string,
    prompt: ChatPrompt | undefined,
    options: AnsweringOptions,
  ): Answering {
    const answering = new Answering(holdfast, id, prompt, options);
    const sessions = underWay.get(holdfast.journal) ?? new Map<string, Set<Answering>>();
    underWay.set(holdfast.journal, sessions);
    const others = sessions.get(id) ?? new Set();
    sessions.set(id, others.add(answering));
    void answering.run().finally(() => {
      others.delete(answering);
      if (others.size === 0) sessions.delete(id);
      answering.isOver = true;
      answering.wake();
    });
    return answering;
  }

  /** Yields whenever the log has grown, and once at the end. */
  async *changes(signal: AbortSignal): AsyncGenerator<void> {
    signal.addEventListener("abort", () => this.wake(), { once: true });
    while (!signal.aborted) {
      const change = new Promise<void>((resolve) => {
        this.waiting.add(resolve);
      });
      const { isOver } = this;
      yield;
      if (isOver) return;
      await change;
    }
  }

  private wake(): void {
    for (const resolve of this.waiting) resolve();
    this.waiting.clear();
  }

  /** Never rejects: an error becomes the answer's last chunk. */
  private async run(): Promise<void> {
    const { journal } = this.holdfast;
    let last: Chunk | null = null;
    try {
      const session = await this.openWhenFree();
      try {
        last = await this.produce(session);
      } finally {
        await session.close({ finish: "call" });
      }
    } catch (error) {
      if (!isInterruption(error)) {
        journal.warn(error);
        last = { type: "error", errorText: this.errorText(error) };
      }
    }
    if (last) this.log.add(last);
  }

  /** Another process may be busy with an earlier message for longer than one wait. */
  private async openWhenFree(): Promise<Session> {
    for (let round = 1; ; round += 1) {
      try {
        return await this.holdfast.session(this.id, { ...this.options.session, ifHeld: "wait" });
      } catch (error) {
        if (!isHoldfastError(error, "SESSION_HELD") || round === MAX_WAITS) throw error;
      }
    }
  }

  /** Returns the answer's last chunk, or null if this process cannot end it. */
  private async produce(session: Session): Promise<Chunk | null> {
    const core = sessionCore(session);
    const chunks = new AnswerChunks(session, (error) => this.errorText(error));
    const stream = await this.ask(session, chunks);
    this.promptId ??= session.messages.findLast(({ role }) => role === "user")?.id ?? null;
    chunks.messageId = `turn:${this.promptId}:0`;
    const answer = { attempt: this.attempt, prompt: this.promptId ?? "" };
    const keeper = new LiveAnswerKeeper(core, answer, () => this.log.chunks as unknown as Json[]);
    let last: Chunk | null = null;
    try {
      for await (const value of stream as unknown as AsyncIterable<unknown>) {
        for (const chunk of chunks.take(value as Chunk)) {
          if (isLast(chunk)) last = chunk;
          else {
            this.log.add(chunk);
            keeper.changed();
          }
        }
        this.wake();
      }
    } finally {
      await keeper.end();
    }
    return core.isLeaving && last?.type !== "finish" ? null : last;
  }

  private async ask(session: Session, chunks: AnswerChunks): Promise<ReadableStream<unknown>> {
    const { prompt, options } = this;
    const d = durable(session, options.durable);
    try {
      const stream = await options.answer({ session, durable: d, prompt });
      return "toUIMessageStream" in stream ? stream.toUIMessageStream({ onError: chunks.noteError }) : stream;
    } catch (error) {
      if (!isHoldfastError(error, "SESSION_HAS_OPEN_CALLS")) throw error;
      return this.leaveForLater(session);
    }
  }

  /** The prompt is answered when the calls before it have outcomes. Until then it is queued. */
  private async leaveForLater(session: Session): Promise<ReadableStream<unknown>> {
    const { prompt } = this;
    if (prompt)
      await queuePrompt(session, { ...(await promptMessage(session, prompt)), id: prompt.id }, "chat");
    const parts = session.openCalls.map(({ callId, tool, why }) => {
      return { type: "data-waiting", id: callId, data: { callId, tool, why } };
    });
    const queued = { type: "data-queued", id: "queued", data: { prompt: prompt?.id ?? null } };
    return new ReadableStream({
      start(controller) {
        for (const chunk of [{ type: "start" }, ...parts, queued, { type: "finish" }])
          controller.enqueue(chunk);
        controller.close();
      },
    });
  }

  private errorText(error: unknown): string {
    return this.options.errorText?.(error) ?? "An error occurred.";
  }
}

/** Each takes as long as a lease. */
const MAX_WAITS = 20;

const underWay = new WeakMap<Journal, Map<string, Set<Answering>>>();

/** Another process answers, or this one does after a restart. */
function isInterruption(error: unknown): boolean {
  return (["SESSION_CLOSED", "LEASE_LOST", "STORE_CLOSED"] as const).some((code) =>
    isHoldfastError(error, code),
  );
}

/**
 * The chunks of the SDK, with calls that wait for a person as parts. The SDK reports such a call as failed,
 * and the refused next question as an error that ends the stream.
 */
class AnswerChunks {
  messageId = "";
  private readonly session: Session;
  private readonly errorText: (error: unknown) => string;
  private lastError: unknown = null;
  /** A step begins with its first part: the step of a refused question has none. */
  private step: Chunk | null = null;

  constructor(session: Session, errorText: (error: unknown) => string) {
    this.session = session;
    this.errorText = errorText;
  }

  readonly noteError = (error: unknown): string => {
    this.lastError = error;
    return this.errorText(error);
  };

  take(chunk: Chunk): Chunk[] {
    if (chunk.type === "start") return [{ ...chunk, messageId: this.messageId }];
    if (chunk.type === "start-step") {
      this.step = chunk;
      return [];
    }
    if (chunk.type === "error" && isHoldfastError(this.lastError, "SESSION_HAS_OPEN_CALLS"))
      return [{ type: "finish" }];
    if (chunk.type === "finish-step" && this.step) {
      this.step = null;
      return [];
    }
    const begun = this.step && !isLast(chunk) ? [this.step] : [];
    this.step = null;
    return [...begun, ...this.withWaiting(chunk)];
  }

  private withWaiting(chunk: Chunk): readonly Chunk[] {
    const call = sessionCore(this.session).state.calls.get(String(chunk["toolCallId"]));
    const isProvisional = call && chunk["output"] === provisionalResult(call.callId).content;
    if (!isProvisional && chunk.type !== "tool-output-error") return [chunk];
    if (call?.status === "waiting") return [waitingChunk(call)];
    return isProvisional ? outcomeChunks(call) : [chunk];
  }
}
