import type { Journal } from "../journal/index.ts";
import { isOpen, openCallsOf, type SessionState, sessionKind } from "../model/session/index.ts";
import { childId, incarnationOf } from "../session/index.ts";
import type { StreamRow } from "../store.ts";

export interface Member {
  readonly id: string;
  readonly state: SessionState;
  readonly row: StreamRow;
}

/** A session, and the sub-agents that work for its open calls, and theirs. None of them where it is gone or has ended. */
export async function withSubAgents(journal: Journal, id: string): Promise<Member[]> {
  const { state, row } = await journal.load(sessionKind, id);
  if (row.state !== "live" || state.status !== "active") return [];
  const members = [{ id, state, row }];
  for (const call of openCallsOf(state)) {
    members.push(...(await withSubAgents(journal, childId(incarnationOf(id, row.head.generation), call.id))));
  }
  return members;
}

/** A sub-agent whose call has its outcome already, or whose parent is gone, has ended or is such a one itself. */
export async function worksForNobody(
  journal: Journal,
  id: string,
  { parent }: SessionState,
): Promise<boolean> {
  if (parent === null) return false;
  const { state, row } = await journal.load(sessionKind, parent.session);
  const call = state.calls.get(parent.callId);
  if (row.state !== "live" || state.status !== "active" || !call || !isOpen(call.status)) return true;
  if (childId(incarnationOf(parent.session, row.head.generation), call.id) !== id) return true;
  return worksForNobody(journal, parent.session, state);
}
