/** The cost of a turn of `durable` in commits, counted by the store (decision 029). */

import { generateText, stepCountIs, tool } from "ai";
import { afterAll, expect, test } from "vitest";
import { z } from "zod";
import { Holdfast, Journal } from "../../../src/index.ts";
import { durable } from "../../../src/integrations/ai-sdk/index.ts";
import { countCommits } from "../../count-commits.ts";
import { storeSubjects } from "../../subjects.ts";
import { answer } from "./paying-model.ts";
import { freshHoldfast, program, says, scripted, toolCall } from "./scripted-world.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((each) => each.dispose())));

test.each(subjects)(
  "a turn with one call takes three commits, and the answer one: $name",
  async (subject) => {
    const opened = await subject.open();
    const { store, count } = countCommits(opened.store);
    const holdfast = new Holdfast(new Journal({ store }));
    const d = durable(await holdfast.session("alpha"));
    const pay = tool({ inputSchema: z.object({ n: z.number() }), execute: async ({ n }) => ({ paid: n }) });
    const messages = await d.messages("Pay.");
    const before = count();
    const { text } = await generateText({
      model: d.model(scripted(answer([toolCall("c1", "pay", { n: 1 })]), says("paid"))),
      tools: d.tools({ pay }),
      messages,
      stopWhen: stepCountIs(3),
    });
    expect(text).toBe("paid");
    expect(count() - before).toBe(4); // The answer; the intent; outcome, results and checkpoint; the last answer.
    await holdfast.close();
    await opened.dispose();
  },
);

test("the results of a message wait for one that is still being rendered", async () => {
  const holdfast = await freshHoldfast();
  const input = z.object({});
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  await program(holdfast, async (d, session) => {
    let isRendering = (): void => undefined;
    const rendering = new Promise<void>((resolve) => {
      isRendering = resolve;
    });
    const slow = tool({
      inputSchema: input,
      execute: () => "raw",
      toModelOutput: async () => {
        isRendering();
        while (session.openCalls.length > 0) await turn();
        for (let turns = 0; turns < 50; turns++) await turn();
        return { type: "text", value: "rendered" };
      },
    });
    const other = tool({ inputSchema: input, execute: () => rendering.then(() => "done") });
    const model = scripted(answer([toolCall("c1", "slow", {}), toolCall("c2", "other", {})]), says("ok"));
    await generateText({
      model: d.model(model),
      tools: d.tools({ slow, other }),
      messages: await d.messages("Go."),
      stopWhen: stepCountIs(3),
    });
    const results = session.messages.flatMap(({ role, blocks }) => (role === "tool" ? blocks : []));
    expect(results).toMatchObject([{ content: "rendered" }, { content: "done" }]);
  });
});
