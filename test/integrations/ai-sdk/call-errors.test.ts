// An error after a recorded effect must not reach the model as a failed tool, because the model would repeat
// it.

import { generateText, stepCountIs, streamText, tool } from "ai";
import { expect, test } from "vitest";
import { z } from "zod";
import { HoldfastError, landed } from "../../../src/index.ts";
import { sessionCore } from "../../../src/session/index.ts";
import { answer } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, READS, says, scripted, toolCall } from "./scripted-world.ts";

const many = stepCountIs(9);
const pay = { id: "pay", text: "Pay" };
const asksFor = (name: string) => answer([toolCall("c", name, { order: "1" })]);

test.each(["mutate", "read"] as const)(
  "toModelOutput that throws ends the run, and the effect is not repeated (%s)",
  async (effect) => {
    const holdfast = await freshHoldfast();
    const { log, tools } = makeWorld();
    let isBroken = true;
    const charge = tool({
      ...tools.charge,
      toModelOutput: ({ output }) => {
        if (isBroken) throw new Error("no receipt");
        return { type: "text", value: `charged ${output.charged}` };
      },
    });
    const model = scripted(asksFor("charge"), says("paid"));
    const run = (how: "generate" | "stream") =>
      program(holdfast, async (d) => {
        const made = d.tools({ charge }, { charge: { effect } });
        const request = {
          model: d.model(model),
          tools: made,
          messages: await d.messages(pay),
          stopWhen: many,
        };
        if (how === "generate") return (await generateText(request)).text;
        return await streamText({ ...request, onError: () => undefined }).text;
      });
    await expect(run("generate")).rejects.toThrow("no receipt");
    await expect(run("stream")).rejects.toThrow();
    expect(model.doGenerateCalls).toHaveLength(1);
    isBroken = false;
    expect(await run("generate")).toBe("paid");
    expect(model.doGenerateCalls[1]?.prompt.at(-1)).toMatchObject({
      content: [{ output: { type: "text", value: "charged 1" } }],
    });
    expect(log).toEqual(["charge 1"]);
  },
);

test.each(["charge", "find"] as const)(
  "a store that fails while results are written ends the run, and the next run resumes (%s)",
  async (name) => {
    const holdfast = await freshHoldfast();
    const { log, tools } = makeWorld();
    const model = scripted(asksFor(name), says("paid"));
    await program(holdfast, async (d, session) => {
      const made = d.tools(tools, READS);
      const request = { model: d.model(model), tools: made, prompt: "Pay", stopWhen: many };
      const { own } = sessionCore(session);
      const commit = own.commit.bind(own);
      let commits = 0;
      const readOnly = new HoldfastError("STORE_READONLY", "the disk went away", { hint: "Mount it." });
      // The answer, the intent of a charge, and then the results. Those of a charge share its outcome's commit.
      const failing = name === "charge" ? 3 : 2;
      own.commit = ((...given: Parameters<typeof commit>) =>
        ++commits === failing ? Promise.reject(readOnly) : commit(...given)) as typeof commit;
      const code = name === "charge" ? "SESSION_HAS_OPEN_CALLS" : "STORE_READONLY";
      await expect(generateText(request)).rejects.toMatchObject({ code });
      expect(model.doGenerateCalls).toHaveLength(1);
      // The same program retries with the same handle.
      expect((await generateText(request)).text).toBe("paid");
    });
    expect(model.doGenerateCalls[1]?.prompt.at(-1)).toMatchObject({
      content: [{ output: { type: "json" } }],
    });
    expect(log).toEqual(name === "charge" ? ["charge 1"] : []);
  },
);

test("a finished call asks for no approval, so a failing approval check cannot fail it", async () => {
  const holdfast = await freshHoldfast();
  for (const effect of ["mutate", "read"] as const) {
    const { log, tools } = makeWorld();
    const run = (needsApproval: () => boolean, ...answers: Parameters<typeof scripted>) =>
      program(holdfast, async (d) => {
        const model = scripted(...answers);
        const made = d.tools({ charge: { ...tools.charge, needsApproval } }, { charge: { effect } });
        const messages = await d.messages({ id: effect, text: `Pay, ${effect}` });
        const { text } = await generateText({
          model: d.model(model),
          tools: made,
          messages,
          stopWhen: many,
        });
        return { text, told: model.doGenerateCalls[0]?.prompt.at(-1)?.content[0] };
      });
    const call = answer([toolCall(effect, "charge", { order: effect })]);
    await expect(run(() => true, call)).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
    await holdfast.calls.approve(effect, { by: "ann", why: "fine" });
    await expect(run(() => true, new Error("down"))).rejects.toThrow("down");
    const down = () => {
      throw new Error("the limits service is down");
    };
    expect(await run(down, says("paid"))).toMatchObject({
      text: "paid",
      told: { output: { type: "json", value: { charged: effect } } },
    });
    expect(log).toEqual([`charge ${effect}`]);
  }
});

test("a finished call keeps its identity if its arguments are repaired differently later", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const broken = answer([{ ...toolCall("c", "charge", {}), input: "{order: 1}" }]);
  const run = (order: string, ...answers: Parameters<typeof scripted>) =>
    program(holdfast, async (d) => {
      const model = scripted(...answers);
      await generateText({
        model: d.model(model),
        tools: d.tools(tools),
        messages: await d.messages(pay),
        stopWhen: many,
        experimental_repairToolCall: async ({ toolCall: call }) => ({
          ...call,
          input: JSON.stringify({ order }),
        }),
      });
      return model.doGenerateCalls[0]?.prompt.at(-1);
    });
  await expect(run("1", broken, new Error("down"))).rejects.toThrow("down");
  expect(await run("2", says("paid"))).toMatchObject({
    content: [{ output: { type: "json", value: { charged: "1" } } }],
  });
  expect(log).toEqual(["charge 1"]);
});

test("after a different repair, the recorded call is verified", async () => {
  const holdfast = await freshHoldfast();
  const broken = answer([{ ...toolCall("c", "charge", {}), input: "{order: 1}" }]);
  const verified: string[] = [];
  const run = (order: string, ...answers: Parameters<typeof scripted>) =>
    program(holdfast, async (d) => {
      let begun = (): void => undefined;
      const dies = new Promise<string>((resolve) => {
        begun = () => resolve("died while the charge was under way");
      });
      const charge = tool({
        inputSchema: z.object({ order: z.string() }),
        execute: (_args, { abortSignal }) => {
          begun();
          return new Promise<string>((_, reject) => {
            abortSignal?.addEventListener("abort", () => reject(new Error("stopped")));
          });
        },
      });
      const verify = ({ order: known }: { order: string }) => {
        verified.push(known);
        return landed("charged");
      };
      const paying = generateText({
        model: d.model(scripted(...answers)),
        tools: d.tools({ charge }, { charge: { verify } }),
        messages: await d.messages(pay),
        stopWhen: many,
        experimental_repairToolCall: async ({ toolCall: call }) => ({
          ...call,
          input: JSON.stringify({ order }),
        }),
      });
      return await Promise.race([
        dies,
        paying.then(
          ({ text }) => text,
          (error: unknown) => String(error),
        ),
      ]);
    });
  expect(await run("1", broken)).toContain("died");
  expect(await run("2", says("paid"))).toBe("paid");
  expect(verified).toEqual(["1"]);
});
