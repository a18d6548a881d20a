import { HoldfastError, type Message, messageText, toolCalls } from "../model/index.ts";

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
  const isFinal = (message: Message): boolean =>
    message.role === "assistant" && toolCalls(message).length === 0;
  const since = messages.slice(messages.findLastIndex(isFinal) + 1);
  return since.filter((message) => message.role === "user" && message.meta?.["holdfast"] === undefined);
}

/** The final answer to a prompt: the first assistant message after it that asks for nothing more. */
export function answerTo(messages: readonly Message[], id: string): Message | null {
  const start = messages.findLastIndex((message) => message.id === id);
  if (start < 0) return null;
  for (const message of messages.slice(start + 1)) {
    if (message.role === "assistant" && toolCalls(message).length === 0) return message;
  }
  return null;
}

/**
 * For a prompt whose id is on record: with other words it is another prompt, and the old answer is none to it. Not where a
 * codec may have changed what was stored, as a redaction does: then the id alone decides.
 */
export function mustSayTheSame(session: string, messages: readonly Message[], prompt: PromptInput): void {
  const id = promptId(prompt);
  const known = id === null ? undefined : messages.find((message) => message.id === id);
  if (known && messageText(known) !== promptText(prompt)) throw otherWords(session, known.id);
}

export function otherWords(session: string, prompt: string): HoldfastError {
  const what = `session ${session}: prompt ${JSON.stringify(prompt)} is on record with other words`;
  return new HoldfastError("PROMPT_DIVERGED", `${what}. The model was not asked`, {
    hint: "To resume, say the same words. For something new, use another id.",
    data: { session, prompt },
  });
}
