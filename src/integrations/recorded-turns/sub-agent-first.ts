import { DefiniteFailure, type ExecuteContext } from "../../ledger/index.ts";
import { isHoldfastError } from "../../model/errors.ts";

/**
 * Calls a tool's own function. Where the first thing it does, before it has awaited anything, is to ask for a sub-agent
 * that may not start (no budget is left for it, say), nothing can have happened: the call fails, and the model is told. Not
 * so at a later attempt: the sub-agent of an earlier one may have done something.
 */
export async function withSubAgent(
  context: ExecuteContext,
  execute: (context: ExecuteContext) => unknown,
): Promise<unknown> {
  let isFirst = true;
  const child: ExecuteContext["child"] = async (budget) => {
    const wasFirst = isFirst;
    try {
      return await context.child(budget);
    } catch (error) {
      const mayNotStart =
        isHoldfastError(error, "BUDGET_EXCEEDED") || isHoldfastError(error, "SESSION_ENDED");
      throw wasFirst && mayNotStart && context.attempt === 1 ? new DefiniteFailure(error.message) : error;
    }
  };
  const running = execute({ ...context, child });
  isFirst = false;
  return running;
}
