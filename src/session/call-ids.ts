import { sha256 } from "../model/digest.ts";
import {
  type Block,
  draftMessage,
  isCallId,
  type Message,
  type SessionState,
  toolCalls,
} from "../model/session/index.ts";

type MessageDraft = ReturnType<typeof draftMessage>;

/**
 * Some providers count their call ids anew in every answer. In the log an id means one call, for good, so an id that
 * was used before gets the message's own id added.
 */
export function withOwnCallIds(draft: MessageDraft, state: SessionState): MessageDraft {
  const { message } = draft.data;
  if (areAllNew(message, state)) return draft;
  const isUsed = (id: string): boolean => state.callSlots.has(id) || state.calls.has(id);
  // What another call of the message brings by itself is that one's, also where it comes later.
  const brought = new Set(toolCalls(message).map(({ id }) => id));
  const seen = new Set<string>();
  const blocks = message.blocks.map((block, index): Block => {
    if (block.kind !== "tool_call") return block;
    const isFree = !seen.has(block.id) && !isUsed(block.id);
    const id = isFree
      ? block.id
      : ownId(
          `${block.id}.${message.id}.${index}`,
          (each) => brought.has(each) || seen.has(each) || isUsed(each),
        );
    seen.add(id);
    return isFree ? block : { ...block, id };
  });
  return draftMessage({ ...message, blocks } satisfies Message);
}

/** As it reads best; by its hash where that is too long, or taken by somebody who likes to write ids this way. */
function ownId(id: string, isTaken: (id: string) => boolean): string {
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
