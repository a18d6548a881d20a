/**
 * What others have queued for a session (`holdfast.sessions.prompt`) is heard with its next prompt: it is appended right
 * before that, in the same commit, and says with which one it came. A run that is resumed finds both as they were; what is
 * queued while it runs waits for the next one.
 */

import type { Message, QueuedPrompt } from "../../model/session/index.ts";
import { isoTime } from "../../model/time.ts";
import { type MessageInput, type Session, sessionCore } from "../../session/index.ts";

const WITH = "with";

/** Appends what the user says, after all that was queued until now. */
export async function appendPrompt(session: Session, said: MessageInput): Promise<Message> {
  const id = said.id ?? sessionCore(session).journal.newId();
  const queued = session.prompts.filter((prompt) => prompt.id !== id);
  const inputs = [...queued.map((prompt) => messageOf(prompt, id)), { ...said, id }];
  const appended = await session.append(inputs);
  return appended.at(-1) as Message;
}

/** Where nobody says anything else: the last of what was queued is the prompt. Null if nothing was. */
export async function appendQueued(session: Session): Promise<Message | null> {
  const last = session.prompts.at(-1);
  return last ? appendPrompt(session, messageOf(last, last.id)) : null;
}

/** What was queued and came with a prompt, oldest first. */
export function queuedWith({ messages }: Session, { id }: Message): readonly Message[] {
  return messages.filter((message) => message.id !== id && message.meta?.[WITH] === id);
}

function messageOf({ id, blocks, by, at }: QueuedPrompt, prompt: string): MessageInput {
  const createdAt = isoTime(at);
  return { id, role: "user", createdAt, blocks, meta: { by, ...(id !== prompt && { [WITH]: prompt }) } };
}
