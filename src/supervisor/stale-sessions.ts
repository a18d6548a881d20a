/**
 * Sessions past their time to live. Their own agent is refused until somebody has looked at what they say, so nothing is
 * started in them by a supervisor either: what has happened may be found out, everything else is put before a person.
 */

import { type Tool, unsure, type Verdict } from "../ledger/index.ts";
import { openCallsOf, type SessionState } from "../model/index.ts";
import { putBeforePerson, type Session, undecided } from "../session/index.ts";

const WHY = "its session is past its time to live";

/**
 * Counted from the last that happened in it. That somebody took it is no such thing: else a supervisor that died right after
 * that would have made it young. A person who allowed another attempt has looked at it.
 */
export function isStale(state: SessionState, now: number): boolean {
  if (state.ttlMs === null) return false;
  const isLookedAt = openCallsOf(state).some(({ granted }) => granted);
  const since = isLookedAt ? state.updatedAt : Math.min(state.updatedAt, lastAct(state));
  return now - since > state.ttlMs;
}

function lastAct({ createdAt, messages, prompts, calls, checkpoints }: SessionState): number {
  const said = messages.at(-1);
  let last = Math.max(createdAt, said ? Date.parse(said.createdAt) : 0, prompts.at(-1)?.at ?? 0);
  for (const { issuedAt, settledAt } of calls.values()) last = Math.max(last, issuedAt, settledAt ?? 0);
  for (const { at } of checkpoints.values()) last = Math.max(last, at);
  return last;
}

/** Calls that have not begun, as far as is known, would simply be begun: nothing can be found out about them. */
export async function leaveUnbegun(session: Session): Promise<void> {
  await session.write((state) => {
    const unbegun = undecided(state).filter(({ status, doubt }) => status === "unknown" && doubt === null);
    return { events: putBeforePerson(unbegun, `it has not begun, and ${WHY}`), result: undefined };
  });
}

/** The tool for those who may find out what became of a call, and may not run it. */
export function onlyToAsk(tool: Tool): Tool {
  const verify = async (...asked: Parameters<NonNullable<Tool["verify"]>>): Promise<Verdict<unknown>> => {
    try {
      const verdict = await tool.verify?.(...asked);
      return verdict?.answer === "landed" ? verdict : unsure(`verify says ${verdict?.answer}, and ${WHY}`);
    } catch (error) {
      return unsure(`verify failed: ${(error as Error)?.message ?? error}; and ${WHY}`);
    }
  };
  // Made from the tool, and not of its parts: it may be an instance of some class.
  const asking = { idempotent: undefined, interrupted: "ask", ...(tool.verify && { verify }) };
  return Object.assign(Object.create(tool) as Tool, asking);
}
