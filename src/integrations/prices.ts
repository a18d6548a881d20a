import type { Amounts, Price, PriceTable } from "../model/session/index.ts";

export type { Price, PriceTable };

/**
 * List prices, for models that `prices` does not name. They cover the model itself and its dated releases,
 * e.g. `gpt-5-2025-08-07`, and no other: a price guessed too low would let a session overspend. Cache writes
 * are those of five minutes. Models whose price depends on the prompt's length, e.g. `claude-haiku-5-5`, are
 * missing on purpose. They are of 2026: pass `prices` where yours differ.
 *
 * @example
 * fromAnthropic(client, "claude-sonnet-5-5", { prices: { "claude-sonnet-5-5": { input: 1.5, output: 8 } } });
 */
export const LIST_PRICES: PriceTable = {
  "claude-fable-5-1": { input: 10, output: 50, cacheRead: 0.25, cacheWrite: 12.5 },
  "claude-opus-5-5": { input: 4, output: 20, cacheRead: 0.2, cacheWrite: 5 },
  "claude-opus-5": { input: 5, output: 25, cacheRead: 0.5, cacheWrite: 6.25 },
  "claude-sonnet-5-5": { input: 2, output: 10, cacheRead: 0.1, cacheWrite: 2.5 },
  "claude-sonnet-5": { input: 2, output: 10, cacheRead: 0.2, cacheWrite: 2.5 },
  "claude-opus-4-5": { input: 5, output: 25, cacheRead: 0.5, cacheWrite: 6.25 },
  "claude-haiku-4-5": { input: 1, output: 5, cacheRead: 0.1, cacheWrite: 1.25 },
  "gpt-5": { input: 1.25, output: 10, cacheRead: 0.125 },
  "gpt-5-mini": { input: 0.25, output: 2, cacheRead: 0.025 },
  "gpt-5-nano": { input: 0.05, output: 0.4, cacheRead: 0.005 },
  "gpt-4.1": { input: 2, output: 8, cacheRead: 0.5 },
  "gpt-4.1-mini": { input: 0.4, output: 1.6, cacheRead: 0.1 },
  "gpt-4o-mini": { input: 0.15, output: 0.6, cacheRead: 0.075 },
};

const RELEASE_DATE = /-\d{4}-?\d{2}-?\d{2}$/;

/** Tokens of one model call. `input` excludes tokens read from or written to a cache. */
export type TokenCount = Required<Price>;

/** The cost of a call in a session's budget: by `prices`, or the list price. Without one, only its tokens. */
export function amountsOf(count: TokenCount, modelId: string, prices: PriceTable | undefined): Amounts {
  const tokens = count.input + count.output + count.cacheRead + count.cacheWrite;
  const price = priceOf(modelId, prices ?? {}) ?? listPriceOf(modelId);
  if (!price) return { tokens };
  const { input, output, cacheRead = input, cacheWrite = input } = price;
  const micros =
    count.input * input + count.output * output + count.cacheRead * cacheRead + count.cacheWrite * cacheWrite;
  return { tokens, usd: micros / 1_000_000 };
}

function priceOf(modelId: string, prices: PriceTable): Price | undefined {
  const matches = Object.keys(prices).filter((name) => modelId.startsWith(name));
  const longest = matches.sort((left, right) => right.length - left.length)[0];
  return longest === undefined ? undefined : prices[longest];
}

function listPriceOf(modelId: string): Price | undefined {
  const name = modelId.replace(RELEASE_DATE, "");
  return Object.hasOwn(LIST_PRICES, name) ? LIST_PRICES[name] : undefined;
}
