/** The public options of this integration. */

import type { ToolSpec, Verdict, VerifyContext } from "../../ledger/index.ts";
import type { PriceTable } from "../prices.ts";
import type { Artifacts } from "./messages.ts";
import type {
  CallOptions,
  InferToolInput,
  InferToolOutput,
  SdkTool,
  ToolSet,
  UserModelMessage,
} from "./sdk-types.ts";

/** Options of `durable`: the name of the run, and what may change between two starts of it. */
export interface DurableOptions {
  /**
   * Names the run that is resumed as one. A restarted program begins its run at the start, and is answered
   * from the record until it asks something new. Default: `main`; `messages(prompt)` begins a run per
   * prompt.
   *
   * @example durable(session, { run: "nightly-report" })
   */
  readonly run?: string;
  /**
   * Ignores the system text when prompts are compared: for texts that contain a date, or change with a
   * deploy.
   *
   * @example durable(session, { ignoreSystem: true })
   */
  readonly ignoreSystem?: boolean;
  /**
   * US dollars per million tokens, by model id, for the session's budget.
   *
   * @example durable(session, { prices: { "claude-sonnet": { input: 3, output: 15 } } })
   */
  readonly prices?: PriceTable;
  /**
   * Selects who approves calls of tools with `needsApproval`. `queue` (default): a person, among the
   * session's open calls. `sdk`: the SDK's own approval requests and responses.
   *
   * @example durable(session, { approvals: "sdk" })
   */
  readonly approvals?: "queue" | "sdk";
}

/**
 * A prompt: text, or a message with files. With an `id` a finished prompt is answered from the record. The
 * same id with another text is refused.
 *
 * @example await d.messages({ id: "order-4711", text: "Ship order 4711" })
 */
export type DurablePrompt =
  | string
  | { readonly id?: string; readonly text: string }
  | (Pick<UserModelMessage, "content" | "providerOptions"> & {
      readonly id?: string;
      readonly role?: "user";
    });

/**
 * Declares what a tool does to the world, and how to find out whether it did, as in Holdfast's own `tool`. A
 * tool without a declaration counts as mutating: an interrupted call of it waits for a person.
 *
 * @example { effect: "mutate", verify: async ({ order }) => ((await paid(order)) ? landed("ok") : never()) }
 */
export interface ToolDeclaration<Args = never, Result = unknown>
  extends Omit<
    ToolSpec<Args, Result>,
    | "name"
    | "description"
    | "input"
    | "output"
    | "inputJsonSchema"
    | "execute"
    | "effect"
    | "verify"
    | "repeatable"
  > {
  readonly effect?: ToolSpec<Args, Result>["effect"];
  readonly verify?: (args: Args, context: VerifyContext) => Promise<Verdict<Result>> | Verdict<Result>;
}

/**
 * Declarations by tool name.
 *
 * @example d.tools({ search, charge }, { search: { effect: "read" }, charge: { idempotent: true } })
 */
export type ToolDeclarations<Tools extends ToolSet> = {
  readonly [Name in keyof Tools]?: Tools[Name] extends SdkTool
    ? ToolDeclaration<InferToolInput<Tools[Name]>, InferToolOutput<Tools[Name]>>
    : never;
};

/** How `fromAiSdk` asks, and what an answer costs. */
export interface FromAiSdkOptions {
  /**
   * Streams the answer and reports its parts as they arrive. Some providers require it for long answers.
   *
   * @example fromAiSdk(model, { stream: true })
   */
  readonly stream?: boolean;
  /**
   * US dollars per million tokens, by model id, for budgets in dollars.
   *
   * @example fromAiSdk(model, { prices: { "claude-sonnet": { input: 3, output: 15 } } })
   */
  readonly prices?: PriceTable;
  /**
   * The store for files of messages and answers: the `Holdfast` of the session. Required if there are any.
   *
   * @example fromAiSdk(model, { artifacts: holdfast })
   */
  readonly artifacts?: Artifacts;
  /**
   * Settings passed to the provider with every call: temperature, thinking, cache control, headers.
   *
   * @example fromAiSdk(model, { settings: { maxOutputTokens: 32_000 } })
   */
  readonly settings?: Omit<CallOptions, "prompt" | "tools" | "abortSignal" | "includeRawChunks">;
}
