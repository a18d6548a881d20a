/**
 * Finds out who has to act before a session can take its next step.
 *
 *     a call of the session or of its sub-agents waits for a person                a person
 *     it needs a call that another session runs (same global key),
 *       and that one waits for a person                                            a person
 *       and that one is in progress                                                that session
 *
 * A call that could not be issued is only known from its message. The blocking call is found by the tool's
 * name. If that finds the wrong call, a worker starts a little later than it could.
 */

import { allRows, type Journal } from "../journal/index.ts";
import { streamId } from "../model/names.ts";
import { isOpen, openCallsOf, type SessionState, sessionKind, toolCalls } from "../model/session/index.ts";
import { childId, incarnationOf, parentWithOpenCall } from "../session/index.ts";
import type { StreamRow } from "../store.ts";

type BlockedOn = "person" | "session";

export function blockedOn(journal: Journal, session: string): Promise<BlockedOn | null> {
  return findBlocker(journal, session, new Set());
}

/** `seen` ends the search if two sessions wait for each other. */
async function findBlocker(journal: Journal, id: string, seen: Set<string>): Promise<BlockedOn | null> {
  if (seen.has(id)) return null;
  seen.add(id);
  const members = await withSubAgents(journal, id);
  const calls = members.flatMap(({ state }) => openCallsOf(state));
  if (calls.some(({ status }) => status === "waiting")) return "person";
  for (const member of members) {
    const found = await findGlobalBlocker(journal, member, seen);
    if (found !== null) return found;
  }
  return null;
}

async function findGlobalBlocker(journal: Journal, member: Member, seen: Set<string>) {
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
    if (call.status === "waiting" || (await findBlocker(journal, session, seen)) === "person")
      return "person";
    found = "session";
  }
  return found;
}

/** The log does not say which task a session is for. The worker's own is the one written to last. */
export async function sessionWaitingForPerson(
  journal: Journal,
  goal: string,
  since: number,
): Promise<string | null> {
  const request = { of: "streams", kind: "session", goal, openCalls: true, limit: 500 } as const;
  const rows = await allRows((from) => journal.list<"streams">({ ...request, ...from }));
  for (const { stream, updatedAt } of rows) {
    const session = streamId(stream);
    if (updatedAt >= since && (await blockedOn(journal, session)) === "person") return session;
  }
  return null;
}

type Member = { readonly id: string; readonly state: SessionState; readonly row: StreamRow };

/** A session, the sub-agents for its open calls, and theirs. Empty if it was removed or has ended. */
export async function withSubAgents(journal: Journal, id: string): Promise<Member[]> {
  const { state, row } = await journal.load(sessionKind, id);
  if (row.state !== "live" || state.status !== "active") return [];
  const members = [{ id, state, row }];
  for (const call of openCallsOf(state)) {
    members.push(
      ...(await withSubAgents(journal, childId(incarnationOf(id, row.head.generation), call.callId))),
    );
  }
  return members;
}

/** True for a sub-agent whose call has an outcome, or whose parent was removed, ended or orphaned. */
export async function isOrphaned(journal: Journal, id: string, { parent }: SessionState): Promise<boolean> {
  if (parent === null) return false;
  const found = await parentWithOpenCall(journal, id, parent);
  if (found?.row.state !== "live" || found.state.status !== "active") return true;
  return isOrphaned(journal, parent.session, found.state);
}
