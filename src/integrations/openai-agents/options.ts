import type { AgentInputItem, ToolExecuteArgument, ToolInputParameters, ToolOptions } from "@openai/agents";
import type { ToolSpec, Verdict, VerifyContext } from "../../ledger/index.ts";
import type { PriceTable } from "../prices.ts";
import type { OnDiverge } from "../recorded-turns/index.ts";

/** Options of `durable`. */
export interface DurableOptions {
  /** US dollars per million tokens, by model id, for the session's budget. `LIST_PRICES` otherwise. */
  readonly prices?: PriceTable;
  /**
   * Decides about a recorded turn whose input is another one now, for example after a deploy: `refuse` (the
   * default), `adopt` or `branch`. See docs/start/ai-sdk.md.
   * @example durable(session, { onDiverge: "adopt" })
   */
  readonly onDiverge?: OnDiverge;
  /** Calls of tools with `needsApproval` go to a person (`queue`, the default) or to the SDK (`sdk`). */
  readonly approvals?: "queue" | "sdk";
  /**
   * Names of function tools, or `all`, that may run outside the ledger, and again after a crash: tools of an
   * MCP server, or `agent.asTool()`. Other tools without `durable(session).tool()` are refused.
   */
  readonly plainTools?: readonly string[] | "all";
}

/**
 * An input: text, or items of the SDK. With an `id` a finished input is answered from the record.
 * @example await d.input({ id: "order-4711", text: "Ship order 4711" })
 */
export type DurableInput =
  | string
  | { readonly id?: string; readonly text: string }
  | { readonly id?: string; readonly items: readonly AgentInputItem[] };

/**
 * Declares what a tool does to the world, and how to find out whether it did, as in Holdfast's own `tool`. An
 * undeclared tool counts as mutating: an interrupted call of it waits for a person.
 * @example d.tool({ …, verify: async ({ order }) => ((await paid(order)) ? landed("ok") : never()) })
 */
export interface EffectOptions<Args = never>
  extends Pick<ToolSpec<Args, unknown>, "dedupe" | "idempotent" | "settleMs" | "interrupted" | "definite"> {
  /** The effect of the tool on the world: `"read"`, `"write"` or `"mutate"` (default). */
  readonly effect?: ToolSpec<Args, unknown>["effect"];
  /** Asks the target whether an interrupted call happened. */
  readonly verify?: (args: Args, context: VerifyContext) => Promise<Verdict<unknown>> | Verdict<unknown>;
}

/** Options of `durable(session).tool()`: those of the SDK's `tool()`, and what the tool does to the world. */
export type DurableToolOptions<
  Parameters extends ToolInputParameters = undefined,
  Context = unknown,
> = ToolOptions<Parameters, Context> & EffectOptions<ToolExecuteArgument<Parameters>>;
