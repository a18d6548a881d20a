// Hazards of a run: tools without their model, runs in between, parallel handles, changed texts.

import { generateText, type ModelMessage, stepCountIs, tool } from "ai";
import { expect, test } from "vitest";
import { z } from "zod";
import { type DurableOptions, durable } from "../../../src/integrations/ai-sdk/index.ts";
import { answer, type MockModel } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, says, scripted, toolCall } from "./scripted-world.ts";

const many = stepCountIs(9);

test("durable tools with a plain model are rejected, because a rerun would repeat effects", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const { steps } = await program(holdfast, (d) =>
    generateText({
      model: scripted(answer([toolCall("c", "charge", { order: "1" })])),
      tools: d.tools(tools),
      prompt: "Pay",
    }),
  );
  expect(log).toEqual([]);
  expect(String(steps[0]?.content.find((part) => part.type === "tool-error")?.error)).toContain(
    "no recorded answer asks for it",
  );
});

test("a call that was closed by a new prompt does not run later", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const call = answer([toolCall("c", "charge", { order: "1" })]);
  // The run stops between the answer and its call, as if it had been killed there.
  const cut = scripted({ ...call, finishReason: { unified: "length", raw: undefined } });
  await program(holdfast, (d) => generateText({ model: d.model(cut), tools: d.tools(tools), prompt: "Pay" }));
  await program(
    holdfast,
    (d) => generateText({ model: d.model(scripted(says("hello"))), prompt: "Something else" }),
    { run: "other" },
  );
  await program(holdfast, async (d) => {
    // The recorded answer is replayed and its tool is started directly, as the SDK does after a resume.
    await generateText({ model: d.model(scripted()), tools: d.tools(tools), prompt: "Pay" });
    const { charge } = d.tools(tools);
    const late = charge.execute?.({ order: "1" }, { toolCallId: "c", messages: [] });
    await expect(late).rejects.toThrow("this call was not run");
  });
  expect(log).toEqual([]);
});

test("with the SDK's own approvals the call runs once, also after a crash", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const charge = { ...tools.charge, needsApproval: true };
  const run = (model: MockModel) =>
    program(
      holdfast,
      async (d) => {
        const request = { model: d.model(model), tools: d.tools({ charge }), stopWhen: many };
        const asked: ModelMessage[] = [{ role: "user", content: "Pay" }];
        const first = await generateText({ ...request, messages: asked });
        const approvals = first.content.flatMap((part) =>
          part.type === "tool-approval-request"
            ? [{ type: "tool-approval-response" as const, approvalId: part.approvalId, approved: true }]
            : [],
        );
        const messages: ModelMessage[] = [
          ...asked,
          ...first.response.messages,
          { role: "tool", content: approvals },
        ];
        return generateText({ ...request, messages });
      },
      { approvals: "sdk" },
    );
  const call = answer([toolCall("c", "charge", { order: "1" })]);
  await expect(run(scripted(call, new Error("down")))).rejects.toThrow("down");
  expect((await run(scripted(says("paid")))).text).toBe("paid");
  expect((await run(scripted())).text).toBe("paid");
  expect(log).toEqual(["charge 1"]);
});

test("a changed system text is another prompt, unless ignoreSystem is set", async () => {
  const holdfast = await freshHoldfast();
  const run = (system: string, options: DurableOptions) =>
    program(
      holdfast,
      (d) => generateText({ model: d.model(scripted(says("hello"))), system, prompt: "Hi" }),
      options,
    );
  await run("It is Monday", { run: "strict" });
  await expect(run("It is Tuesday", { run: "strict" })).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
  const lax = { run: "lax", ignoreSystem: true };
  await run("It is Monday", lax);
  expect((await run("It is Tuesday", lax)).text).toBe("hello");
});

test("two handles of one process on one run see each other's turns", async () => {
  const holdfast = await freshHoldfast();
  await program(holdfast, async (first, session) => {
    const second = durable(session);
    const model = scripted(says("one"));
    await generateText({ model: first.model(model), prompt: "Hi" });
    expect((await generateText({ model: second.model(model), prompt: "Hi" })).text).toBe("one");
    expect(model.doGenerateCalls).toHaveLength(1);
  });
});

test("a compacted run is rejected, and its model is not asked again", async () => {
  const holdfast = await freshHoldfast();
  await program(holdfast, (d) => generateText({ model: d.model(scripted(says("one"))), prompt: "Hi" }));
  await program(holdfast, async (_d, session) => {
    await session.compact([]);
    const model = scripted(says("two"));
    const again = generateText({ model: durable(session).model(model), prompt: "Hi" });
    await expect(again).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
    expect(model.doGenerateCalls).toHaveLength(0);
  });
});

test("an interrupted call whose tool the next program lacks waits for a person", async () => {
  const holdfast = await freshHoldfast();
  const call = answer([toolCall("c", "charge", { order: "1" })]);
  await program(holdfast, async (d, session) => {
    const entered = new Promise<void>((resolve) => {
      const charge = tool({
        inputSchema: z.object({ order: z.string() }),
        execute: (_args, { abortSignal }) => {
          resolve();
          return new Promise<string>((_, reject) => {
            abortSignal?.addEventListener("abort", () => reject(new Error("stopped")));
          });
        },
      });
      const request = { model: d.model(scripted(call)), tools: d.tools({ charge }), prompt: "Pay" };
      generateText({ ...request, stopWhen: many }).catch(() => undefined);
    });
    await entered;
    await session.close();
  });
  const run = (model: MockModel) =>
    program(holdfast, (d) =>
      generateText({ model: d.model(model), tools: d.tools({}), prompt: "Pay", stopWhen: many }),
    );
  await expect(run(scripted())).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  const { calls } = await holdfast.calls.list();
  expect(calls).toMatchObject([{ callId: "c", status: "waiting" }]);
  await holdfast.calls.resolve("c", { outcome: "landed", result: "receipt", by: "ann", why: "seen" });
  expect((await run(scripted(says("paid")))).text).toBe("paid");
});

test("every actionable part of a stream arrives after the answer is durable, in order", async () => {
  const holdfast = await freshHoldfast();
  await program(holdfast, async (_d, session) => {
    const content = [
      { type: "text", text: "before" } as const,
      toolCall("c", "charge", { order: "1" }),
      { type: "text", text: "after" } as const,
    ];
    const read = async (): Promise<string[]> => {
      const model = durable(session).model(scripted(answer(content)));
      const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Pay" }] }];
      const { stream } = await model.doStream({ prompt });
      const seen: string[] = [];
      for await (const { type } of stream) {
        const stored = session.messages.some(({ role }) => role === "assistant") ? "stored" : "not stored";
        if (/^text-start|^tool-call|^finish/.test(type)) seen.push(`${type} ${stored}`);
      }
      return seen;
    };
    expect(await read()).toEqual([
      "text-start not stored",
      "tool-call stored",
      "text-start stored",
      "finish stored",
    ]);
    expect(await read()).toEqual(
      ["text-start", "tool-call", "text-start", "finish"].map((type) => `${type} stored`),
    );
  });
});
