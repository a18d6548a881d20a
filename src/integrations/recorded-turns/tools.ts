/** A framework's tools as tools of the ledger. */

import { DefiniteFailure, type ExecuteContext, type StandardSchema, type Tool } from "../../ledger/index.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { type Json, sameJson } from "../../model/json.ts";

/**
 * Thrown by a durable tool: the ledger records that the call did not happen, and why. The framework reports
 * it to the model.
 * @example if (part.type === "tool-error" && part.error instanceof ToolCallFailed) log(part.error.message);
 */
export class ToolCallFailed extends Error {
  override readonly name = "ToolCallFailed";
}

/** Under this key a tool's function gets the ledger's context, in the options that the framework passes. */
export const CONTEXT = Symbol.for("holdfast.call-context");

/**
 * Returns the ledger's context of a durable tool's call: the idempotency key for the vendor, the attempt,
 * the fencing token. Pass the last argument of `execute`.
 * @example execute: ({ order }, options) => pay(order, { idempotencyKey: callContext(options).key })
 */
export function callContext(options: object | undefined): ExecuteContext {
  const context = (options as { [CONTEXT]?: ExecuteContext } | undefined)?.[CONTEXT];
  if (context) return context;
  throw new HoldfastError("INPUT_INVALID", "callContext was called outside a durable tool", {
    hint: "Make the tool with durable(session), and pass the last argument of its execute to callContext.",
  });
}

/** Invalid JSON stays text: the framework reports it to the model, and the call is not run. */
export function argsOf(written: string): Json {
  if (written.trim() === "") return {};
  try {
    return JSON.parse(written) as Json;
  } catch {
    return written;
  }
}

interface FrameworkTool {
  readonly name: string;
  readonly description: string;
  readonly declaration: Partial<Tool>;
  /** The arguments as the model wrote them, and as the framework parsed them for `execute` and `verify`. */
  readonly args: Json;
  readonly input: unknown;
  /** Parses other arguments, which a person approved instead. */
  readonly schema: StandardSchema<unknown, unknown>;
  /** A person has to approve the call, or the ledger has it: it is recorded even if it only reads. */
  readonly mustRecord: boolean;
  execute(input: unknown, context: ExecuteContext): unknown;
}

export function ledgerTool(tool: FrameworkTool): Tool {
  const { name, description, declaration, args, input, schema, mustRecord } = tool;
  const isRecordedRead = mustRecord && declaration.effect === "read";
  const validate = (raw: unknown) =>
    sameJson(raw as Json, args) ? { value: input } : schema["~standard"].validate(raw);
  return {
    ...declaration,
    ...(isRecordedRead && { dedupe: "call", idempotent: true }),
    name,
    description,
    effect: isRecordedRead ? "mutate" : (declaration.effect ?? "mutate"),
    input: { "~standard": { version: 1, vendor: "holdfast", validate } },
    execute: (args: unknown, context) => executeWithChild(tool, args, context),
  };
}

/**
 * A sub-agent that may not start (no budget left) fails the call, if the tool asked for it before its first
 * `await`: nothing can have happened. Only in the first attempt, because the sub-agent of an earlier attempt
 * may have acted.
 */
async function executeWithChild(
  tool: FrameworkTool,
  args: unknown,
  context: ExecuteContext,
): Promise<unknown> {
  let isBeforeAwait = true;
  const child: ExecuteContext["child"] = async (budget) => {
    const isFirst = isBeforeAwait && context.attempt === 1;
    try {
      return await context.child(budget);
    } catch (error) {
      const mayNotStart =
        isHoldfastError(error, "BUDGET_EXCEEDED") || isHoldfastError(error, "SESSION_ENDED");
      throw isFirst && mayNotStart ? new DefiniteFailure(error.message) : error;
    }
  };
  const running = tool.execute(args, { ...context, child });
  isBeforeAwait = false;
  return running;
}
