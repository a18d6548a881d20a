/**
 * Prompts and their answers.
 *
 * The answer to a prompt is the first final assistant message after it. For a prompt with an id that answer
 * stays the same for good: a later run with the same id returns it without asking the model. After the
 * transcript was edited, only the log knows it, and is read from its start.
 *
 * A run answers everything that is said to it until it ends: its own prompt, queued ones, and messages that
 * arrive while the model works. Together they are one exchange. The next exchange starts with a prompt that
 * arrives when nothing is unanswered; it is left to the run that has its tools.
 */

import type { Journal, Log } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { checkOption } from "../model/options.ts";
import type { Message, SessionDraft, SessionState } from "../model/session/index.ts";
import { messageText, sessionKind, toolCalls } from "../model/session/index.ts";
import { applyEvent, type Draft, type Event } from "../model/stream/index.ts";

/** Plain text, or `{ id: "order-17", text }`: a prompt with an id is answered once, and then from the log. */
export type PromptInput = string | { readonly id: string; readonly text: string };

export function promptId(prompt: PromptInput): string | null {
  return typeof prompt === "string" ? null : prompt.id;
}

export function promptText(prompt: PromptInput): string {
  return typeof prompt === "string" ? prompt : prompt.text;
}

/** Vendors refuse a message without text, and an agent would answer nothing at the price of a turn. */
export function checkPrompt(what: string, text: unknown): void {
  checkOption(`${what}: prompt`, text, "text");
  if ((text as string).trim() !== "") return;
  throw new HoldfastError("INPUT_INVALID", `${what}: the prompt is empty`, {
    hint: "Pass what the user says. Leave `prompt` out to continue a session without one.",
  });
}

/** The n-th prompt with some text has the same id in every attempt, so an answered one is not asked again. */
export function nameRepeatedPrompt(counts: Map<string, number>, text: string): PromptInput {
  const count = (counts.get(text) ?? 0) + 1;
  counts.set(text, count);
  return { id: `prompt-${sha256(text).slice(0, 16)}-${count}`, text };
}

export function unansweredPrompts(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex(isFinal) + 1).filter(isPrompt);
}

/** True for a user's message. Notes that the loop wrote itself do not count. */
function isPrompt(message: Message): boolean {
  return message.role === "user" && message.meta?.["holdfast"] === undefined;
}

export function isFinal(message: Message): boolean {
  return message.role === "assistant" && toolCalls(message).length === 0;
}

export function answerTo(messages: readonly Message[], id: string): Message | null {
  const start = messages.findLastIndex((message) => message.id === id);
  if (start < 0) return null;
  return messages.slice(start + 1).find(isFinal) ?? null;
}

export function putAgain({ messages }: SessionState, message: Message): Draft {
  const kept = messages.length > 0 ? [{ keep: [0, messages.length] }] : [];
  const data = { segments: [...kept, { add: [message] }], why: "its prompt has no answer yet" };
  return { type: "transcript.replaced", data };
}

/** Moves messages that arrived while the model worked behind its answer, which does not refer to them. */
export function moveAfterAnswer({ messages }: SessionState, lastSent: string | undefined): Draft[] {
  const from = messages.findLastIndex(({ id }) => id === lastSent) + 1;
  const to = messages.length;
  if (from === 0 || from === to || messages[to - 1]?.role !== "user") return [];
  const segments = [{ keep: [0, from] }, { keep: [to, to + 1] }, { keep: [from, to] }];
  return [{ type: "transcript.replaced", data: { segments, why: "said while the model was asked" } }];
}

/** With a codec the stored text may differ on purpose (a redaction), so then the id alone decides. */
export function mustSayTheSame(
  session: string,
  journal: Journal,
  prompt: { readonly id: string; readonly text: string },
  recorded: string,
  consequence?: string,
): void {
  if (journal.payloads.isExact && recorded !== prompt.text)
    throw promptTextChanged(session, prompt.id, consequence);
}

export function promptTextChanged(
  session: string,
  prompt: string,
  consequence = "The model was not asked",
): HoldfastError {
  const what = `session ${session}: prompt ${JSON.stringify(prompt)} is on record with other words`;
  return new HoldfastError("PROMPT_DIVERGED", `${what}. ${consequence}`, {
    hint: "To resume, use the same words. For a new prompt, use another id.",
    data: { session, prompt },
  });
}

// ---- The record of a prompt with an id

export interface PromptRecord {
  readonly text: string;
  readonly answer: Message | null;
  /** Unanswered messages: of the prompt's own exchange, of a later one, or none. */
  readonly unanswered: "own" | "later" | null;
  /** The prompt was compacted away unanswered, and the rest does not ask for an answer: put it again. */
  readonly isGone: boolean;
}

/** Null for a prompt that was never put. */
export async function promptRecord(
  journal: Journal,
  { state, stream }: Log<SessionState>,
  id: string,
): Promise<PromptRecord | null> {
  if (!state.messageIds.has(id)) {
    const queued = state.prompts.find((prompt) => prompt.id === id);
    return queued ? { text: messageText(queued), answer: null, unanswered: "own", isGone: false } : null;
  }
  const prompt = state.edited ? undefined : state.messages.find((message) => message.id === id);
  if (!prompt) return new PromptHistory(id).read(journal, stream);
  const answer = answerTo(state.messages, id);
  const isOver = unansweredPrompts(state.messages).length === 0;
  if (!answer || isOver)
    return { text: messageText(prompt), answer, unanswered: isOver ? null : "own", isGone: false };
  return new PromptHistory(id).read(journal, stream);
}

class PromptHistory {
  private readonly id: string;
  private readonly state = sessionKind.initial();
  private text: string | null = null;
  private answer: Message | null = null;
  private exchange = new Set<string>();
  /** Ids of all prompts that were ever queued. */
  private readonly queued = new Set<string>();
  private isOver = true;
  private isGone = false;

  constructor(id: string) {
    this.id = id;
  }

  async read(journal: Journal, stream: string): Promise<PromptRecord | null> {
    for await (const events of journal.recorded(stream)) this.apply(events);
    const { id, text, answer, exchange, isOver, isGone } = this;
    if (text === null) return null;
    return { text, answer, unanswered: isOver ? null : exchange.has(id) ? "own" : "later", isGone };
  }

  /** Applies one write as a whole: an answer and late prompts change places within it. */
  private apply(events: readonly [seq: number, Event][]): void {
    const { state, id } = this;
    let final: Message | null = null;
    for (const [seq, event] of events) {
      applyEvent(sessionKind, state, event, seq);
      for (const { id: queued } of state.prompts) this.queued.add(queued);
      for (const message of messagesOf(event as Event & SessionDraft)) {
        if (message.id === id) this.text ??= messageText(message);
        if (event.type !== "message") continue;
        if (isFinal(message)) final = message;
        this.noteExchange(message);
      }
    }
    if (final && state.messages.at(-1)?.role === "user") this.isOver = false;
    if (this.text === null || this.answer) return;
    const isThere = state.messages.some((message) => message.id === id);
    if (isThere) this.isGone = false;
    else if (!final && !asksForAnswer(state.messages)) this.isGone = true;
    this.answer = isThere ? answerTo(state.messages, id) : this.isGone ? null : final;
  }

  private noteExchange(message: Message): void {
    if (isFinal(message)) this.isOver = true;
    if (!isPrompt(message)) return;
    if (this.isOver && !this.queued.has(message.id)) this.exchange = new Set();
    this.exchange.add(message.id);
    this.isOver = false;
  }
}

function asksForAnswer(messages: readonly Message[]): boolean {
  const last = messages.at(-1);
  return last !== undefined && !isFinal(last);
}

function messagesOf(event: SessionDraft): readonly Message[] {
  if (event.type === "message") return [event.data.message];
  if (event.type !== "transcript.replaced") return [];
  return event.data.segments.flatMap((segment) => ("add" in segment ? segment.add : []));
}
