// An input id identifies one input forever: another text with that id never gets the old answer.

import { Agent, run, setTracingDisabled } from "@openai/agents";
import { expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { type DurableInput, durable } from "../../../src/integrations/openai-agents/index.ts";
import { ScriptedModel } from "./scripted-model.ts";

setTracingDisabled(true);

test("the same id with other words is PROMPT_DIVERGED, and the model is not asked", async () => {
  const holdfast = await open("memory:");
  const model: ScriptedModel = new ScriptedModel(() => [{ text: `answer ${model.asked.length}` }]);
  const ask = async (input: DurableInput): Promise<unknown> => {
    const session = await holdfast.session("s");
    try {
      const d = durable(session);
      const agent = new Agent({ name: "Shop", model: d.model(model) });
      return (await run(agent, await d.input(input), { session: d.session })).finalOutput;
    } finally {
      await session.close();
    }
  };
  expect(await ask({ id: "pay", text: "Pay order 1" })).toBe("answer 1");
  await expect(ask({ id: "pay", text: "Pay order 2" })).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
  const items = [{ role: "user" as const, content: "Pay order 1" }];
  expect(await ask({ id: "pay", items })).toBe("answer 1");
  expect(model.asked).toHaveLength(1);
  await holdfast.close();
});
