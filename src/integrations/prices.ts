import type { Amounts } from "../model/session/index.ts";

/** US dollars for a million tokens. Tokens from a cache cost what other input does unless said otherwise. */
export interface Price {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

/** By model id. A name also stands for the dated models that begin with it; the longest that fits counts. */
export type PriceTable = Readonly<Record<string, Price>>;

/** Tokens of one model call. `input` is without those that were read from or written to a cache. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/** What a call counts in a session's budget. Without a price, its tokens only. */
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
  const fits = Object.keys(prices).filter((name) => modelId.startsWith(name));
  const longest = fits.sort((left, right) => right.length - left.length)[0];
  return longest === undefined ? undefined : prices[longest];
}
