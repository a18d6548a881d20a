import { type Message, toolCalls } from "../model/index.ts";

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
