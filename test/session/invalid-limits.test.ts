/** Limits that are not amounts, and model answers with text and blocks. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, open, type Session, tool } from "../../src/index.ts";
import { callBlock, counting, script } from "../ledger/bench.ts";

let holdfast: Holdfast;
let session: Session;

beforeEach(async () => {
  holdfast = await open("memory:");
  session = await holdfast.session("s");
});
afterEach(() => holdfast.close());

describe("a budget that is not an amount is rejected before the model is asked", () => {
  const LIMITS: Readonly<Record<string, object>> = {
    "not a number": { usd: Number.NaN },
    null: { usd: null },
    negative: { usd: -2 },
    "negative turns": { turns: -1 },
    infinite: { tokens: Number.POSITIVE_INFINITY },
    "a text": { usd: "5" },
    "a unit that is none": { dollars: 5 },
    "of one call": { usd: 5, perCall: { usd: Number.NaN } },
  };

  test.each(Object.entries(LIMITS))("%s", async (_, budget) => {
    const model = script("hello");
    const run = session.run({ model, prompt: "go", budget });
    await expect(run).rejects.toMatchObject({ code: "INPUT_INVALID", message: /^budget/ });
    expect(model.asked).toBe(0);
    expect(session.messages).toEqual([]);
  });

  test("raiseBudget rejects it, too", async () => {
    await session.limit({ usd: 1 });
    for (const usd of [Number.NaN, -7]) {
      const raised = holdfast.sessions.raiseBudget("s", { usd }, { by: "ann" });
      await expect(raised).rejects.toMatchObject({ code: "INPUT_INVALID" });
    }
  });

  test("undefined means no limit", async () => {
    const budget = { usd: undefined, turns: 0 } as object;
    expect(await session.run({ model: script("hello"), prompt: "go", budget })).toMatchObject({
      status: "paused",
      reason: "budget",
    });
  });
});

test("an answer with text and blocks keeps both", async () => {
  const world = { effects: [] };
  const first = { text: "I will pay now.", blocks: [callBlock("c1", "pay")], finish: "tool_calls" };
  const answers = [first, { text: "done", meta: { from: "here" } }];
  const model = async () => ({ message: answers.shift() ?? { text: "?" } });
  const result = await session.run({ model, tools: [counting(world, "pay")], prompt: "pay" });
  expect(result).toMatchObject({ status: "done", text: "done" });
  expect(world.effects).toHaveLength(1);
  expect(session.messages[1]?.blocks).toMatchObject([
    { kind: "text", text: "I will pay now." },
    { id: "c1" },
  ]);
  expect(session.messages.at(-1)?.meta).toEqual({ from: "here" });
});

test.each([["a text"], [{}], [null], [undefined]])(
  "an invalid answer (%j) is rejected with a message",
  async (message) => {
    const run = session.run({ model: async () => ({ message }) as never, prompt: "go" });
    await expect(run).rejects.toMatchObject({ code: "INPUT_INVALID", message: /^the model returned/ });
  },
);

test("tool() rejects a tool without an input schema", () => {
  const spec = { name: "pay", description: "pays", effect: "mutate", execute: () => 1 } as const;
  expect(() => tool(spec as never)).toThrow(expect.objectContaining({ code: "INPUT_INVALID" }));
  expect(tool({ ...spec, input: z.object({}) }).name).toBe("pay");
});
