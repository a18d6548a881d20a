import { HoldfastError } from "../model/errors.ts";

export function nothingToAnswer(id: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `session ${id} has no message to answer`, {
    hint: "Pass a prompt to run(), or append a user message first.",
  });
}

export function badUsage(id: string, units: readonly string[]): HoldfastError {
  const named = units.join(", ");
  return new HoldfastError("INPUT_INVALID", `session ${id}: the model's usage of ${named} is not an amount`, {
    hint: "The answer is kept, and counted as `budget.perCall` or as nothing. Return finite numbers as usage.",
    data: { session: id, units },
  });
}
