import type { Journal } from "../journal/index.ts";
import { openCallsOf, type SessionState, sha256, streamName } from "../model/index.ts";

/** A sub-agent's session is named by the call that started it, so that a resumed call finds it again. */
export function childId(session: string, callId: string): string {
  return `sub-${sha256(JSON.stringify([session, callId])).slice(0, 32)}`;
}

/** Sub-agents that are at work for a session: those of its open calls that exist. */
export async function childrenOf(journal: Journal, session: string, state: SessionState): Promise<string[]> {
  const found: string[] = [];
  for (const call of openCallsOf(state)) {
    const id = childId(session, call.id);
    if ((await journal.row(streamName("session", id))).state === "live") found.push(id);
  }
  return found;
}
