/** `holdfast/anthropic`: Anthropic's Messages API as a session's model, and its message format both ways. */

export type { Price, PriceTable } from "../prices.ts";
export type { Artifacts } from "./content.ts";
export { AnthropicCallFailed, type FromAnthropicOptions, fromAnthropic } from "./from-anthropic.ts";
export { fromAnthropicMessages, toAnthropicMessages } from "./messages.ts";
