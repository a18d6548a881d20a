/** `holdfast/openai-agents`: a session for OpenAI Agents on any store, and `durable` for programs that keep the SDK's `run()`. */

export type { Price, PriceTable } from "../prices.ts";
export { type Durable, type DurableInput, type DurableOptions, durable } from "./durable.ts";
export { HoldfastSession } from "./session.ts";
export { callContext, type DurableToolOptions, type EffectOptions, ToolCallFailed } from "./tools.ts";
