/** `holdfast/anthropic`: Anthropic's Messages API as the model of a session, and its message format. */

export type { Artifacts } from "../artifacts.ts";
export { LIST_PRICES, type Price, type PriceTable } from "../prices.ts";
export { AnthropicCallFailed } from "./errors.ts";
export { fromAnthropicMessages, toAnthropicMessages } from "./messages.ts";
export { type FromAnthropicOptions, fromAnthropic } from "./model.ts";
