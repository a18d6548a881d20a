import { commitResult, type Journal } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { canonicalText } from "../model/json.ts";
import {
  type Amounts,
  BUDGET_UNITS,
  type Budget,
  childReservation,
  exceededLimit,
  openCallsOf,
  type SessionState,
  sessionKind,
  spentAndReserved,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { escalateToPerson } from "./abandoned-calls.ts";
import { incarnationOf } from "./life.ts";
import type { SessionCore } from "./session-core.ts";

/** A sub-agent's session is named by the call that started it, so that a resumed call finds it again. */
export function childId(life: string, callId: string): string {
  return `sub-${sha256(JSON.stringify([life, callId])).slice(0, 32)}`;
}

/** Cancels the sub-agents that work for a session's open calls, and theirs. */
export async function cancelChildren(
  journal: Journal,
  life: string,
  state: SessionState,
  spoken: { readonly by: string; readonly why?: string },
): Promise<void> {
  for (const call of openCallsOf(state)) {
    const id = childId(life, call.id);
    const log = await journal.open(sessionKind, id);
    if (!log.exists) continue;
    const { generation, seq } = log.head;
    const held = await journal.leases.isHeld(log.stream);
    const outcome = await log.commit((child, head) => {
      const isThere = head.generation === generation;
      const events = isThere ? cancellation(child, spoken, !held && head.seq === seq) : [];
      return { events, result: undefined };
    });
    commitResult(outcome);
    await cancelChildren(journal, incarnationOf(id, generation), log.state, spoken);
  }
}

/** `isAbandoned`: nobody held it when it was looked at, and nobody has written since, who may have taken it over. */
export function cancellation(
  state: SessionState,
  spoken: { readonly by: string; readonly why?: string },
  isAbandoned: boolean,
): Draft[] {
  const data = { status: "cancelled", why: spoken.why ?? null, by: spoken.by };
  const isActive = state.status === "active";
  const ended = isActive ? [{ type: "session.status", data }] : [];
  const isOver = isActive || state.status === "cancelled";
  return [...ended, ...(isAbandoned && isOver ? escalateToPerson(openCallsOf(state)) : [])];
}

/** Sets aside what a sub-agent may spend: what it was given, else all that is left. Null without limits. */
export async function reserveForChild(
  parent: SessionCore,
  callId: string,
  budget: Amounts | undefined,
): Promise<Amounts | null> {
  return parent.write((state) => {
    const id = childReservation(callId);
    if (Object.keys(state.budget.limit).length === 0) return { events: [], result: budget ?? null };
    // What was set aside before counts as free for it, so that a raised budget reaches a sub-agent that ran out.
    const { [id]: earlier, ...reserved } = state.budget.reserved;
    const without = { ...state.budget, reserved };
    const amounts = { ...remaining(without), ...budget };
    const over = exceededLimit(without, amounts);
    if (over) throw overBudget(parent.id, over);
    if (earlier && canonicalText(earlier) === canonicalText(amounts)) return { events: [], result: amounts };
    return { events: [{ type: "budget.reserved", data: { id, amounts } }], result: amounts };
  });
}

/** Turns the reservation into what was really spent; rides on the commit of the call's outcome. */
export function settleForChild(parent: SessionCore, callId: string, spent: Amounts): void {
  parent.addRider(callId, [childSpent(parent.state.budget, callId, spent)]);
}

/** Stands before the call's outcome, with which the whole reservation would count as spent. */
export function childSpent(budget: Budget, callId: string, spent: Amounts): Draft {
  const id = childReservation(callId);
  if (Object.hasOwn(budget.reserved, id)) return { type: "budget.settled", data: { id, spent } };
  return { type: "budget.spent", data: { amounts: spent } };
}

function remaining(budget: Budget): Amounts {
  const used = spentAndReserved(budget);
  const left: { -readonly [Unit in keyof Amounts]: Amounts[Unit] } = {};
  for (const unit of BUDGET_UNITS) {
    const limit = budget.limit[unit];
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
