// A stored RunState of the SDK is resumed any number of times, by any process.

import { type Agent, RunState, run, setTracingDisabled } from "@openai/agents";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Shop, type Started, short } from "./shop.ts";

setTracingDisabled(true);

let shop: Shop;
beforeEach(async () => {
  shop = await Shop.open();
});
afterEach(() => shop.holdfast.close());

const ASKS = { options: { approvals: "sdk" }, needsApproval: true } as const;

/** Asks, is interrupted, and stores the state. */
function kept(text: string): Promise<string> {
  return shop.started(ASKS, async ({ d, agent }) => {
    const { state, interruptions } = await run(agent, await d.input(text), { session: d.session });
    expect(interruptions).toHaveLength(1);
    return state.toString();
  });
}

async function goneOn({ d, agent }: Started, text: string, answer: "approve" | "reject" = "approve") {
  const state = await RunState.fromString<unknown, Agent>(agent, text);
  for (const each of state.getInterruptions()) state[answer](each);
  return (await run(agent, state, { session: d.session })).finalOutput;
}

const whole = (order: string) => [`user ${order}`, `call ${order}`, "result", `assistant paid ${order}`];

describe("a restored RunState", () => {
  test("of several runs in sequence is resumed, each in its own process", async () => {
    for (const order of ["A", "B"]) {
      const state = await kept(order);
      expect(await shop.started(ASKS, (started) => goneOn(started, state))).toBe(`paid ${order}`);
    }
    expect(await shop.items()).toEqual([...whole("A"), ...whole("B")]);
    expect(shop.world).toEqual(["A", "B"]);
  });

  test("whose process dies after the effect is resumed again, and its items are stored once", async () => {
    const state = await kept("A");
    const dies = shop.started({ ...ASKS, failsAt: 1 }, (started) => goneOn(started, state));
    await expect(dies).rejects.toThrow("down");
    for (const asked of [1, 0]) {
      await shop.started(ASKS, async (started) => {
        expect(await goneOn(started, state)).toBe("paid A");
        expect(started.model.asked).toHaveLength(asked);
      });
      expect(await shop.items()).toEqual(whole("A"));
    }
    expect(shop.world).toEqual(["A"]);
  });

  test("of a rejected call is reported to the model, in another process", async () => {
    const state = await kept("A");
    for (const _ of [1, 2])
      expect(await shop.started(ASKS, (started) => goneOn(started, state, "reject"))).toBe("paid A");
    expect([await shop.items(), shop.world]).toEqual([whole("A"), []]);
  });

  test("may be resumed after the same or another input", async () => {
    const state = await kept("A");
    await shop.started(ASKS, async (started) => {
      await started.d.input("A");
      expect(await goneOn(started, state)).toBe("paid A");
    });
    const next = await kept("B");
    await shop.started(ASKS, async (started) => {
      expect(await goneOn(started, next)).toBe("paid B");
      await started.d.input("C");
      expect(await goneOn(started, next)).toBe("paid B");
    });
    expect(await shop.items()).toEqual([...whole("A"), ...whole("B")]);
  });
});

test("the same text after an interruption is the same run: no second question, no second call", async () => {
  await kept("A");
  await shop.started(ASKS, async ({ d, agent, model }) => {
    const again = await run(agent, await d.input("A"), { session: d.session });
    expect([again.interruptions.length, model.asked.length]).toEqual([1, 0]);
    for (const each of again.interruptions) again.state.approve(each);
    expect((await run(agent, again.state, { session: d.session })).finalOutput).toBe("paid A");
    expect(short(await d.session.getItems())).toEqual(whole("A"));
  });
  // The run has its answer now.
  await kept("A");
  expect(await shop.items()).toEqual([...whole("A"), "user A", "call A"]);
});

test("a run that ended with its tool is finished: the same text starts a new run", async () => {
  for (const _ of [1, 2]) {
    await shop.started({}, async ({ d, agent }) => {
      const stops = agent.clone({ toolUseBehavior: "stop_on_first_tool" });
      await run(stops, await d.input("A"), { session: d.session });
    });
  }
  expect(await shop.items()).toEqual(["user A", "call A", "result", "user A", "call A", "result"]);
});
