import type { ToolSpec, Verdict, VerifyContext } from "../../ledger/index.ts";
import type { Artifacts } from "../artifacts.ts";
import type { PriceTable } from "../prices.ts";
import type { OnDiverge, WhileWaiting } from "../recorded-turns/index.ts";
import type {
  InferToolInput,
  InferToolOutput,
  NewestCallOptions,
  SdkTool,
  ToolSet,
  UserModelMessage,
} from "./sdk-types.ts";

/** Options of `durable`. */
export interface DurableOptions {
  /** Names the run that is resumed as one. Default: `main`; `messages(prompt)` begins a run per prompt. */
  readonly run?: string;
  /** Ignores the system text when prompts are compared, for texts that contain a date. Default: false. */
  readonly ignoreSystem?: boolean;
  /**
   * Decides about a recorded turn whose prompt is another one now, for example after a deploy. `refuse` (the
   * default) fails with `PROMPT_DIVERGED`. `adopt` gives the recorded answer, and the new prompt counts from
   * the first turn that is not on record. `branch` asks the model again, unless a call of the turns left
   * behind may have had an effect.
   * @example durable(session, { onDiverge: "adopt" })
   */
  readonly onDiverge?: OnDiverge;
  /** US dollars per million tokens, by model id, for the session's budget. `LIST_PRICES` otherwise. */
  readonly prices?: PriceTable;
  /** Calls of tools with `needsApproval` go to a person (`queue`, the default) or to the SDK (`sdk`). */
  readonly approvals?: "queue" | "sdk";
}

/**
 * A prompt: text, or a message with files. With an `id` a finished prompt is answered from the record. The
 * same id with another text is refused.
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
 * Declares what a tool does to the world, and how to find out whether it did, as in Holdfast's own `tool`. An
 * undeclared tool counts as mutating: an interrupted call of it waits for a person.
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
  /**
   * Decides about the conversation while a call of this tool waits for a person. `stop` (the default) asks
   * the model nothing until then. `continue` gives it a provisional result; the outcome follows as a prompt.
   * @example d.tools({ refund }, { refund: { whileWaiting: "continue" } })
   */
  readonly whileWaiting?: WhileWaiting;
}

/** Declarations by tool name. */
export type ToolDeclarations<Tools extends ToolSet> = {
  readonly [Name in keyof Tools]?: Tools[Name] extends SdkTool
    ? ToolDeclaration<InferToolInput<Tools[Name]>, InferToolOutput<Tools[Name]>>
    : never;
};

/** How `fromAiSdk` asks, and what an answer costs. */
export interface FromAiSdkOptions {
  /** Streams the answer and reports its parts. Some providers require it for long answers. */
  readonly stream?: boolean;
  /** US dollars per million tokens, by model id, for budgets in dollars. `LIST_PRICES` otherwise. */
  readonly prices?: PriceTable;
  /** The store for files of messages and answers: the `Holdfast` of the session. */
  readonly artifacts?: Artifacts;
  /** Settings passed to the provider with every call: temperature, thinking, cache control, headers. */
  readonly settings?: Omit<NewestCallOptions, "prompt" | "tools" | "abortSignal" | "includeRawChunks">;
}
