/** `holdfast/openai-agents`: the SDK's session on any store, and `durable` for programs with its `run()`. */

export { LIST_PRICES, type Price, type PriceTable } from "../prices.ts";
export { callContext, ToolCallFailed } from "../recorded-turns/index.ts";
export { type Durable, durable } from "./durable.ts";
export type { DurableInput, DurableOptions, DurableToolOptions, EffectOptions } from "./options.ts";
export { HoldfastSession } from "./session.ts";
