import { reactivate, type SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { withOwnCallIds } from "./call-ids.ts";
import { checkpointDraft, mustBeFinished } from "./drafts.ts";
import type { readMessage } from "./message-input.ts";

type MessageDraft = ReturnType<typeof readMessage>;

/** More than this are looked up, not compared with each other. */
const FEW = 8;

/** The events that append those of the messages that are not there yet, and perhaps number the version that they make. */
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
  for (const draft of fresh) events.push(withOwnCallIds(draft, state));
  if (checkpoint) events.push(checkpointDraft(state, checkpoint));
  return reactivate(state, events);
}

/** Those whose id is not there yet, in the log or earlier in the same call. */
function newMessages(drafts: readonly MessageDraft[], state: SessionState): MessageDraft[] {
  const seen = drafts.length > FEW ? new Set<string>() : null;
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
