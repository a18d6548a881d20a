/**
 * Sessions whose next step comes from elsewhere, such as the client of a proxy: started for its own sake, no agent could go
 * on with one. That stands in its metadata, from its first event on.
 */

import type { JsonObject, SessionState } from "../model/session/index.ts";

const NAME = "holdfast.goesOnWith";

/** The name of the stream without which nobody goes on with it, for sessions that have one. */
export const SERVES_STREAM = "holdfast.serves";

/** For `metadata`: with whom it goes on, as in "its MCP client". What serves a stream is kept as long as that is there. */
export function drivenByMetadata(whom: string, stream?: string): JsonObject {
  return { [NAME]: whom, ...(stream !== undefined && { [SERVES_STREAM]: stream }) };
}

/** Null for sessions that an agent runs. */
export function drivenBy({ metadata }: SessionState): string | null {
  const whom = metadata[NAME];
  return typeof whom === "string" ? whom : null;
}
