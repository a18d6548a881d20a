/** Messages on their way into the transcript: read, given unique call ids, appended, and shown again. */

import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { freezeJson } from "../model/json.ts";
import { checkOption } from "../model/options.ts";
import type { Block, JsonObject, Message, MessageRole, SessionState } from "../model/session/index.ts";
import { draftMessage, isCallId, reactivate, toolCalls } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { isoTime } from "../model/time.ts";
import { checkpointDraft } from "./versions.ts";

/**
 * A message for `session.append`. Text is enough; Holdfast fills in the rest.
 *
 * @example
 * await session.append({ role: "user", text: "Book the 9:40 train." });
 */
export interface MessageInput {
  /** Pass an id to make the append repeatable: a message whose id is stored is not appended again. */
  readonly id?: string;
  readonly role: MessageRole;
  /** ISO time, e.g. `"2026-01-31T09:40:00.000Z"`. Now unless set. */
  readonly createdAt?: string;
  /** Short for one text block. Comes before `blocks` if both are set. */
  readonly text?: string;
  readonly blocks?: readonly Block[];
  /** Stored with the message and never shown to the model, e.g. `{ channel: "email" }`. */
  readonly meta?: JsonObject;
}

export type MessageDraft = ReturnType<typeof draftMessage>;

export function readMessage(input: MessageInput, now: number, newId: () => string): MessageDraft {
  checkOption("a message", input, "object");
  const { id, createdAt, text, blocks } = input;
  // `draftMessage` copies it anyway. Class instances still need the copy below, as plain objects.
  const isComplete = text === undefined && typeof id === "string" && typeof createdAt === "string";
  if (isComplete && blocks && Object.getPrototypeOf(input) === Object.prototype) return draftMessage(input);
  return draftMessage(withDefaults(input, now, newId));
}

/** In the field order that the message check reads fastest. It rejects unknown fields. */
function withDefaults(input: MessageInput, now: number, newId: () => string): object {
  const { id, role, createdAt, text, blocks = [], meta, ...others } = input;
  return {
    id: id ?? newId(),
    role,
    createdAt: createdAt ?? isoTime(now),
    // `blocks` may be anything here; the check rejects what is not a list.
    blocks: text === undefined || !Array.isArray(blocks) ? blocks : [{ kind: "text", text }, ...blocks],
    ...(meta !== undefined && { meta }),
    ...others,
  };
}

export function appendDrafts(
  session: string,
  drafts: readonly MessageDraft[],
  state: SessionState,
  checkpoint: boolean | string | undefined,
): readonly Draft[] {
  const fresh = newMessages(drafts, state);
  if (!fresh[0]) return fresh;
  if (fresh[0].data.message.role !== "tool") mustBeFinished(session, state);
  const events: Draft[] = [];
  for (const draft of fresh) events.push(withUniqueCallIds(draft, state));
  if (checkpoint) events.push(checkpointDraft(state, checkpoint));
  return reactivate(state, events);
}

function newMessages(drafts: readonly MessageDraft[], state: SessionState): MessageDraft[] {
  // Above this count a set finds duplicate ids faster than comparing all pairs.
  const seen = drafts.length > 8 ? new Set<string>() : null;
  const fresh: MessageDraft[] = [];
  for (const draft of drafts) {
    const { id } = draft.data.message;
    if (state.messageIds.has(id)) continue;
    if (seen ? seen.has(id) : fresh.some(({ data }) => data.message.id === id)) continue;
    seen?.add(id);
    fresh.push(draft);
  }
  return fresh;
}

/** Providers insist that results follow their calls, so nothing may come between them. */
function mustBeFinished(id: string, state: SessionState): void {
  if (state.unfinished.size === 0) return;
  const [message] = state.unfinished;
  const problem = `session ${id}: the calls of message ${message} have no results yet`;
  throw new HoldfastError("MESSAGE_UNFINISHED", problem, {
    hint:
      "Run them first: session.calls(session.unfinished, tools). " +
      "From outside, sessions.prompt() queues a message.",
    data: { session: id, message },
  });
}

/** Some providers restart their ids in every answer (`call_0`). In the log an id means one call for good. */
export function withUniqueCallIds(draft: MessageDraft, state: SessionState): MessageDraft {
  const { message } = draft.data;
  if (areAllNew(message, state)) return draft;
  const isUsed = (id: string): boolean => state.callSlots.has(id) || state.calls.has(id);
  // An id that any call of this message brings itself stays with that call, also if it comes later.
  const original = new Set(toolCalls(message).map(({ id }) => id));
  const seen = new Set<string>();
  const blocks = message.blocks.map((block, index): Block => {
    if (block.kind !== "tool_call") return block;
    const isFree = !seen.has(block.id) && !isUsed(block.id);
    const isTaken = (id: string): boolean => original.has(id) || seen.has(id) || isUsed(id);
    const id = isFree ? block.id : uniqueId(`${block.id}.${message.id}.${index}`, isTaken);
    seen.add(id);
    return isFree ? block : { ...block, id };
  });
  return draftMessage({ ...message, blocks } satisfies Message);
}

function uniqueId(id: string, isTaken: (id: string) => boolean): string {
  if (isCallId(id) && !isTaken(id)) return id;
  for (let tries = 0; ; tries++) {
    const hashed = `call_${sha256(`${id} ${tries}`).slice(0, 32)}`;
    if (!isTaken(hashed)) return hashed;
  }
}

function areAllNew(message: Message, state: SessionState): boolean {
  const calls = toolCalls(message);
  for (const { id } of calls) if (state.callSlots.has(id) || state.calls.has(id)) return false;
  return calls.length < 2 || new Set(calls.map(({ id }) => id)).size === calls.length;
}

/** The transcript as users see it, frozen. Pushing to the fold's own list would show unstored messages. */
export class FrozenTranscript {
  private source: readonly Message[] = [];
  private copy: readonly Message[] = [];

  of(messages: readonly Message[]): readonly Message[] {
    const known = this.source === messages ? this.copy.length : 0;
    if (this.source === messages && known === messages.length) return this.copy;
    for (let index = known; index < messages.length; index++) freezeJson(messages[index]);
    this.source = messages;
    this.copy = Object.freeze([...messages]);
    return this.copy;
  }
}
