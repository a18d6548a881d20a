import { HoldfastError } from "../model/errors.ts";
import { draftCheckpoint, type SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";

/** Drafts and refusals that several parts of the session layer share. */

export function checkpointDraft(state: SessionState, label: boolean | string): Draft {
  return draftCheckpoint(state.version + 1, typeof label === "string" ? label : null);
}

export function noVersion(id: string, version: number): HoldfastError {
  return new HoldfastError("VERSION_NOT_FOUND", `session ${id} has no version ${version}`, {
    hint: "List its versions; deleted ones are not kept.",
    data: { session: id, version },
  });
}

export function hasOpenCalls(id: string, count: number): HoldfastError {
  return new HoldfastError(
    "SESSION_HAS_OPEN_CALLS",
    `session ${id} has ${count} call(s) without an outcome`,
    {
      hint: "Settle them first: run the session with its tools, or resolve them as a person.",
      data: { session: id, count },
    },
  );
}

/** Providers insist that results follow their calls, so nothing may come between them. */
export function mustBeFinished(id: string, state: SessionState): void {
  if (state.unfinished.size === 0) return;
  const [message] = state.unfinished;
  throw new HoldfastError(
    "MESSAGE_UNFINISHED",
    `session ${id}: the calls of message ${message} have no results yet`,
    {
      hint: "Run them first: session.calls(session.unfinished, tools). From outside, sessions.prompt() queues a message.",
      data: { session: id, message },
    },
  );
}
