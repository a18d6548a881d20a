// A call that needs approval has not run: its state, and the answers that a person can give.

import { join } from "node:path";
import { generateText, stepCountIs, tool } from "ai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { open } from "../../../src/index.ts";
import { durable } from "../../../src/integrations/ai-sdk/index.ts";
import { CommandLine, type Ran } from "../../cli/command-line.ts";
import { runInside } from "../../cli/inside.ts";
import { answer } from "./paying-model.ts";
import { says, scripted, toolCall } from "./scripted-world.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

const refunded: string[] = [];
const refund = tool({
  inputSchema: z.object({ order: z.string() }),
  needsApproval: true,
  execute: ({ order }): string => {
    refunded.push(order);
    throw new Error("the line went dead");
  },
});

/** One start of the program that refunds two orders. */
async function start(): Promise<string> {
  const holdfast = await open(join(line.project, ".holdfast"));
  try {
    const session = await holdfast.session("refunds");
    const d = durable(session);
    const calls = ["a1", "b2"].map((id) => toolCall(id, "refund", { order: id }));
    const model = scripted(...(session.messages.length === 0 ? [answer(calls)] : []), says("done"));
    const { steps } = await generateText({
      model: d.model(model),
      tools: d.tools({ refund }),
      messages: await d.messages({ id: "p", text: "Refund" }),
      stopWhen: stepCountIs(4),
    });
    return JSON.stringify(steps.map(({ response }) => response.messages));
  } finally {
    await holdfast.close();
  }
}

const ann = ["--by", "ann", "--why", "I know them"];
const run = (...words: string[]): Promise<Ran> => runInside(line.project, words);

test("an unapproved call cannot have landed, runs once approved, and fails once denied", async () => {
  const openCalls = { code: "SESSION_HAS_OPEN_CALLS" };
  await expect(start()).rejects.toMatchObject(openCalls);
  const page = (await run("calls")).out;
  expect(page).toMatch(/^ {2}refund needs approval/m);
  expect(page).not.toContain("it threw");
  expect(page).toMatch(/let it run: +holdfast approve a1\n.*refuse it: +holdfast deny a1\n/);
  const before = (await run("session", "show", "refunds", "--json")).out;

  const landed = await run("resolve", "a1", "landed", "--result", '"done"', ...ann);
  expect(landed.code).not.toBe(0);
  expect(landed.err).toContain("call a1 of session refunds has not been run");
  expect(landed.err).toMatch(/holdfast approve a1.*holdfast deny a1/);
  const holdfast = await open(join(line.project, ".holdfast"));
  const said = { outcome: "landed", by: "ann", why: "no" } as const;
  await expect(holdfast.calls.resolve("a1", said)).rejects.toMatchObject({ code: "CALL_TRANSITION" });
  await holdfast.close();
  expect((await run("session", "show", "refunds", "--json")).out).toBe(before);

  expect((await run("approve", "a1", ...ann)).code).toBe(0);
  expect((await run("deny", "b2", ...ann)).code).toBe(0);
  await expect(start()).rejects.toMatchObject(openCalls);
  expect(refunded).toEqual(["a1"]);

  // The call has started now, and its outcome is unknown: it may have landed.
  const ways = (await run("calls")).out.match(/holdfast resolve .*/g);
  expect(ways).toEqual(["landed", "retry", "failed"].map((each) => `holdfast resolve a1 ${each}`));
  expect((await run("resolve", "a1", "landed", "--result", '"receipt"', ...ann)).code).toBe(0);
  const told = await start();
  expect(told).toContain("receipt");
  expect(told).toContain("I know them");
  expect(refunded).toEqual(["a1"]);
});
