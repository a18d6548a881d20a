/** An ended session that continues is active again, so that a crash is noticed. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, type Holdfast, open } from "../../src/index.ts";
import { callBlock, counting, script } from "../ledger/bench.ts";

let holdfast: Holdfast;
beforeEach(async () => {
  holdfast = await open("memory:");
});
afterEach(() => holdfast.close());

const statusNow = async (): Promise<string> => (await holdfast.sessions.get("s")).status;

test("it is active while the model works on an unanswered prompt", async () => {
  const session = await holdfast.session("s");
  await session.append({ role: "user", text: "Pay" });
  await session.fail("the vendor is down");
  const seen: string[] = [];
  const model = async () => {
    seen.push(await statusNow());
    return { message: { text: "paid" } };
  };
  expect(await session.run({ model, prompt: "Pay" })).toMatchObject({ status: "done", text: "paid" });
  expect(seen).toEqual(["active"]);
});

test("it is active from a call's intent on, direct or in a message", async () => {
  const session = await holdfast.session("s");
  const seen: string[] = [];
  const pay = counting({ effects: [] }, "pay", {
    execute: async () => {
      seen.push(await statusNow());
      return "paid";
    },
  });
  await session.complete();
  expect(await session.call({ tool: pay, args: { order: 1 } })).toMatchObject({ status: "completed" });
  const message = await session.append({ role: "assistant", blocks: [callBlock("c1", "pay", { order: 2 })] });
  await session.complete();
  expect(await session.calls(message, [pay])).toMatchObject({ done: true });
  expect(seen).toEqual(["active", "active"]);
});

test("it stays ended if nothing starts: no turn and no new call", async () => {
  const session = await holdfast.session("s");
  const world = { effects: [] };
  const pay = counting(world, "pay");
  const prompt = { id: "p", text: "Pay" };
  await session.call({ tool: pay, args: {}, callId: "c" });
  await session.run({ model: script("paid"), prompt });
  await session.complete();
  expect(await session.call({ tool: pay, args: {}, callId: "c" })).toMatchObject({ replayed: true });
  expect(await session.run({ model: script(), prompt })).toMatchObject({ text: "paid", replayed: ["p"] });
  expect(await session.run({ model: script() })).toMatchObject({ status: "done", text: "paid" });
  expect(await statusNow()).toBe("completed");
  expect(world.effects).toHaveLength(1);
});

test("a fork of a sub-agent's session works for no call and needs its own worker", async () => {
  const session = await holdfast.session("s");
  const sub = agentTool({
    name: "sub",
    description: "",
    input: z.object({}),
    run: (_, child) => child.run({ model: script("done"), prompt: "go" }),
  });
  const outcome = await session.call({ tool: counting({ effects: [] }, "sub", sub as never), args: {} });
  const child = (outcome as unknown as { value: { session: string } }).value.session;
  expect(await holdfast.sessions.get(child)).toMatchObject({ parent: "s" });
  await holdfast.sessions.fork(child, "fork");
  expect(await holdfast.sessions.get("fork")).toMatchObject({ parent: null, forkedFrom: child });
});
