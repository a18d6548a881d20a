/** The public options of this integration. */

import type Anthropic from "@anthropic-ai/sdk";
import type { PriceTable } from "../prices.ts";
import type { Artifacts } from "./messages.ts";

/** How `fromAnthropic` asks, and what an answer costs. */
export interface FromAnthropicOptions {
  /**
   * Streams the answer and reports its parts as they arrive. The API requires it for long answers.
   *
   * @example fromAnthropic(client, "claude-sonnet-5-5", { stream: true })
   */
  readonly stream?: boolean;
  /**
   * US dollars per million tokens, by model id, for budgets in dollars.
   *
   * @example fromAnthropic(client, model, { prices: { "claude-sonnet": { input: 3, output: 15 } } })
   */
  readonly prices?: PriceTable;
  /**
   * The store for images and documents of messages: the `Holdfast` of the session. Required if there are any.
   *
   * @example fromAnthropic(client, model, { artifacts: holdfast })
   */
  readonly artifacts?: Artifacts;
  /**
   * Parameters sent with every request: `max_tokens` (default 8192), `thinking`, `tool_choice`, more tools …
   *
   * @example fromAnthropic(client, model, { params: { max_tokens: 32_000 } })
   */
  readonly params?: Partial<Omit<Anthropic.MessageCreateParamsNonStreaming, "messages" | "model" | "stream">>;
}
