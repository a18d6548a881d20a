import type { Journal, Log } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import {
  type Message,
  messageText,
  type SessionDraft,
  type SessionState,
  sessionKind,
  toolCalls,
} from "../model/session/index.ts";
import { applyEvent, type Draft, type Event } from "../model/stream/index.ts";

/**
 * What users said while the model was asked comes after its answer, as a queued prompt does: the answer is none to that,
 * and the next turn, or the next process, hears it. `heard` is the last message that the model was shown. The answer is
 * about to be appended.
 */
export function putBehindAnswer({ messages }: SessionState, heard: string | undefined): Draft[] {
  const from = messages.findLastIndex(({ id }) => id === heard) + 1;
  const to = messages.length;
  if (from === 0 || from === to || messages[to - 1]?.role !== "user") return [];
  const segments = [{ keep: [0, from] }, { keep: [to, to + 1] }, { keep: [from, to] }];
  return [{ type: "transcript.replaced", data: { segments, why: "said while the model was asked" } }];
}

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

/** Plain text, or text with an identity: a finished prompt with the same id is answered from the record. */
export type PromptInput = string | { readonly id: string; readonly text: string };

export function promptId(prompt: PromptInput): string | null {
  return typeof prompt === "string" ? null : prompt.id;
}

export function promptText(prompt: PromptInput): string {
  return typeof prompt === "string" ? prompt : prompt.text;
}

/** What users said since the last final answer, leaving out notes that the loop itself wrote. */
export function unansweredPrompts(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex(isFinal) + 1).filter(isPrompt);
}

/** What a user said, and not a note that the loop itself wrote. */
export function isPrompt(message: Message): boolean {
  return message.role === "user" && message.meta?.["holdfast"] === undefined;
}

/** An answer that asks for nothing more. */
export function isFinal(message: Message): boolean {
  return message.role === "assistant" && toolCalls(message).length === 0;
}

/** The answer to a prompt: the first final one after it. */
export function answerTo(messages: readonly Message[], id: string): Message | null {
  const start = messages.findLastIndex((message) => message.id === id);
  if (start < 0) return null;
  return messages.slice(start + 1).find(isFinal) ?? null;
}

/** For a prompt that was compacted away before it had an answer, when nothing that is left asks for one. */
export function putAgain({ messages }: SessionState, message: Message): Draft {
  const kept = messages.length > 0 ? [{ keep: [0, messages.length] }] : [];
  const data = { segments: [...kept, { add: [message] }], why: "its prompt has no answer yet" };
  return { type: "transcript.replaced", data };
}

/**
 * For a prompt whose id is on record: with other words it is another prompt, and the old answer is none to it. Not where a
 * codec may have changed what was stored, as a redaction does: then the id alone decides.
 */
export function mustSayTheSame(
  session: string,
  journal: Journal,
  prompt: { readonly id: string; readonly text: string },
  words: string,
  so?: string,
): void {
  if (journal.payloads.hasNoCodec && words !== prompt.text) throw promptTextChanged(session, prompt.id, so);
}

export function promptTextChanged(
  session: string,
  prompt: string,
  so = "The model was not asked",
): HoldfastError {
  const what = `session ${session}: prompt ${JSON.stringify(prompt)} is on record with other words`;
  return new HoldfastError("PROMPT_DIVERGED", `${what}. ${so}`, {
    hint: "To resume, say the same words. For something new, use another id.",
    data: { session, prompt },
  });
}
