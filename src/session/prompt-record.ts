/**
 * What is on record of a prompt that has a name.
 *
 * The transcript says it until somebody edits it: compacts it, shortens a message, leaves one out. From then on only the
 * log knows what was said, and it is read from its beginning: for a prompt that is known, once at the start of its run.
 *
 * A run owes an answer to all that is said to it until it ends, to what was queued and to what was said while the model
 * was asked. That, and the prompt that it began with, is one exchange. The next one begins with a prompt that comes once
 * nothing is unanswered, and its answers are left to the run that has its tools.
 */

import type { Journal, Log } from "../journal/index.ts";
import {
  type Message,
  messageText,
  type SessionDraft,
  type SessionState,
  sessionKind,
} from "../model/session/index.ts";
import { applyEvent, type Event } from "../model/stream/index.ts";
import { answerTo, isFinal, isPrompt, unansweredPrompts } from "./prompt.ts";

export interface PromptRecord {
  /** As they were first said. */
  readonly words: string;
  /** The first final answer that came after it. */
  readonly answer: Message | null;
  /** What has no answer yet: something of its own exchange, or the prompt of a later one. */
  readonly unanswered: "own" | "later" | null;
  /** It was compacted away before it had an answer, and nothing that was left asked for one: it has to be put again. */
  readonly isGone: boolean;
}

/** Null for a prompt that nobody has put yet. */
export async function promptRecord(
  journal: Journal,
  { state, stream }: Log<SessionState>,
  id: string,
): Promise<PromptRecord | null> {
  if (!state.messageIds.has(id)) {
    const queued = state.prompts.find((prompt) => prompt.id === id);
    return queued ? { words: messageText(queued), answer: null, unanswered: "own", isGone: false } : null;
  }
  const prompt = state.edited ? undefined : state.messages.find((message) => message.id === id);
  if (!prompt) return new Reading(id).toTheEnd(journal, stream);
  const answer = answerTo(state.messages, id);
  const isOver = unansweredPrompts(state.messages).length === 0;
  if (!answer || isOver)
    return { words: messageText(prompt), answer, unanswered: isOver ? null : "own", isGone: false };
  return new Reading(id).toTheEnd(journal, stream);
}

/** The log up to one position, as far as it is about one prompt. */
class Reading {
  private readonly id: string;
  private readonly state = sessionKind.initial();
  private words: string | null = null;
  private answer: Message | null = null;
  /** Ids of the prompts of the latest exchange. */
  private exchange = new Set<string>();
  /** Ids of all that was ever queued. */
  private readonly queued = new Set<string>();
  private isOver = true;
  private isGone = false;

  constructor(id: string) {
    this.id = id;
  }

  async toTheEnd(journal: Journal, stream: string): Promise<PromptRecord | null> {
    for await (const events of journal.recorded(stream)) this.see(events);
    const { id, words, answer, exchange, isOver, isGone } = this;
    if (words === null) return null;
    return { words, answer, unanswered: isOver ? null : exchange.has(id) ? "own" : "later", isGone };
  }

  /** One write. An answer and what came while it was made change places in one, so it counts as a whole. */
  private see(events: readonly [seq: number, Event][]): void {
    const { state, id } = this;
    let final: Message | null = null;
    for (const [seq, event] of events) {
      applyEvent(sessionKind, state, event, seq);
      for (const { id: queued } of state.prompts) this.queued.add(queued);
      for (const message of messagesOf(event as Event & SessionDraft)) {
        if (message.id === id) this.words ??= messageText(message);
        if (event.type !== "message") continue;
        if (isFinal(message)) final = message;
        this.take(message);
      }
    }
    if (final && state.messages.at(-1)?.role === "user") this.isOver = false;
    if (this.words === null || this.answer) return;
    const isThere = state.messages.some((message) => message.id === id);
    if (isThere) this.isGone = false;
    else if (!final && !asksForAnswer(state.messages)) this.isGone = true;
    this.answer = isThere ? answerTo(state.messages, id) : this.isGone ? null : final;
  }

  private take(message: Message): void {
    if (isFinal(message)) this.isOver = true;
    if (!isPrompt(message)) return;
    if (this.isOver && !this.queued.has(message.id)) this.exchange = new Set();
    this.exchange.add(message.id);
    this.isOver = false;
  }
}

/** Whether a run would go on with what is there. */
function asksForAnswer(messages: readonly Message[]): boolean {
  const last = messages.at(-1);
  return last !== undefined && !isFinal(last);
}

function messagesOf(event: SessionDraft): readonly Message[] {
  if (event.type === "message") return [event.data.message];
  if (event.type !== "transcript.replaced") return [];
  return event.data.segments.flatMap((segment) => ("add" in segment ? segment.add : []));
}
