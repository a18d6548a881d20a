/**
 * Sessions whose next step comes from elsewhere, such as the client of a proxy: started for its own sake, no
 * agent could go on with one. That stands in its metadata, from its first event on.
 */

import type { Journal } from "../journal/index.ts";
import { streamName } from "../model/names.ts";
import { isOpen, type JsonObject, type SessionState, sessionKind } from "../model/session/index.ts";
import { incarnationOf } from "./session-core.ts";
import { childId } from "./sub-agents.ts";

interface Opened {
  readonly parent?: { readonly session: string; readonly callId: string };
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/**
 * Whether somebody will look into a session again although nothing of its own is open: whose call it works
 * for, or what it serves. Without its record they would do again what it has done. Its first event tells, so
 * that looking costs little.
 */
export async function isReferenced(journal: Journal, id: string): Promise<boolean> {
  for await (const [, { type, data }] of journal.events(streamName("session", id), 0, 1)) {
    if (type !== "session.opened") return false;
    const { parent, metadata } = data as Opened;
    if (parent && (await servesOpenCall(journal, id, parent))) return true;
    const served = metadata?.[SERVES_STREAM];
    return typeof served === "string" && (await journal.row(served)).state !== "gone";
  }
  return false;
}

async function servesOpenCall(
  journal: Journal,
  id: string,
  parent: NonNullable<Opened["parent"]>,
): Promise<boolean> {
  const { row, head, state } = await journal.load(sessionKind, parent.session);
  const call = state.calls.get(parent.callId);
  if (row.state === "gone" || !call || !isOpen(call.status)) return false;
  return childId(incarnationOf(parent.session, head.generation), call.id) === id;
}

const NAME = "holdfast.goesOnWith";

/** The name of the stream without which nobody goes on with it, for sessions that have one. */
export const SERVES_STREAM = "holdfast.serves";

/**
 * For `metadata`: with whom it goes on, as in "its MCP client". What serves a stream is kept as long as that
 * is there.
 */
export function drivenByMetadata(whom: string, stream?: string): JsonObject {
  return { [NAME]: whom, ...(stream !== undefined && { [SERVES_STREAM]: stream }) };
}

/** Null for sessions that an agent runs. */
export function drivenBy({ metadata }: SessionState): string | null {
  const whom = metadata[NAME];
  return typeof whom === "string" ? whom : null;
}
