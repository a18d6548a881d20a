// What a call costs: by the caller's prices, otherwise by the list price of exactly this model.

import { expect, test } from "vitest";
import { amountsOf, LIST_PRICES } from "../../src/integrations/prices.ts";

const MILLION = { input: 1e6, output: 1e6, cacheRead: 1e6, cacheWrite: 1e6 };
const usd = (model: string, prices?: Parameters<typeof amountsOf>[2]) =>
  amountsOf(MILLION, model, prices).usd;

test("list prices cover a model and its dated releases", () => {
  expect(usd("claude-sonnet-5-5")).toBeCloseTo(2 + 10 + 0.1 + 2.5);
  expect(usd("claude-haiku-4-5-20251001")).toBeCloseTo(1 + 5 + 0.1 + 1.25);
  expect(usd("gpt-5-2025-08-07")).toBeCloseTo(1.25 + 10 + 0.125 + 1.25);
});

test.each(["gpt-5-pro", "gpt-5.9", "claude-sonnet-5-9", "claude-haiku-5-5", "mock-model", "constructor", ""])(
  "%s has no list price: only tokens are counted",
  (model) => {
    expect(amountsOf(MILLION, model, undefined)).toEqual({ tokens: 4e6 });
  },
);

test("the caller's prices override the list", () => {
  expect(usd("gpt-5", { "gpt-5": { input: 1, output: 0 } })).toBe(3);
  expect(usd("gpt-5-2025-08-07", { gpt: { input: 0, output: 7 } })).toBe(7);
  expect(usd("gpt-5", { claude: { input: 1, output: 1 } })).toBe(usd("gpt-5", LIST_PRICES));
});
