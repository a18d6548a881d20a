import type Anthropic from "@anthropic-ai/sdk";
import type { Artifacts } from "../artifacts.ts";
import type { PriceTable } from "../prices.ts";

/** How `fromAnthropic` asks, and what an answer costs. */
export interface FromAnthropicOptions {
  /** Streams the answer and reports its parts as they arrive. The API requires it for long answers. */
  readonly stream?: boolean;
  /** US dollars per million tokens, by model id, for budgets in dollars. */
  readonly prices?: PriceTable;
  /** The store for images and documents: the `Holdfast` of the session. Required if there are any. */
  readonly artifacts?: Artifacts;
  /** Parameters of every request: `max_tokens` (default 8192), `thinking`, `tool_choice`, more tools. */
  readonly params?: Partial<Omit<Anthropic.MessageCreateParamsNonStreaming, "messages" | "model" | "stream">>;
}
