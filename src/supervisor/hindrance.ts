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
import { isOpen, openCallsOf, sessionKind, toolCalls } from "../model/session/index.ts";
import { type Member, withSubAgents } from "./sub-agents.ts";

export type Hindrance = "person" | "session";

export function hindranceOf(journal: Journal, session: string): Promise<Hindrance | null> {
  return look(journal, session, new Set());
}

/** `seen`: two sessions may each wait for the other. */
async function look(journal: Journal, id: string, seen: Set<string>): Promise<Hindrance | null> {
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
async function inTheWay(journal: Journal, member: Member, seen: Set<string>): Promise<Hindrance | null> {
  const { messages, unfinished, calls } = member.state;
  const asked = messages.filter((message) => unfinished.has(message.id)).flatMap(toolCalls);
  const tools = new Set(asked.filter(({ id }) => !calls.has(id)).map(({ name }) => name));
  if (tools.size === 0) return null;
  const request = { of: "items", kind: "call", open: true, limit: 500 } as const;
  const rows = await allRows((from) => journal.list<"items">({ ...request, ...from }));
  let found: Hindrance | null = null;
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
