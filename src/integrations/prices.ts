import type { Amounts } from "../model/session/index.ts";

/** US dollars per million tokens. Default for `cacheRead` and `cacheWrite`: the price of `input`. */
export interface Price {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

/**
 * Prices by model id. A key also matches dated models that begin with it; the longest match counts.
 * @example { "claude-sonnet": { input: 3, output: 15 }, "gpt-5": { input: 1.25, output: 10 } }
 */
export type PriceTable = Readonly<Record<string, Price>>;

/** Tokens of one model call. `input` excludes tokens read from or written to a cache. */
export type TokenCount = Required<Price>;

/** The cost of a call in a session's budget. Without a price, only its tokens. */
export function amountsOf(count: TokenCount, modelId: string, prices: PriceTable | undefined): Amounts {
  const tokens = count.input + count.output + count.cacheRead + count.cacheWrite;
  const price = prices && priceOf(modelId, prices);
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
