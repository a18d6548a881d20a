import { HoldfastError } from "../model/errors.ts";
import { type Amounts, BUDGET_UNITS, type Budget } from "../model/session/index.ts";
import type { SessionCore } from "./session-core.ts";

/**
 * What is no amount would be no limit, and nobody would notice before the bill:
 * `Number(process.env.MAX_USD)`, unset, is NaN.
 */
export function mustBeAmounts(what: string, given: Amounts): void {
  for (const [unit, value] of Object.entries(given) as [string, unknown][]) {
    if (value === undefined) continue;
    const isUnit = (BUDGET_UNITS as readonly string[]).includes(unit);
    if (isUnit && typeof value === "number" && Number.isFinite(value) && value >= 0) continue;
    const problem = isUnit ? `${what}.${unit} is ${shown(value)}` : `${what} has no ${JSON.stringify(unit)}`;
    throw new HoldfastError("INPUT_INVALID", `${problem}: nothing was asked or changed`, {
      hint: `Amounts are finite numbers of 0 or more, in ${BUDGET_UNITS.join(", ")}. Leave out what has no limit.`,
      data: { unit },
    });
  }
}

function shown(value: unknown): string {
  return typeof value === "number" || value === null ? String(value) : `a ${typeof value}`;
}

/** A limit that is reached stops the next call even when nobody said what a call costs at most. */
export function reachedLimit({ spent, limit }: Budget): { unit: string } | null {
  const unit = BUDGET_UNITS.find(
    (each) => limit[each] !== undefined && (spent[each] ?? 0) >= (limit[each] ?? 0),
  );
  return unit ? { unit } : null;
}

/** For a run: a limit that somebody raised from outside is not lowered again by the program's own. */
export async function limitBudget(session: SessionCore, budget: Amounts): Promise<void> {
  await session.write((state) => {
    const changed = BUDGET_UNITS.filter((unit) => (budget[unit] ?? -1) > (state.budget.limit[unit] ?? -1));
    const limits = Object.fromEntries(changed.map((unit) => [unit, budget[unit]]));
    return {
      events: changed.length === 0 ? [] : [{ type: "budget.limited", data: { limits } }],
      result: undefined,
    };
  });
}
