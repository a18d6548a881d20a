/**
 * What stands between a session and its next step, if that is somebody else.
 *
 *     a call of it waits for a person, or one of a sub-agent that works for it ──▶ a person
 *     it asked for what another session has begun, once over all sessions: that waits for a person ──▶ a person
 *                                                                          that is under way ──▶ that session
 *
 * Of a call that another session stands in the way of, only the message is on record: which open call that is, is told by the
 * name of the tool. Where it was another one after all, a worker comes a little later than it could.
 */

import { allRows, type Journal } from "../journal/index.ts";
import { streamId } from "../model/names.ts";
import { isOpen, openCallsOf, type SessionState, sessionKind, toolCalls } from "../model/session/index.ts";
import { childId, incarnationOf } from "../session/index.ts";
import type { StreamRow } from "../store.ts";

/** A task whose worker ended well because a session that it works in waits for a person. */

/**
 * The session of that goal which the worker has had open since it was started, and in which it could not go on without a
 * person; null where there is none. Which task a session is for is not on record: the worker's own was written to last.
 */
export async function sessionLeftToPerson(
  journal: Journal,
  goal: string,
  since: number,
): Promise<string | null> {
  const asked = { of: "streams", kind: "session", goal, openCalls: true, limit: 500 } as const;
  const rows = await allRows((from) => journal.list<"streams">({ ...asked, ...from }));
  for (const { stream, updatedAt } of rows) {
    const session = streamId(stream);
    if (updatedAt >= since && (await blockedOn(journal, session)) === "person") return session;
  }
  return null;
}

interface Member {
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

export type BlockedOn = "person" | "session";

export function blockedOn(journal: Journal, session: string): Promise<BlockedOn | null> {
  return look(journal, session, new Set());
}

/** `seen`: two sessions may each wait for the other. */
async function look(journal: Journal, id: string, seen: Set<string>): Promise<BlockedOn | null> {
  if (seen.has(id)) return null;
  seen.add(id);
  const members = await withSubAgents(journal, id);
  if (members.some(({ state }) => openCallsOf(state).some(({ status }) => status === "waiting"))) {
    return "person";
  }
  for (const member of members) {
    const found = await inTheWay(journal, member, seen);
    if (found !== null) return found;
  }
  return null;
}

/** The same for calls that were asked for and could not be begun. */
async function inTheWay(journal: Journal, member: Member, seen: Set<string>): Promise<BlockedOn | null> {
  const { messages, unfinished, calls } = member.state;
  const asked = messages.filter((message) => unfinished.has(message.id)).flatMap(toolCalls);
  const tools = new Set(asked.filter(({ id }) => !calls.has(id)).map(({ name }) => name));
  if (tools.size === 0) return null;
  const request = { of: "items", kind: "call", open: true, limit: 500 } as const;
  const rows = await allRows((from) => journal.list<"items">({ ...request, ...from }));
  let found: BlockedOn | null = null;
  for (const row of rows) {
    const session = streamId(row.stream);
    if (session === member.id || row.name === null || !tools.has(row.name)) continue;
    const call = (await journal.load(sessionKind, session)).state.calls.get(row.id);
    if (call?.scope !== "global" || !isOpen(call.status)) continue;
    if (call.status === "waiting" || (await look(journal, session, seen)) === "person") return "person";
    found = "session";
  }
  return found;
}
