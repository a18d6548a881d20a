/**
 * Prompts of a session that a framework's loop answers: queued ones, and when two prompts are the same.
 *
 * Prompts that others queued (`holdfast.sessions.prompt`) are delivered with the session's next prompt:
 * appended right before it, in the same commit, with its id in their meta. A resumed run finds both as they
 * were. Prompts that are queued during a run wait for the next one.
 */

import { sha256 } from "../../model/digest.ts";
import { canonicalText, type Json } from "../../model/json.ts";
import type { Message, QueuedPrompt } from "../../model/session/index.ts";
import { isoTime } from "../../model/time.ts";
import {
  type MessageInput,
  promptTextChanged,
  readMessage,
  type Session,
  sessionCore,
} from "../../session/index.ts";
import { runCompacted } from "./errors.ts";

/** In a queued prompt's meta: the id of the prompt with which it was delivered. */
const WITH = "with";

export async function appendPrompt(session: Session, prompt: MessageInput): Promise<Message> {
  const id = prompt.id ?? sessionCore(session).journal.newId();
  const queued = session.prompts.filter((each) => each.id !== id);
  const inputs = [...queued.map((each) => messageOf(each, id)), { ...prompt, id }];
  const appended = await session.append(inputs);
  return appended.at(-1) as Message;
}

/** Makes the last queued prompt the session's next prompt. Null if none is queued. */
export async function appendQueued(session: Session): Promise<Message | null> {
  const last = session.prompts.at(-1);
  return last ? appendPrompt(session, messageOf(last, last.id)) : null;
}

/** Queues a prompt, with its files, for the time when no call is open. A known id is queued once. */
export async function queuePrompt(session: Session, prompt: MessageInput & { id: string }, by: string) {
  const { id } = prompt;
  const { data } = readMessage(prompt, sessionCore(session).journal.now(), () => id);
  const draft = { type: "prompt.queued", data: { id, blocks: data.message.blocks, by } };
  await sessionCore(session).writeEvents(({ messageIds, prompts }) =>
    messageIds.has(id) || prompts.some((each) => each.id === id) ? [] : [draft],
  );
}

/** The queued prompts that were delivered with a prompt, oldest first. */
export function queuedWith({ messages }: Session, { id }: Message): readonly Message[] {
  return messages.filter((message) => message.id !== id && message.meta?.[WITH] === id);
}

function messageOf({ id, blocks, by, at }: QueuedPrompt, prompt: string): MessageInput {
  const createdAt = isoTime(at);
  return { id, role: "user", createdAt, blocks, meta: { by, ...(id !== prompt && { [WITH]: prompt }) } };
}

/**
 * The recorded prompt with this id. Refuses the id with another text, unless the program adopts the recorded
 * one, and an id that was compacted away.
 */
export function findPrompt(
  session: Session,
  id: string,
  text: string,
  textOf: (stored: Pick<Message, "blocks" | "meta">) => string,
  onDiverge?: "refuse" | "adopt" | "branch",
): Message | undefined {
  const { state, journal, rehearsal } = sessionCore(session);
  const hasId = (each: { readonly id: string }): boolean => each.id === id;
  const known = session.messages.findLast(hasId);
  const stored = known ?? session.prompts.find(hasId);
  // A codec may change the stored text (redaction, for example), so then the id alone decides.
  const mayDiffer = onDiverge === "adopt" || !journal.payloads.isExact;
  if (stored && !mayDiffer && textOf(stored) !== text) {
    const error = promptTextChanged(session.id, id);
    rehearsal?.note(error);
    throw error;
  }
  if (!known && state.messageIds.has(id)) throw runCompacted(session.id, id);
  return known;
}

export type PromptMark = { readonly count: number; readonly digest: string };

/**
 * Decides when two prompts are the same: a chain of hashes over the prompt's items. One hash and a count are
 * stored per turn. The hashes of two turns still show whether a difference lies in their common part. The
 * order of members, undefined members, and a URL as object or text make no difference. Bytes count by
 * content.
 */
export class PromptIdentity {
  readonly mark: PromptMark;
  private readonly chain: readonly string[];

  constructor(items: readonly unknown[]) {
    const chain = [sha256("prompt 1")];
    for (const item of items) chain.push(sha256(`${chain.at(-1)}${canonicalText(comparable(item))}`));
    this.chain = chain;
    this.mark = { count: items.length, digest: chain.at(-1) ?? "" };
  }

  equals(mark: PromptMark): boolean {
    return this.mark.count === mark.count && this.mark.digest === mark.digest;
  }

  startsWith(mark: PromptMark): boolean {
    return this.chain[mark.count] === mark.digest;
  }
}

function comparable(value: unknown): Json {
  if (value === null || value === undefined) return null;
  if (value instanceof Uint8Array) return { bytes: sha256(value) };
  if (value instanceof ArrayBuffer) return { bytes: sha256(new Uint8Array(value)) };
  if (value instanceof URL) return value.href;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value === "object") {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return Object.fromEntries(members.map(([name, member]) => [name, comparable(member)]));
  }
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function")
    return String(value);
  return value as Json;
}
