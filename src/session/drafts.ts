import { type Draft, HoldfastError, type SessionState } from "../model/index.ts";

/** Drafts and refusals that several parts of the session layer share. */

export function checkpointDraft(state: SessionState, label: boolean | string): Draft {
  const data = { version: state.version + 1, label: typeof label === "string" ? label : null };
  return { type: "checkpoint", data };
}

/** Whoever continues a finished session makes it active again; a cancelled one has to be reopened. */
export function reactivate(state: SessionState, events: readonly Draft[]): readonly Draft[] {
  if (events.length === 0 || state.status === "active") return events;
  return [{ type: "session.status", data: { status: "active", why: null, by: null } }, ...events];
}

export function mustNotBeCancelled(id: string, state: SessionState): void {
  if (state.status !== "cancelled") return;
  const by = state.ended?.by ? ` by ${state.ended.by}` : "";
  const why = state.ended?.why ? `: ${state.ended.why}` : "";
  throw new HoldfastError("SESSION_ENDED", `session ${id} was cancelled${by}${why}`, {
    hint: "Call session.reopen() if it should go on all the same.",
  });
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
