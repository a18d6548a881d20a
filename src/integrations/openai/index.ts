/** `holdfast/openai`: OpenAI's Responses and Chat Completions APIs as the model of a session. */

export type { Artifacts } from "../artifacts.ts";
export { LIST_PRICES, type Price, type PriceTable } from "../prices.ts";
export { fromChatMessages, toChatMessages } from "./chat.ts";
export { OpenAICallFailed } from "./errors.ts";
export { type FromOpenAIOptions, fromOpenAI } from "./model.ts";
export { fromResponsesInput, toResponsesInput } from "./responses.ts";
