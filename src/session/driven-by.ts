/**
 * Links from a session to others that depend on it. Both are in its first event.
 *
 *     driven by   another program takes its next step, e.g. an MCP client. No worker is started for it.
 *     serves      another stream will read it again. It is not pruned while that stream exists.
 *     parent      it works for a call of another session. It is not pruned while that call is open.
 */

import type { Journal } from "../journal/index.ts";
import { streamName } from "../model/names.ts";
import { isOpen, type JsonObject, type SessionState, sessionKind } from "../model/session/index.ts";
import { incarnationOf } from "./session-core.ts";
import { childId } from "./sub-agents.ts";

const DRIVEN_BY = "holdfast.goesOnWith";
const SERVES_STREAM = "holdfast.serves";

/** The `metadata` of a session that `whom` drives, e.g. `"its MCP client"`, and the stream that it serves. */
export function drivenByMetadata(whom: string, stream?: string): JsonObject {
  return { [DRIVEN_BY]: whom, ...(stream !== undefined && { [SERVES_STREAM]: stream }) };
}

export function drivenBy({ metadata }: SessionState): string | null {
  const whom = metadata[DRIVEN_BY];
  return typeof whom === "string" ? whom : null;
}

interface Opened {
  readonly parent?: { readonly session: string; readonly callId: string };
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** Without the record of such a session its parent, or the stream it serves, would repeat what it did. */
export async function isReferenced(journal: Journal, id: string): Promise<boolean> {
  for await (const [, { type, data }] of journal.events(streamName("session", id), 0, 1)) {
    if (type !== "session.opened") return false;
    const { parent, metadata } = data as Opened;
    if (parent && (await parentWithOpenCall(journal, id, parent))) return true;
    const served = metadata?.[SERVES_STREAM];
    return typeof served === "string" && (await journal.row(served)).state !== "gone";
  }
  return false;
}

/** The parent of a sub-agent, if the call that the sub-agent works for is open. */
export async function parentWithOpenCall(
  journal: Journal,
  id: string,
  parent: NonNullable<Opened["parent"]>,
) {
  const { row, head, state } = await journal.load(sessionKind, parent.session);
  const call = state.calls.get(parent.callId);
  if (row.state === "gone" || !call || !isOpen(call.status)) return null;
  const isChild = childId(incarnationOf(parent.session, head.generation), call.callId) === id;
  return isChild ? { row, state } : null;
}
