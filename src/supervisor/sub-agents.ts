import type { Journal } from "../journal/index.ts";
import { openCallsOf, type SessionState, sessionKind } from "../model/index.ts";
import { childId, lifeOf } from "../session/index.ts";
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
    members.push(...(await withSubAgents(journal, childId(lifeOf(id, row.head.generation), call.id))));
  }
  return members;
}
