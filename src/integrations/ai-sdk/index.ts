/** `holdfast/ai-sdk`: any provider's model for a session's own loop, and `durable` for programs that keep the SDK's. */

export type { Price, PriceTable } from "../prices.ts";
export { type Durable, type DurableOptions, type DurablePrompt, durable } from "./durable.ts";
export { callContext, ToolCallFailed, type ToolDeclaration, type ToolDeclarations } from "./durable-tools.ts";
export type { Artifacts } from "./file-data.ts";
export { type FromAiSdkOptions, fromAiSdk } from "./from-ai-sdk.ts";
export { fromModelMessages, toModelMessages } from "./messages.ts";
