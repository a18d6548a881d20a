/**
 * A budget counts three units. Every model call reserves before it starts and settles afterwards. A
 * reservation that a crash left behind counts as spent, because the provider may have charged for it.
 */

import * as z from "zod";

export const BUDGET_UNITS = ["usd", "tokens", "turns"] as const;
export type BudgetUnit = (typeof BUDGET_UNITS)[number];

/** An amount per unit: `{ usd: 1.5, tokens: 20_000 }`. An absent unit is not counted. */
export type Amounts = { readonly [Unit in BudgetUnit]?: number };

/**
 * The amounts that a session has spent and may spend over its whole life, its sub-agents included.
 *
 * @example
 * { spent: { usd: 0.4 }, limit: { usd: 2 }, reserved: { "m7": { usd: 0.1 } } }
 */
export interface Budget {
  readonly spent: Amounts;
  /** A unit without a limit is counted, and never stops a run. */
  readonly limit: Amounts;
  /** Reservations by the id of their model call. */
  readonly reserved: { readonly [id: string]: Amounts };
}

const amount = () => z.number().nonnegative();

export const amountsSchema = z.lazy(() =>
  z.strictObject({
    usd: amount().optional(),
    tokens: amount().optional(),
    turns: amount().optional(),
  }),
) as unknown as z.ZodType<Amounts>;

export const NO_BUDGET: Budget = { spent: {}, limit: {}, reserved: {} };

export function addAmounts(left: Amounts, right: Amounts): Amounts {
  const sum: { [Unit in BudgetUnit]?: number } = {};
  for (const unit of BUDGET_UNITS) {
    const a = left[unit];
    const b = right[unit];
    if (a !== undefined || b !== undefined) sum[unit] = roundNano((a ?? 0) + (b ?? 0));
  }
  return sum;
}

/** The most that one model call has cost, in each unit. Only a model call spends exactly one turn. */
export function largestOf(largest: Amounts, spent: Amounts): Amounts {
  if (spent.turns !== 1) return largest;
  const most: { [Unit in BudgetUnit]?: number } = { ...largest };
  for (const unit of BUDGET_UNITS) {
    const amount = spent[unit];
    if (amount !== undefined) most[unit] = Math.max(amount, largest[unit] ?? 0);
  }
  return most;
}

/** The amounts that lead from the recorded total to `total`. A unit whose total did not grow is left out. */
export function amountsSince(recorded: Amounts, total: Amounts): Amounts {
  const grown: { [Unit in BudgetUnit]?: number } = {};
  for (const unit of BUDGET_UNITS) {
    const more = roundNano((total[unit] ?? 0) - (recorded[unit] ?? 0));
    if (more > 0) grown[unit] = more;
  }
  return grown;
}

/** Rounds to nine decimals, because sums of small prices drift. The result stays finite. */
function roundNano(value: number): number {
  const rounded = Math.round(value * 1e9) / 1e9;
  return Number.isFinite(rounded) ? rounded : Math.min(value, Number.MAX_VALUE);
}

/**
 * The usage that a model reported. A unit whose amount is negative or not a number counts as in `otherwise`,
 * and is listed. The answer was paid for and must not be lost because of its bookkeeping.
 */
export function countableAmounts(
  usage: unknown,
  otherwise: Amounts,
): { readonly amounts: Amounts; readonly uncountable: readonly BudgetUnit[] } {
  const amounts: { [Unit in BudgetUnit]?: number } = {};
  const uncountable: BudgetUnit[] = [];
  for (const unit of BUDGET_UNITS) {
    const value: unknown = (usage as Record<string, unknown> | null | undefined)?.[unit];
    if (value === undefined || value === null) continue;
    const isCountable = typeof value === "number" && Number.isFinite(value) && value >= 0;
    amounts[unit] = isCountable ? value : (otherwise[unit] ?? 0);
    if (!isCountable) uncountable.push(unit);
  }
  return { amounts, uncountable };
}

/** The sum that limits are compared with: spent plus reserved. */
export function spentAndReserved(budget: Budget): Amounts {
  return Object.values(budget.reserved).reduce(addAmounts, budget.spent);
}

/** The first unit whose limit `next` would exceed; null if there is room. */
export function exceededLimit(
  budget: Budget,
  next: Amounts,
): { unit: BudgetUnit; limit: number; would: number } | null {
  const would = addAmounts(spentAndReserved(budget), next);
  for (const unit of BUDGET_UNITS) {
    const limit = budget.limit[unit];
    const value = would[unit];
    if (limit !== undefined && value !== undefined && value > limit) return { unit, limit, would: value };
  }
  return null;
}

export type BudgetChange =
  | { readonly act: "limit"; readonly limits: { readonly [Unit in BudgetUnit]?: number | null | undefined } }
  | { readonly act: "reserve"; readonly id: string; readonly amounts: Amounts }
  | { readonly act: "settle"; readonly id: string; readonly spent: Amounts }
  | { readonly act: "spend"; readonly amounts: Amounts };

/** Returns a new budget: the facet preview must not change the state's own. */
export function changeBudget(budget: Budget, change: BudgetChange): Budget {
  switch (change.act) {
    case "limit": {
      const limit: { [Unit in BudgetUnit]?: number } = { ...budget.limit };
      for (const unit of BUDGET_UNITS) {
        const value = change.limits[unit];
        if (value === null) delete limit[unit];
        else if (value !== undefined) limit[unit] = value;
      }
      return { ...budget, limit };
    }
    case "reserve":
      return { ...budget, reserved: { ...budget.reserved, [change.id]: change.amounts } };
    case "settle": {
      const { [change.id]: _settled, ...reserved } = budget.reserved;
      return { ...budget, reserved, spent: addAmounts(budget.spent, change.spent) };
    }
    case "spend":
      return { ...budget, spent: addAmounts(budget.spent, change.amounts) };
  }
}

/** The id of the reservation for the sub-agent of a call. */
export function childReservation(callId: string): string {
  return `child:${callId}`;
}

/**
 * A sub-agent's reservation, unlike a model call's, survives a crash: the sub-agent's session knows what it
 * spent.
 */
export function isChildReservation(id: string): boolean {
  return id.startsWith("child:");
}

/** If a call ends and its sub-agent never reported what it spent, the whole reservation counts as spent. */
export function releaseChild(budget: Budget, callId: string): Budget {
  if (Object.keys(budget.reserved).length === 0) return budget;
  const id = childReservation(callId);
  const spent = budget.reserved[id];
  return spent ? changeBudget(budget, { act: "settle", id, spent }) : budget;
}

/** `{"usd":{"spent":1.5,"limit":20}}`: the facet behind the budgets view. */
export function budgetFacet(budget: Budget): string | null {
  const spent = spentAndReserved(budget);
  const rows: Record<string, { spent: number; limit: number | null }> = {};
  for (const unit of BUDGET_UNITS) {
    if (spent[unit] === undefined && budget.limit[unit] === undefined) continue;
    rows[unit] = { spent: spent[unit] ?? 0, limit: budget.limit[unit] ?? null };
  }
  return Object.keys(rows).length === 0 ? null : JSON.stringify(rows);
}

/** US dollars per million tokens. Default for `cacheRead` and `cacheWrite`: the price of `input`. */
export interface Price {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

/**
 * Prices by model id. A key also matches dated models that begin with it; the longest match counts.
 * @example { "claude-sonnet": { input: 3, output: 15 }, "gpt-5": { input: 1.25, output: 10 } }
 */
export type PriceTable = Readonly<Record<string, Price>>;
