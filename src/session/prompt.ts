import type { Journal } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { type Message, type SessionState, toolCalls } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";

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
