// A user's program, compiled against the packed package and its declarations. If a declaration is missing,
// its types are `any`, and code that must not compile does.

import { HoldfastError, isHoldfastError, type Json, open, tool } from "holdfast";
import { storeSuite } from "holdfast/testing";

export const json: Json = { amount: 1 };
// @ts-expect-error A function is no JSON.
export const noJson: Json = () => 1;

// @ts-expect-error The code is one of ours.
export const noError = new HoldfastError("NO_SUCH_CODE", "message");

export function hintOf(error: unknown): string | null {
  return isHoldfastError(error) ? error.hint : null;
}

export function lostCode(error: unknown): "LEASE_LOST" | null {
  return isHoldfastError(error, "LEASE_LOST") ? error.code : null;
}

export async function statement(): Promise<string> {
  const holdfast = await open("memory:");
  const goal = await holdfast.goal("checkout", { statement: "Ship it" });
  // @ts-expect-error There is no such field.
  goal.state.nonsense;
  const session = await holdfast.session("order");
  // @ts-expect-error A message has blocks.
  session.messages[0]?.nonsense;
  return goal.state.statement;
}

export { storeSuite, tool };
