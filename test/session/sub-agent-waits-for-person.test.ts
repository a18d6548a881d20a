import { expect, test } from "vitest";
import { z } from "zod";
import { agentTool, open, type Tool, tool } from "../../src/index.ts";
import { callBlock, script } from "../ledger/bench.ts";

test("a call whose sub-agent waits for a person says so, and continues when answered", async () => {
  const holdfast = await open("memory:");
  const pay = tool({
    name: "pay",
    description: "pays",
    input: z.object({}),
    effect: "mutate",
    execute: () => {
      throw new Error("the line was cut");
    },
  }) as unknown as Tool;
  const sub = tool(
    agentTool({
      name: "sub",
      description: "pays",
      input: z.object({}),
      run: (_, child) =>
        child.run({ model: script([callBlock("pay-1", "pay")], "paid"), tools: [pay], prompt: "pay" }),
    }),
  );
  const session = await holdfast.session("parent");
  const run = () =>
    session.run({ model: script([callBlock("ask", "sub")], "done"), tools: [sub], prompt: "go" });
  const waiting = await run();
  expect(waiting).toMatchObject({ status: "waiting", waiting: [{ callId: "ask", person: true }] });
  expect(waiting.waiting[0]?.why).toMatch(/^sub-agent sub-\w+ waits for a person: pay pay-1: .*line was cut/);
  const [asked] = (await holdfast.calls.list()).calls.filter(({ tool: name }) => name === "pay");
  if (!asked) throw new Error("the sub-agent's call is not listed");
  await holdfast.calls.resolve(asked.callId, {
    outcome: "landed",
    result: "paid",
    by: "ann",
    why: "seen in the bank",
  });
  expect(await run()).toMatchObject({ status: "done", waiting: [] });
  await holdfast.close();
});
