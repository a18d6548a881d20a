// A killed run, another run, then the first again: it resumes, and all its items are in the conversation.

import { setTracingDisabled } from "@openai/agents";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Shop } from "./shop.ts";

setTracingDisabled(true);

let shop: Shop;
beforeEach(async () => {
  shop = await Shop.open();
});
afterEach(() => shop.holdfast.close());

const A = { id: "a", text: "A" };
const B = { id: "b", text: "B" };
const ANSWER_TO_B = ["user B", "call B", "result", "assistant paid B"];

describe.each([{ stream: false }, { stream: true }])("stream: $stream", ({ stream }) => {
  test.each([1, 2])("a run whose provider fails at question %i resumes later", async (failsAt) => {
    await expect(shop.ask(A, { failsAt, stream })).rejects.toThrow("down");
    // The SDK stores the input of a stream at once.
    const stored = await shop.items();
    expect(stored).toEqual(stream ? ["user A"] : []);
    expect(await shop.ask(B, { stream })).toBe("paid B");
    expect(await shop.ask(A, { stream })).toBe("paid A");
    const whole = [
      ...stored,
      ...ANSWER_TO_B,
      ...["user A", "call A", "result", "assistant paid A"].slice(stored.length),
    ];
    expect(await shop.items()).toEqual(whole);
    // Repeated from the record: nothing is doubled.
    expect([await shop.ask(A, { stream }), await shop.ask(B, { stream })]).toEqual(["paid A", "paid B"]);
    expect(await shop.items()).toEqual(whole);
    expect([...shop.world].sort()).toEqual(["A", "B"]);
  });
});
