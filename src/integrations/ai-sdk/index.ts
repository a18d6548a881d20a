/**
 * `holdfast/ai-sdk`: any provider's model for `session.run`, and `durable` for programs with the SDK's loop.
 */

export type { Price, PriceTable } from "../prices.ts";
export { type Durable, durable } from "./durable.ts";
export { ToolCallFailed } from "./errors.ts";
export { type Artifacts, fromModelMessages, toModelMessages } from "./messages.ts";
export { fromAiSdk } from "./model.ts";
export type {
  DurableOptions,
  DurablePrompt,
  FromAiSdkOptions,
  ToolDeclaration,
  ToolDeclarations,
} from "./options.ts";
export { callContext } from "./tools.ts";
