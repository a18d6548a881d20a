/** Budgets of sessions and sub-agents: limits are checked, reached, raised, and reserved for sub-agents. */

import { HoldfastError } from "../model/errors.ts";
import { canonicalText } from "../model/json.ts";
import type { Amounts, Budget, SessionState } from "../model/session/index.ts";
import { BUDGET_UNITS, childReservation, exceededLimit, spentAndReserved } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { SessionCore } from "./session-core.ts";

/** `Number(process.env.MAX_USD)` is NaN if unset: that would be no limit, found out by the bill. */
export function mustBeAmounts(what: string, amounts: Amounts): void {
  for (const [unit, value] of Object.entries(amounts) as [string, unknown][]) {
    if (value === undefined) continue;
    const isUnit = (BUDGET_UNITS as readonly string[]).includes(unit);
    if (isUnit && typeof value === "number" && Number.isFinite(value) && value >= 0) continue;
    const text = typeof value === "number" || value === null ? String(value) : `a ${typeof value}`;
    const problem = isUnit ? `${what}.${unit} is ${text}` : `${what} has no ${JSON.stringify(unit)}`;
    const units = BUDGET_UNITS.join(", ");
    throw new HoldfastError("INPUT_INVALID", `${problem}: nothing was asked or changed`, {
      hint: `Amounts are finite numbers of 0 or more, in ${units}. Leave out what has no limit.`,
      data: { unit },
    });
  }
}

/** The unit whose limit is reached, if any. Stops the next call even if its cost is unknown. */
function reachedLimit({ spent, limit }: Budget): { unit: string } | null {
  const unit = BUDGET_UNITS.find((each) => (spent[each] ?? 0) >= (limit[each] ?? Number.POSITIVE_INFINITY));
  return unit ? { unit } : null;
}

/**
 * Throws if a limited unit is missing in `reported`, the usage of all answers of a run or program so far.
 * Called after an answer is recorded: a limit that nothing counts would be no limit, found out by the bill.
 */
export function mustCountLimits(session: string, budget: Budget, reported: Amounts): void {
  const { limit } = budget;
  const unit = uncountedUnit(budget, reported);
  if (!unit) return;
  const problem = `${unit} is limited to ${limit[unit]}, and the model's usage does not report ${unit}`;
  const otherwise = unit === "usd" ? "pass `prices`, or limit tokens or turns" : "limit turns";
  throw new HoldfastError("BUDGET_UNIT_UNKNOWN", `session ${session}: ${problem}`, {
    hint: `Return it as \`usage: { ${unit} }\` of the model, or ${otherwise}. The answer is recorded.`,
    data: { session, unit },
  });
}

/** A limited unit that no answer has reported. */
export function uncountedUnit({ limit }: Budget, reported: Amounts): keyof Amounts | null {
  const counted = { ...reported, turns: 1 };
  return BUDGET_UNITS.find((each) => limit[each] !== undefined && counted[each] === undefined) ?? null;
}

/** Raises the session's limits to those of a run. Never lowers one that was raised from outside. */
export async function limitBudget(session: SessionCore, budget: Amounts): Promise<void> {
  await session.writeEvents((state) => draftRaisedLimits(state.budget, budget).events);
}

export function draftRaisedLimits({ limit }: Budget, wanted: Amounts): { limits: Amounts; events: Draft[] } {
  const raised = BUDGET_UNITS.filter((unit) => (wanted[unit] ?? -1) > (limit[unit] ?? -1));
  const limits = Object.fromEntries(raised.map((unit) => [unit, wanted[unit]]));
  return { limits, events: raised.length === 0 ? [] : [{ type: "budget.limited", data: { limits } }] };
}

/** Reserves the next model call in `budget`. Empty if a limit does not allow it. */
export function draftReservation(
  id: string,
  { largestCall }: SessionState,
  budget: Budget,
  perCall: Amounts = {},
): Draft[] {
  // Without `perCall`, the next model call is expected to cost as much as the largest so far.
  const limited = Object.entries(largestCall).filter(([unit]) => Object.hasOwn(budget.limit, unit));
  const amounts: Amounts = { ...Object.fromEntries(limited), ...perCall, turns: 1 };
  if (exceededLimit(budget, amounts) ?? reachedLimit(budget)) return [];
  return [{ type: "budget.reserved", data: { id, amounts } }];
}

// ---- Sub-agents spend their parent's budget

/** Reserves what a sub-agent may spend: `budget`, or all that is left. Null without limits. */
export async function reserveForChild(
  parent: SessionCore,
  callId: string,
  budget: Amounts | undefined,
): Promise<Amounts | null> {
  return parent.write((state) => {
    const id = childReservation(callId);
    if (Object.keys(state.budget.limit).length === 0) return { events: [], result: budget ?? null };
    // An earlier reservation of this call is free again: a raised budget must reach a sub-agent that ran out.
    const { [id]: earlier, ...reserved } = state.budget.reserved;
    const free = { ...state.budget, reserved };
    const amounts = { ...remaining(free), ...budget };
    const over = exceededLimit(free, amounts);
    if (over) {
      const problem = `a sub-agent would take ${over.unit} to ${over.would} of ${over.limit}`;
      throw new HoldfastError("BUDGET_EXCEEDED", `session ${parent.id}: ${problem}`, {
        hint: "Give the sub-agent a smaller budget, or raise the session's.",
        data: { session: parent.id, ...over },
      });
    }
    if (earlier && canonicalText(earlier) === canonicalText(amounts)) return { events: [], result: amounts };
    return { events: [{ type: "budget.reserved", data: { id, amounts } }], result: amounts };
  });
}

/** Must precede the call's outcome in its commit, which counts a whole open reservation as spent. */
export function draftChildSpent(budget: Budget, callId: string, spent: Amounts): Draft {
  const id = childReservation(callId);
  if (Object.hasOwn(budget.reserved, id)) return { type: "budget.settled", data: { id, spent } };
  return { type: "budget.spent", data: { amounts: spent } };
}

function remaining(budget: Budget): Amounts {
  const used = spentAndReserved(budget);
  const rest: { -readonly [Unit in keyof Amounts]: Amounts[Unit] } = {};
  for (const unit of BUDGET_UNITS) {
    const limit = budget.limit[unit];
    if (limit !== undefined) rest[unit] = Math.max(0, limit - (used[unit] ?? 0));
  }
  return rest;
}
