import { type Block, draftMessage, type Message, type SessionState, toolCalls } from "../model/index.ts";

type MessageDraft = ReturnType<typeof draftMessage>;

/**
 * Some providers count their call ids anew in every answer. In the log an id means one call, for good, so an id that
 * was used before gets the message's own id added.
 */
export function withOwnCallIds(draft: MessageDraft, state: SessionState): MessageDraft {
  const { message } = draft.data;
  if (areAllNew(message, state)) return draft;
  const seen = new Set<string>();
  const blocks = message.blocks.map((block, index): Block => {
    if (block.kind !== "tool_call") return block;
    const free = !seen.has(block.id) && !state.callSlots.has(block.id) && !state.calls.has(block.id);
    const id = free ? block.id : `${block.id}.${message.id}.${index}`;
    seen.add(id);
    return free ? block : { ...block, id };
  });
  return draftMessage({ ...message, blocks } satisfies Message);
}

function areAllNew(message: Message, state: SessionState): boolean {
  const calls = toolCalls(message);
  for (const { id } of calls) if (state.callSlots.has(id) || state.calls.has(id)) return false;
  return calls.length < 2 || new Set(calls.map(({ id }) => id)).size === calls.length;
}
