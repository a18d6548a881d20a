import type { Journal } from "../journal/index.ts";
import {
  type Amounts,
  BUDGET_UNITS,
  committed,
  exceeded,
  HoldfastError,
  openCallsOf,
  type SessionState,
  sha256,
  streamName,
} from "../model/index.ts";
import type { OwnedSession } from "./owned-session.ts";

/** A sub-agent's session is named by the call that started it, so that a resumed call finds it again. */
export function childId(session: string, callId: string): string {
  return `sub-${sha256(JSON.stringify([session, callId])).slice(0, 32)}`;
}

/** Sub-agents that are at work for a session: those of its open calls that exist. */
export async function childrenOf(journal: Journal, session: string, state: SessionState): Promise<string[]> {
  const found: string[] = [];
  for (const call of openCallsOf(state)) {
    const id = childId(session, call.id);
    if ((await journal.row(streamName("session", id))).state === "live") found.push(id);
  }
  return found;
}

function reservationId(callId: string): string {
  return `child:${callId}`;
}

/** Unlike a model call's, a sub-agent's reservation survives a crash: its session remembers what it spent. */
export function isChildReservation(id: string): boolean {
  return id.startsWith("child:");
}

/** Sets aside what a sub-agent may spend: what it was given, else all that is left. Null without limits. */
export async function reserveForChild(
  parent: OwnedSession,
  callId: string,
  budget: Amounts | undefined,
): Promise<Amounts | null> {
  return parent.write((state) => {
    const id = reservationId(callId);
    const earlier = state.budget.reserved[id];
    if (earlier) return { events: [], result: earlier };
    if (Object.keys(state.budget.limit).length === 0) return { events: [], result: budget ?? null };
    const amounts = { ...remaining(state), ...budget };
    const over = exceeded(state.budget, amounts);
    if (over) throw overBudget(parent.id, over);
    return { events: [{ type: "budget.reserved", data: { id, amounts } }], result: amounts };
  });
}

/** Turns the reservation into what was really spent; rides on the commit of the call's outcome. */
export function settleForChild(parent: OwnedSession, callId: string, spent: Amounts): void {
  const id = reservationId(callId);
  const reserved = Object.hasOwn(parent.budget.reserved, id);
  const settled = { type: "budget.settled", data: { id, spent } };
  parent.ride(callId, [reserved ? settled : { type: "budget.spent", data: { amounts: spent } }]);
}

function remaining(state: SessionState): Amounts {
  const used = committed(state.budget);
  const left: { -readonly [Unit in keyof Amounts]: Amounts[Unit] } = {};
  for (const unit of BUDGET_UNITS) {
    const limit = state.budget.limit[unit];
    if (limit !== undefined) left[unit] = Math.max(0, limit - (used[unit] ?? 0));
  }
  return left;
}

function overBudget(id: string, over: { unit: string; limit: number; would: number }): HoldfastError {
  return new HoldfastError(
    "BUDGET_EXCEEDED",
    `session ${id}: a sub-agent would take ${over.unit} to ${over.would} of ${over.limit}`,
    {
      hint: "Give the sub-agent a smaller budget, or raise the session's.",
      data: { session: id, ...over },
    },
  );
}
