/**
 * Sessions in which a supervisor starts nothing: what has happened may be found out, everything else is put before a person, and
 * what waits for one is left to that one.
 *
 *     past its time to live: its own agent is refused until somebody has looked at what it says
 *     a sub-agent's, whose call has its outcome already: its parent was told that, and may have had it done once more
 */

import type { Journal } from "../journal/index.ts";
import { type Tool, unsure, type Verdict } from "../ledger/index.ts";
import { type Call, openCallsOf, type SessionState } from "../model/session/index.ts";
import { escalateToPerson, type Session, sessionCore } from "../session/index.ts";
import { worksForNobody } from "./sub-agents.ts";

/** Why nothing may be started. */
export type Restraint = typeof STALE | typeof FORSAKEN;

const STALE = "its session is past its time to live";
const FORSAKEN = "the call that its session works for has an outcome already";

export async function restraintOf(
  journal: Journal,
  id: string,
  state: SessionState,
): Promise<Restraint | null> {
  if (await worksForNobody(journal, id, state)) return FORSAKEN;
  return isStale(state, journal.now()) ? STALE : null;
}

/** What a person allowed so long ago is left to its agent, which is let in by somebody who has looked. */
export function isLeftAlone(restraint: Restraint | null, unsettled: readonly Call[]): boolean {
  return restraint === STALE && unsettled.some(({ granted }) => granted);
}

/**
 * Counted from the last that happened in it. That somebody took it is no such thing: else a supervisor that died right after
 * that would have made it young. A person who allowed another attempt has looked at it.
 */
function isStale(state: SessionState, now: number): boolean {
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

/** Settles what is not left to a person, as far as asking does. */
export async function settleByAsking(
  session: Session,
  tools: readonly Tool[],
  why: Restraint,
): Promise<readonly string[]> {
  await leaveUnbegun(session, why);
  const asking = tools.map((tool) => onlyToAsk(tool, why));
  return (await session.settle(asking, ({ status, granted }) => status !== "waiting" && !granted)).settled;
}

/** Calls that have not begun, as far as is known, would simply be begun: nothing can be found out about them. */
async function leaveUnbegun(session: Session, why: Restraint): Promise<void> {
  await sessionCore(session).write((state) => {
    const unbegun = openCallsOf(state).filter(
      ({ status, doubt, granted }) => status === "unknown" && doubt === null && !(granted && why === STALE),
    );
    return { events: escalateToPerson(unbegun, `it has not begun, and ${why}`), result: undefined };
  });
}

/** The tool for those who may find out what became of a call, and may not run it. */
function onlyToAsk(tool: Tool, why: Restraint): Tool {
  const verify = async (...asked: Parameters<NonNullable<Tool["verify"]>>): Promise<Verdict<unknown>> => {
    try {
      const verdict = await tool.verify?.(...asked);
      return verdict?.answer === "landed" ? verdict : unsure(`verify says ${verdict?.answer}, and ${why}`);
    } catch (error) {
      return unsure(`verify failed: ${(error as Error)?.message ?? error}; and ${why}`);
    }
  };
  // Made from the tool, and not of its parts: it may be an instance of some class.
  const asking = { idempotent: undefined, interrupted: "ask", ...(tool.verify && { verify }) };
  return Object.assign(Object.create(tool) as Tool, asking);
}
