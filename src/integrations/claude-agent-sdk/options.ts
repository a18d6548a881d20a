import type { ToolSpec, Verdict, VerifyContext } from "../../ledger/index.ts";
import type { PriceTable } from "../../model/session/index.ts";

/**
 * Says which tool calls of the agent are effects, and what may be done about an interrupted one. The first
 * rule that fits counts. A call that no rule fits runs freely, as without Holdfast.
 *
 * @example
 * const rules: EffectRule[] = [
 *   { tool: "mcp__shop__charge", dedupe: "session", verify: ({ order }) => findCharge(order) },
 *   { tool: "Bash", when: ({ command }) => /\b(git push|npm publish)\b/.test(String(command)) },
 * ];
 */
export interface EffectRule
  extends Pick<ToolSpec<ToolInput, unknown>, "settleMs" | "interrupted" | "needsApproval"> {
  /** The tool's name as the model calls it: `"Bash"`, `"mcp__shop__charge"`. `*` stands for any text. */
  readonly tool: string;
  /** Only calls with such input: `({ command }) => String(command).startsWith("./deploy")`. */
  readonly when?: (input: ToolInput) => boolean;
  /**
   * Which calls count as the same. Unless set: a call that is repeated because its answer was lost. With
   * `"session"` an equal call never runs again in this session, with `"global"` in none.
   */
  readonly dedupe?: "session" | "global" | { scope: "session" | "global"; key: (input: ToolInput) => string };
  /** Running it again is harmless: after a crash it simply runs again. */
  readonly idempotent?: true;
  /**
   * Finds out whether an interrupted call took effect: `landed(result)`, `never()`, `notYet()` or `unsure()`.
   * Without it a person is asked.
   */
  readonly verify?: (
    input: ToolInput,
    context: VerifyContext,
  ) => Promise<Verdict<unknown>> | Verdict<unknown>;
}

/** The input of a tool as the model wrote it: `{ command: "git push" }`. */
export type ToolInput = Readonly<Record<string, unknown>>;

/** Options of `durable`. */
export interface DurableOptions {
  /** The calls that are effects: `[{ tool: "mcp__shop__*" }]`. Unless set, none is. */
  readonly effects?: readonly EffectRule[];
  /**
   * The SDK's requests for permission wait for a person, who uses `holdfast approve` or the page of
   * `holdfast ui` (`"queue"`, unless set). With `"sdk"` the program's own `canUseTool` answers them.
   */
  readonly permissions?: "queue" | "sdk";
  /**
   * A call that waits for a person ends the query, which continues once the person has answered (`"defer"`,
   * unless set). `"hold"` keeps the query open until then: `waiting: "hold"`.
   */
  readonly waiting?: "defer" | "hold";
  /** Prices of models that the list of prices lacks: `{ "my-model": { input: 1, output: 5 } }`. */
  readonly prices?: PriceTable;
}
