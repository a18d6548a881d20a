/**
 * The two streams of a thread, by name: its checkpoints in `langgraph/<id>`, and the calls of its nodes in
 * the session `langgraph.<id>`. `removal.ts` says what a crash between them leaves.
 */

import { everyRow, type Journal } from "../../journal/index.ts";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError } from "../../model/errors.ts";
import { quoteValue, streamName } from "../../model/names.ts";
import type { JsonObject } from "../../model/session/index.ts";
import { drivenByMetadata } from "../../session/index.ts";
import type { StreamRow } from "../../store.ts";
import { threadKind } from "./thread-state.ts";

const PAGE = 200;
const READABLE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const HASHED = /^sha256\.[0-9a-f]{64}$/;
const SESSION_PREFIX = "langgraph.";

export function checkThread(thread: unknown): string {
  if (typeof thread === "string" && thread !== "") return thread;
  throw new HoldfastError("INPUT_INVALID", `configurable.thread_id is ${quoteValue(thread)}`, {
    hint: 'Pass the thread as text: graph.invoke(input, { configurable: { thread_id: "order-4711" } }).',
  });
}

/** Ids that are no stream ids, or look like a hash, become their hash: threads never share a stream. */
export function streamIdOf(thread: string): string {
  if (READABLE.test(thread) && !HASHED.test(thread)) return thread;
  // Hash the JSON text: UTF-8 would encode every lone surrogate as the same replacement character.
  return `sha256.${sha256(JSON.stringify(thread))}`;
}

export function threadStream(thread: string): string {
  return streamName(threadKind.kind, streamIdOf(thread));
}

export function sessionIdOf(thread: string): string {
  return `${SESSION_PREFIX}${streamIdOf(thread)}`;
}

export function effectsStream(thread: string): string {
  return streamName("session", sessionIdOf(thread));
}

/** Null if the id is not that of a session with effects. */
export function threadStreamOfSession(sessionId: string): string | null {
  if (!sessionId.startsWith(SESSION_PREFIX)) return null;
  return streamName(threadKind.kind, sessionId.slice(SESSION_PREFIX.length));
}

export function effectsMetadata(threadStream: string): JsonObject {
  return drivenByMetadata("its thread", threadStream);
}

/** False for a session of the user's own that happens to have such an id. */
export async function recordsEffectsOf(
  journal: Journal,
  session: string,
  threadStream: string,
): Promise<boolean> {
  for await (const [, { data }] of journal.events(session, 0, 1)) {
    const { metadata = {} } = data as { readonly metadata?: JsonObject };
    return Object.entries(effectsMetadata(threadStream)).every(([name, value]) => metadata[name] === value);
  }
  return false;
}

export function listThreads(
  journal: Journal,
  filter: { readonly expiredAt?: number } = {},
): AsyncGenerator<StreamRow> {
  const request = { of: "streams", kind: threadKind.kind, limit: PAGE, ...filter } as const;
  return everyRow((from) => journal.list<"streams">({ ...request, ...from }));
}
