/** `holdfast/ai-sdk`: any provider's model for `session.run`, and `durable` for the SDK's own loop. */

export type { Artifacts } from "../artifacts.ts";
export { LIST_PRICES, type Price, type PriceTable } from "../prices.ts";
export { callContext, ToolCallFailed } from "../recorded-turns/index.ts";
export {
  type AnswerContext,
  type AnswerFunction,
  type AnswerStream,
  type ChatHandlerOptions,
  chatHandler,
  type DurableResponseOptions,
  durableResponse,
  nodeListener,
  toUIMessages,
} from "./chat/index.ts";
export { type Durable, durable } from "./durable.ts";
export { fromModelMessages, toModelMessages } from "./messages.ts";
export { fromAiSdk } from "./model.ts";
export type {
  DurableOptions,
  DurablePrompt,
  FromAiSdkOptions,
  ToolDeclaration,
  ToolDeclarations,
} from "./options.ts";
