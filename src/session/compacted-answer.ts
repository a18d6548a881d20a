import type { Journal, Log } from "../journal/index.ts";
import { applyEvent, type Message, type SessionState, sessionKind } from "../model/index.ts";
import { answerTo } from "./prompt.ts";

/**
 * The answer to a prompt that was compacted away since: the log still has it. Reads all of the log, for which only a
 * prompt that is known and not in the transcript any more is a reason.
 */
export async function compactedAnswer(
  journal: Journal,
  { state, stream }: Log<SessionState>,
  id: string,
): Promise<Message | null> {
  if (!state.messageIds.has(id) || state.messages.some((message) => message.id === id)) return null;
  const then = sessionKind.initial();
  for await (const [seq, event] of journal.events(stream)) {
    const answer = event.type === "transcript.replaced" ? answerTo(then.messages, id) : null;
    if (answer) return answer;
    applyEvent(sessionKind, then, event, seq);
  }
  return null;
}
