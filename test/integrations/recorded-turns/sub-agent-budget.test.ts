// A sub-agent that may not start fails its call, unless the tool acted before it started the sub-agent.

import { generateText, stepCountIs, tool } from "ai";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, never, open, type Session } from "../../../src/index.ts";
import { callContext, durable } from "../../../src/integrations/ai-sdk/index.ts";
import { answer } from "../ai-sdk/paying-model.ts";
import { says, scripted, toolCall } from "../ai-sdk/scripted-world.ts";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const holdfast of opened.splice(0)) await holdfast.close();
});

/** The documented sub-agent, with a budget of one dollar in a session that has half of one. */
async function research(before: () => Promise<void> | null) {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  const session: Session = await holdfast.session("order");
  await session.limit({ usd: 0.5 });
  const d = durable(session, { prices: { "mock-model": { input: 0, output: 0 } } });
  let starts = 0;
  const ask = tool({
    inputSchema: z.object({ question: z.string() }),
    execute: async (_input, options) => {
      starts += 1;
      const work = before();
      if (work) await work;
      const { session: child } = await callContext(options).child({ usd: 1 });
      await child.close();
      return "found";
    },
  });
  const tools = d.tools({ ask }, { ask: { verify: () => never() } });
  const model = scripted(answer([toolCall("c1", "ask", { question: "why?" })]), says("without it, then"));
  const work = generateText({ model: d.model(model), tools, prompt: "Ask", stopWhen: stepCountIs(5) });
  return {
    text: await work.then(({ text }) => text).catch(() => null),
    session,
    starts,
    calls: () => session.openCalls,
  };
}

test("without budget for its sub-agent a call fails at once, and the model continues", async () => {
  const { text, session, starts } = await research(() => null);
  expect(text).toBe("without it, then");
  expect(starts).toBe(1);
  expect(session.openCalls).toEqual([]);
  expect(JSON.stringify(session.messages)).toContain("a sub-agent would take usd");
});

test("a tool that acted before it started a sub-agent has an unknown outcome", async () => {
  const { text, session } = await research(() => Promise.resolve());
  expect(text).toBeNull();
  expect(session.openCalls).toMatchObject([{ status: "waiting" }]);
});
