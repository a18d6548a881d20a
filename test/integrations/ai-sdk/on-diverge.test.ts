// A deploy changes the system text while a run is in flight: refused, adopted or branched.

import { generateText, stepCountIs } from "ai";
import { expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import type { DurableOptions } from "../../../src/integrations/ai-sdk/index.ts";
import { answer, type MockModel } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, READS, says, scripted, toolCall } from "./scripted-world.ts";

const DIVERGED = { code: "PROMPT_DIVERGED" };
const { log, tools } = makeWorld();

/** One start of the program, with the texts of a release. */
const start = (
  holdfast: Holdfast,
  system: string,
  model: MockModel,
  onDiverge?: DurableOptions["onDiverge"],
) =>
  program(
    holdfast,
    async (d) =>
      generateText({
        model: d.model(model),
        tools: d.tools(tools, READS),
        system,
        messages: await d.messages({ id: "p", text: "Pay" }),
        stopWhen: stepCountIs(9),
      }),
    onDiverge ? { onDiverge } : {},
  );

const asks = (name: string, id = "c") => answer([toolCall(id, name, { order: "1" })]);

/** The first release stops after the call: its model does not answer any more. */
async function interrupted(call: "charge" | "find"): Promise<Holdfast> {
  log.splice(0);
  const holdfast = await freshHoldfast();
  await expect(start(holdfast, "old", scripted(asks(call), new Error("down")))).rejects.toThrow("down");
  return holdfast;
}

test("refuse: a changed system text fails, and nothing is asked", async () => {
  const holdfast = await interrupted("charge");
  const model = scripted(says("paid"));
  await expect(start(holdfast, "new", model)).rejects.toMatchObject(DIVERGED);
  expect(model.doGenerateCalls).toHaveLength(0);
});

test("adopt: recorded turns keep their answers and calls, and the next question has the new text", async () => {
  const holdfast = await interrupted("charge");
  const model = scripted(says("paid"));
  expect((await start(holdfast, "new", model, "adopt")).text).toBe("paid");
  expect(log).toEqual(["charge 1"]);
  expect(model.doGenerateCalls.map(({ prompt }) => prompt[0]?.content)).toEqual(["new"]);
  // Finished, it is answered from the record for any text, also with a third release.
  expect((await start(holdfast, "third", scripted(), "adopt")).text).toBe("paid");
  await expect(start(holdfast, "third", scripted())).rejects.toMatchObject(DIVERGED);
});

test("branch: without effects the model is asked again, and a restart finds the branch", async () => {
  const holdfast = await interrupted("find");
  const model = scripted(asks("charge", "c2"), new Error("down"));
  await expect(start(holdfast, "new", model, "branch")).rejects.toThrow("down");
  const again = scripted(says("paid"));
  expect((await start(holdfast, "new", again, "branch")).text).toBe("paid");
  expect(again.doGenerateCalls).toHaveLength(1);
  expect(log).toEqual(["charge 1"]);
});

test("branch: refused if a call of the turns left behind has had an effect", async () => {
  const holdfast = await interrupted("charge");
  const model = scripted(asks("charge", "c2"));
  const branched = start(holdfast, "new", model, "branch");
  await expect(branched).rejects.toMatchObject({ ...DIVERGED, hint: expect.stringContaining("charge c") });
  expect(model.doGenerateCalls).toHaveLength(0);
  expect(log).toEqual(["charge 1"]);
});

test("a value that is none of the three is refused", async () => {
  const holdfast = await open("memory:");
  const wrong = start(holdfast, "new", scripted(), "never" as never);
  await expect(wrong).rejects.toThrow("onDiverge");
  await holdfast.close();
});
