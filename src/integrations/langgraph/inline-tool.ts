/** A function as a tool of the ledger, and by what it is told apart there. */

import type { ExecuteContext, StandardSchema, Tool, ToolSpec } from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";

type Inline<Result> = Omit<
  ToolSpec<Json, Result>,
  "name" | "description" | "input" | "execute" | "effect" | "dedupe"
>;

/** How an effect that was interrupted is settled (`verify`, `idempotent`, `settleMs` …), and what makes it the same effect. */
export interface EffectOptions<Result> extends Partial<Inline<Result>> {
  /** This effect happens once in the life of the thread, wherever it is called from. */
  readonly id?: string;
  /** What is recorded with it, for people and for `verify`. In a durable tool, without this and `id`: the tool's arguments. */
  readonly args?: Json;
  /** `mutate` unless set. */
  readonly effect?: ToolSpec<Json, Result>["effect"];
}

const ANYTHING: StandardSchema<unknown, Json> = {
  "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value: value as Json }) },
};

/** One that is told apart by its id alone has one key for all its numbers. */
export function withKey<Result>(tool: Tool<Result>, first: string): Tool<Result> {
  return tool.dedupe === "call" ? { ...tool, dedupe: { scope: "session", key: () => first } } : tool;
}

export function inlineTool<Result>(
  name: string,
  execute: (context: ExecuteContext) => Promise<Result> | Result,
  options: Omit<EffectOptions<Result>, "id" | "args">,
): ToolSpec<Json, Result> {
  const spec = { effect: "mutate" as const, ...options, dedupe: "call" as const };
  return { ...spec, name, description: name, input: ANYTHING, execute: (_args, context) => execute(context) };
}
