// The guarantees of `durable`, with a real store and the SDK's own mock models. A crash is simulated: the
// session is closed without notice and opened again. Real kills are in kills.test.ts.

import { APICallError } from "@ai-sdk/provider";
import { generateText, stepCountIs, streamText, ToolLoopAgent, tool } from "ai";
import { expect, test } from "vitest";
import { z } from "zod";
import { DefiniteFailure, landed, never, unsure } from "../../../src/index.ts";
import { callContext, type Durable, durable } from "../../../src/integrations/ai-sdk/index.ts";
import { answer, MockModel, payingModel, streamed } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, READS, says, scripted, toolCall } from "./scripted-world.ts";

const many = stepCountIs(9);

test("a finished run is answered from the record: same text, same ids, no question, no effect", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const pay = (model: MockModel) =>
    program(holdfast, (d) =>
      generateText({
        model: d.model(model),
        tools: d.tools(tools, READS),
        prompt: "Pay 4711",
        stopWhen: many,
      }),
    );
  const first = await pay(payingModel());
  const again = payingModel();
  const second = await pay(again);
  expect(again.doGenerateCalls).toHaveLength(0);
  expect(log).toEqual(["charge 4711", "mail ann"]);
  expect(second.response.messages).toEqual(first.response.messages);
  expect(second.steps.map(({ toolResults }) => toolResults)).toEqual(
    first.steps.map(({ toolResults }) => toolResults),
  );
  expect(second.totalUsage).toEqual(first.totalUsage);
});

test("a run of generateText is resumed by streamText, and the other way round", async () => {
  for (const order of [["generate", "stream"] as const, ["stream", "generate"] as const]) {
    const holdfast = await freshHoldfast();
    const { log, tools } = makeWorld();
    const texts: string[] = [];
    for (const how of order) {
      await program(holdfast, async (d) => {
        const request = {
          model: d.model(payingModel()),
          tools: d.tools(tools, READS),
          prompt: "Pay",
          stopWhen: many,
        };
        const steps = await (how === "stream"
          ? streamText(request).steps
          : (await generateText(request)).steps);
        texts.push(
          JSON.stringify(steps.map(({ text, reasoningText, toolCalls }) => [text, reasoningText, toolCalls])),
        );
      });
    }
    expect(texts[1]).toBe(texts[0]);
    expect(log).toEqual(["charge 4711", "mail ann"]);
  }
});

test("a streamed tool call starts only after the whole answer is durable; text is not buffered", async () => {
  const holdfast = await freshHoldfast();
  const events: string[] = [];
  await program(holdfast, async (d, session) => {
    const { tools } = makeWorld();
    const charge = {
      ...tools.charge,
      execute: () => {
        events.push(`charge, ${session.messages.filter(({ role }) => role === "assistant").length} recorded`);
        return "ok";
      },
    };
    let show: () => void = () => undefined;
    const shown = new Promise<void>((resolve) => {
      show = resolve;
    });
    // The model asks for the call once its text was read: a buffered text would never be.
    const waits = new TransformStream({
      async transform(part, controller) {
        if (part.type === "tool-input-start") await shown;
        controller.enqueue(part);
      },
    });
    const says = answer([{ type: "text", text: "I will" }, toolCall("c", "charge", { order: "1" })]);
    const model = new MockModel({ doStream: async () => ({ stream: streamed(says).pipeThrough(waits) }) });
    const { fullStream } = streamText({ model: d.model(model), tools: d.tools({ charge }), prompt: "Pay" });
    for await (const part of fullStream) {
      if (part.type !== "text-delta") continue;
      events.push(`text, ${session.messages.length} recorded`);
      show();
    }
  });
  expect(events[0]).toBe("text, 0 recorded");
  expect(events.slice(2)).toEqual(["charge, 1 recorded"]);
});

test("a stream that breaks records nothing, starts nothing, and is requested again", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const broken = (parts: object[]) =>
    new MockModel({
      doStream: async () => ({
        stream: new ReadableStream({
          start(controller) {
            for (const part of parts) controller.enqueue(part as never);
            controller.close();
          },
        }),
      }),
    });
  const call = toolCall("c", "charge", { order: "1" });
  const finish = { type: "finish", finishReason: { unified: "tool-calls" }, usage: answer([]).usage };
  for (const parts of [[call], [call, { type: "error", error: new Error("overloaded") }, finish]]) {
    await program(holdfast, async (d, session) => {
      const seen: unknown[] = [];
      const { fullStream } = streamText({
        model: d.model(broken(parts)),
        tools: d.tools(tools),
        prompt: "Pay",
        onError: () => undefined,
      });
      for await (const part of fullStream) if (part.type === "error") seen.push(part.error);
      expect(seen).toHaveLength(1);
      expect(session.messages).toEqual([]);
    });
  }
  expect(log).toEqual([]);
  const model = scripted(answer([call]), says("done"));
  const text = await program(
    holdfast,
    async (d) =>
      await streamText({ model: d.model(model), tools: d.tools(tools), prompt: "Pay", stopWhen: many }).text,
  );
  expect({ text, log }).toEqual({ text: "done", log: ["charge 1"] });
});

test("another prompt at a recorded position is rejected before the model is asked", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const pay = (model: MockModel, prompt: string) =>
    program(holdfast, (d) =>
      generateText({ model: d.model(model), tools: d.tools(tools, READS), prompt, stopWhen: many }),
    );
  await pay(payingModel(), "Pay order 4711");
  const model = payingModel();
  await expect(pay(model, "Pay order 4712")).rejects.toMatchObject({
    code: "PROMPT_DIVERGED",
    data: { run: "main", position: 0, sameMessages: 0 },
  });
  expect(model.doGenerateCalls).toHaveLength(0);
  expect(log).toEqual(["charge 4711", "mail ann"]);
});

test("after a provider error the SDK's retries record one answer, and the next run continues", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const overloaded = () =>
    new APICallError({
      message: "overloaded",
      url: "",
      requestBodyValues: {},
      statusCode: 529,
      responseHeaders: { "retry-after-ms": "1" },
      isRetryable: true,
    });
  const charge = answer([toolCall("c", "charge", { order: "1" })]);
  const pay = (model: MockModel, maxRetries: number) =>
    program(holdfast, async (d, session) => {
      const request = {
        model: d.model(model),
        tools: d.tools(tools),
        prompt: "Pay",
        stopWhen: many,
        maxRetries,
      };
      const result = await generateText(request).catch((error: Error) => error.message);
      return { text: typeof result === "string" ? result : result.text, messages: session.messages.length };
    });
  const first = scripted(overloaded(), charge, overloaded(), overloaded());
  expect(await pay(first, 1)).toMatchObject({ messages: 3 });
  expect(first.doGenerateCalls).toHaveLength(4);
  const second = scripted(says("paid"));
  expect(await pay(second, 0)).toEqual({ text: "paid", messages: 4 });
  expect(log).toEqual(["charge 1"]);
});

test("a program that catches the error and asks again in the same process resumes", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  await program(holdfast, async (d) => {
    const model = scripted(
      answer([toolCall("c", "charge", { order: "1" })]),
      new Error("the network is down"),
      says("paid"),
    );
    const request = { model: d.model(model), tools: d.tools(tools), prompt: "Pay", stopWhen: many };
    await expect(generateText(request)).rejects.toThrow("network");
    // It is answered from the record up to the failure, and the model is asked only from there.
    const { steps, text } = await generateText(request);
    expect(steps[0]?.toolCalls[0]?.toolCallId).toBe("c");
    expect(text).toBe("paid");
    expect(model.doGenerateCalls).toHaveLength(3);
  });
  expect(log).toEqual(["charge 1"]);
});

test("the same prompt twice in one run is rejected, because resuming could confuse them", async () => {
  const holdfast = await freshHoldfast();
  await program(holdfast, async (d) => {
    const model = scripted(says("one"), says("two"));
    const request = { model: d.model(model), prompt: "Say a number" };
    await generateText(request);
    await expect(generateText(request)).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
    expect(model.doGenerateCalls).toHaveLength(1);
  });
  const other = () =>
    program(
      holdfast,
      (d) => generateText({ model: d.model(scripted(says("two"))), prompt: "Say a number" }),
      { run: "second opinion" },
    );
  expect((await other()).text).toBe("two");
  expect((await other()).text).toBe("two");
});

test("two calls of generateText one after the other are resumed one after the other", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const both = (model: MockModel) =>
    program(holdfast, async (d, session) => {
      const request = { model: d.model(model), tools: d.tools(tools), stopWhen: many };
      const first = await generateText({ ...request, prompt: "Pay 1" });
      const second = await generateText({ ...request, prompt: `Pay 2 after ${first.text}` });
      const said = session.messages.map(({ role }) => role).join(" ");
      return { texts: [first.text, second.text], said };
    });
  const charge = (id: string, order: string) => answer([toolCall(id, "charge", { order })]);
  const died = scripted(charge("c", "1"), says("one"), charge("c", "2"), new Error("power cut"));
  await expect(both(died)).rejects.toThrow("power cut");
  const { texts, said } = await both(scripted(says("two")));
  expect(texts).toEqual(["one", "two"]);
  expect(said).toBe("user assistant tool assistant user assistant tool assistant");
  // The second answer reuses the first one's call id, as some providers do. It is still another call.
  expect(log).toEqual(["charge 1", "charge 2"]);
});

test("in a conversation each prompt is its own run, and history is the transcript", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const ask = (prompt: string | { id: string; text: string }, model: MockModel) =>
    program(holdfast, async (d) => {
      const messages = await d.messages(prompt);
      const { text } = await generateText({
        model: d.model(model),
        messages,
        tools: d.tools(tools),
        stopWhen: many,
      });
      return text;
    });
  const charge = answer([toolCall("c", "charge", { order: "1" })]);
  expect(await ask({ id: "p1", text: "Pay" }, scripted(charge, says("paid")))).toBe("paid");
  expect(await ask({ id: "p1", text: "Pay" }, scripted())).toBe("paid");
  const failing = scripted(answer([toolCall("e", "mail", { to: "ann", text: "hi" })]), new Error("down"));
  await expect(ask("And mail", failing)).rejects.toThrow("down");
  const model = scripted(says("mailed"));
  expect(await ask("And mail", model)).toBe("mailed");
  const roles = model.doGenerateCalls[0]?.prompt.map(({ role }) => role);
  expect(roles).toEqual(["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]);
  expect(log).toEqual(["charge 1", "mail ann"]);
  const session = await holdfast.session("order-4711");
  expect(session.messages.filter(({ role }) => role === "user")).toHaveLength(2);
});

test("after an undeclared tool throws, a person decides before the model is asked", async () => {
  const holdfast = await freshHoldfast();
  const { log } = makeWorld();
  const charge = tool({
    inputSchema: z.object({ order: z.string() }),
    execute: ({ order }): string => {
      log.push(`charge ${order}`);
      throw new Error("connection reset");
    },
  });
  const pay = (model: MockModel) =>
    program(holdfast, (d) =>
      generateText({ model: d.model(model), tools: d.tools({ charge }), prompt: "Pay", stopWhen: many }),
    );
  const first = scripted(answer([toolCall("c", "charge", { order: "1" })]), says("it failed, I try again"));
  await expect(pay(first)).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  const second = scripted(says("paid"));
  await expect(pay(second)).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  expect([first.doGenerateCalls.length, second.doGenerateCalls.length]).toEqual([1, 0]);
  await holdfast.calls.resolve("c", {
    outcome: "landed",
    result: "receipt 9",
    by: "ann",
    why: "seen in the bank",
  });
  const { text, steps } = await pay(second);
  expect(text).toBe("paid");
  expect(steps[0]?.toolResults[0]?.output).toBe("receipt 9");
  expect(log).toEqual(["charge 1"]);
});

test("a definite failure is reported to the model, with the same text after a crash", async () => {
  const holdfast = await freshHoldfast();
  const charge = tool({
    inputSchema: z.object({ order: z.string() }),
    execute: (): string => {
      throw new DefiniteFailure("card declined");
    },
  });
  const pay = (model: MockModel) =>
    program(holdfast, (d) =>
      generateText({ model: d.model(model), tools: d.tools({ charge }), prompt: "Pay", stopWhen: many }),
    );
  const call = answer([toolCall("c", "charge", { order: "1" })]);
  await expect(pay(scripted(call, new Error("down")))).rejects.toThrow("down");
  const model = scripted(says("declined"));
  expect((await pay(model)).text).toBe("declined");
  expect(JSON.stringify(model.doGenerateCalls[0]?.prompt.at(-1))).toContain("card declined");
});

test("a call waits for approval, runs once if approved, and not if refused", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const charge = { ...tools.charge, needsApproval: ({ order }: { order: string }) => order !== "free" };
  const idempotent = { charge: { idempotent: true, verify: () => never() } } as const;
  const pay = (model: MockModel) =>
    program(holdfast, (d) =>
      generateText({
        model: d.model(model),
        tools: d.tools({ charge }, idempotent),
        prompt: "Pay",
        stopWhen: many,
      }),
    );
  const calls = ["a", "b", "free"].map((order) => toolCall(`c-${order}`, "charge", { order }));
  const first = pay(scripted(answer(calls), says("all done")));
  await expect(first).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  expect(log).toEqual(["charge free"]);
  const waiting = await holdfast.calls.list();
  expect(waiting.calls.map(({ callId, status }) => `${callId} ${status}`).sort()).toEqual([
    "c-a waiting",
    "c-b waiting",
  ]);
  await holdfast.calls.approve("c-a", { by: "ann" });
  await holdfast.calls.deny("c-b", { by: "ann", why: "too much" });
  const model = scripted(says("one of two"));
  expect((await pay(model)).text).toBe("one of two");
  expect(log).toEqual(["charge free", "charge a"]);
  expect(JSON.stringify(model.doGenerateCalls[0]?.prompt.at(-1))).toContain("too much");
});

test("identical parallel calls run once, and the model reads that the second is a repeat", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const slow = {
    ...tools.charge,
    execute: async ({ order }: { order: string }) => {
      await new Promise((resolve) => setImmediate(resolve));
      log.push(`charge ${order}`);
      return "ok";
    },
  };
  const model = scripted(
    answer(["a", "b", "c"].map((id) => toolCall(id, "charge", { order: "1" }))),
    says("done"),
  );
  await program(holdfast, (d) =>
    generateText({ model: d.model(model), tools: d.tools({ charge: slow }), prompt: "Pay", stopWhen: many }),
  );
  expect(log).toEqual(["charge 1"]);
  expect(JSON.stringify(model.doGenerateCalls[1]?.prompt.at(-1)).match(/not run again/g)).toHaveLength(2);
});

test("a read with a different result each time does not change a resumed prompt", async () => {
  const holdfast = await freshHoldfast();
  let reads = 0;
  const clock = tool({ inputSchema: z.object({}), execute: () => ({ now: ++reads }) });
  const look = tool({
    inputSchema: z.object({}),
    execute: () => `look ${++reads}`,
    toModelOutput: ({ output }) => ({ type: "content", value: [{ type: "text", text: `seen: ${output}` }] }),
  });
  const run = (model: MockModel) =>
    program(holdfast, (d) =>
      generateText({
        model: d.model(model),
        tools: d.tools({ clock, look }, { clock: { effect: "read" }, look: { effect: "read" } }),
        prompt: "When?",
        stopWhen: many,
      }),
    );
  const both = answer([toolCall("c", "clock", {}), toolCall("l", "look", {})]);
  await expect(run(scripted(both, answer([toolCall("d", "clock", {})]), new Error("down")))).rejects.toThrow(
    "down",
  );
  expect(reads).toBe(3);
  const { steps } = await run(scripted(says("noon")));
  expect(reads).toBe(3);
  expect(steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output))).toEqual([
    { now: 1 },
    "look 2",
    { now: 3 },
  ]);
});

test("calls that the SDK itself rejects are recorded, and the conversation continues", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const run = (model: MockModel) =>
    program(holdfast, (d) =>
      generateText({ model: d.model(model), tools: d.tools(tools), prompt: "Pay", stopWhen: many }),
    );
  const calls = answer([
    { type: "tool-call", toolCallId: "x", toolName: "charge", input: "{not json" },
    toolCall("y", "nothing", {}),
    toolCall("z", "charge", { order: "1" }),
  ]);
  await expect(run(scripted(calls, says("half"), new Error("never asked")))).resolves.toMatchObject({
    text: "half",
  });
  expect((await run(scripted())).text).toBe("half");
  expect(log).toEqual(["charge 1"]);
  const session = await holdfast.session("order-4711");
  const results = session.messages.find(({ role }) => role === "tool")?.blocks;
  expect(results).toMatchObject([{ isError: true }, { isError: true }, { callId: "z" }]);
});

test("an answer with unrun tools is finished before a new prompt", async () => {
  const holdfast = await freshHoldfast();
  const client = tool({ inputSchema: z.object({}), outputSchema: z.string() });
  await program(holdfast, async (d) => {
    const tools = d.tools({ client });
    const model = d.model(scripted(answer([toolCall("c", "client", {})]), says("hello")));
    await generateText({ model, tools, messages: await d.messages("Ask the client") });
    const { text } = await generateText({ model, tools, messages: await d.messages("Never mind") });
    expect(text).toBe("hello");
  });
});

test("the vendor key reaches the tool and stays the same after an interrupted attempt", async () => {
  const holdfast = await freshHoldfast();
  const keys: string[] = [];
  const charge = tool({
    inputSchema: z.object({ order: z.string() }),
    execute: (_args, options): string => {
      keys.push(callContext(options).key);
      if (keys.length === 1) throw new Error("reset");
      return "charged";
    },
  });
  const verify = () => (keys.length > 1 ? landed("charged") : never());
  const { text } = await program(holdfast, (d) =>
    generateText({
      model: d.model(scripted(answer([toolCall("c", "charge", { order: "1" })]), says("ok"))),
      tools: d.tools({ charge }, { charge: { verify } }),
      prompt: "Pay",
      stopWhen: many,
    }),
  );
  expect(text).toBe("ok");
  expect(keys).toHaveLength(2);
  expect(new Set(keys).size).toBe(1);
});

test("resumed.settled names the interrupted calls that durable tools settled, and no others", async () => {
  const holdfast = await freshHoldfast();
  let charges = 0;
  let bothCharge: () => void = () => undefined;
  const charging = new Promise<void>((resolve) => {
    bothCharge = resolve;
  });
  const charge = tool({
    inputSchema: z.object({ order: z.string() }),
    execute: (_args, { abortSignal }): Promise<string> => {
      charges += 1;
      if (charges === 2) bothCharge();
      return new Promise((_resolve, reject) => {
        abortSignal?.addEventListener("abort", () => reject(new Error("cut off")));
      });
    },
  });
  const verify = ({ order }: { order: string }) => (order === "1" ? landed("charged") : unsure("no list"));
  const pay = (d: Durable, model: MockModel) =>
    generateText({
      model: d.model(model),
      tools: d.tools({ charge }, { charge: { verify } }),
      prompt: "Pay",
      stopWhen: many,
    }).then(
      () => "answered",
      () => "cut off",
    );
  const killed = await holdfast.session("order-4711");
  const asked = ["1", "2"].map((order) => toolCall(`c${order}`, "charge", { order }));
  const run = pay(durable(killed), scripted(answer(asked)));
  await charging;
  await killed.close();
  expect(await run).toBe("cut off");
  await program(holdfast, async (d, session) => {
    expect(session.resumed?.interrupted.toSorted()).toEqual(["c1", "c2"]);
    expect(session.resumed?.settled).toEqual([]);
    expect(await pay(d, scripted(says("paid"))), "c2 waits for a person").toBe("cut off");
    expect(session.resumed?.settled).toEqual(["c1"]);
  });
  expect(charges).toBe(2);
});

test("the model is not asked in a cancelled session or without budget", async () => {
  const holdfast = await freshHoldfast();
  const model = scripted(says("one"), says("two"), says("three"));
  const prices = { "mock-model": { input: 100_000, output: 0 } };
  await program(
    holdfast,
    async (d, session) => {
      await session.limit({ usd: 0.9 });
      await generateText({ model: d.model(model), prompt: "one" });
      expect(session.budget.spent).toEqual({ usd: 1, tokens: 15, turns: 1 });
      const over = generateText({ model: d.model(model), prompt: "two" });
      await expect(over).rejects.toMatchObject({ code: "BUDGET_EXCEEDED" });
      await session.limit({ usd: 9 });
      await holdfast.sessions.cancel("order-4711", { by: "ann", why: "enough" });
      const late = generateText({ model: d.model(model), prompt: "two" });
      await expect(late).rejects.toMatchObject({ code: "SESSION_ENDED" });
    },
    { prices },
  );
  expect(model.doGenerateCalls).toHaveLength(1);
});

test("a dollar limit without a price: an error after the first answer, which is recorded", async () => {
  const holdfast = await freshHoldfast();
  const model = scripted(says("one"), says("two"));
  await program(holdfast, async (d, session) => {
    await session.limit({ usd: 1 });
    const asked = generateText({ model: d.model(model), prompt: "one" });
    await expect(asked).rejects.toMatchObject({ code: "BUDGET_UNIT_UNKNOWN", data: { unit: "usd" } });
    expect(session.budget.spent).toEqual({ tokens: 15, turns: 1 });
  });
  await program(holdfast, async (d, session) => {
    expect((await generateText({ model: d.model(model), prompt: "one" })).text).toBe("one");
    expect(session.budget.spent).toEqual({ tokens: 15, turns: 1 });
  });
  expect(model.doGenerateCalls).toHaveLength(1);
});

test("two parallel questions on one handle are rejected; after an abort the next is accepted", async () => {
  const holdfast = await freshHoldfast();
  await program(holdfast, async (d, session) => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const model = new MockModel({
      doGenerate: async ({ prompt }) => {
        const isSlow = JSON.stringify(prompt).includes("slow");
        if (isSlow) await released;
        return says(isSlow ? "too late" : "in time");
      },
    });
    const abort = new AbortController();
    const slow = generateText({ model: d.model(model), prompt: "slow", abortSignal: abort.signal });
    const side = generateText({ model: d.model(model), prompt: "side by side" });
    await expect(side).rejects.toMatchObject({ code: "INPUT_INVALID" });
    abort.abort(new Error("too slow"));
    const { text } = await generateText({ model: d.model(model), prompt: "quick" });
    release();
    // The answer to the abandoned question arrives late. It is not recorded, and no caller gets it.
    await expect(slow).rejects.toMatchObject({ code: "STATE_STALE" });
    expect(text).toBe("in time");
    expect(session.messages).toHaveLength(2);
  });
});

test("agents are resumed", async () => {
  const holdfast = await freshHoldfast();
  const { log, tools } = makeWorld();
  const run = (model: MockModel) =>
    program(holdfast, (d) =>
      new ToolLoopAgent({
        model: d.model(model),
        tools: d.tools(tools, READS),
        instructions: "Pay.",
      }).generate({
        prompt: "Pay 4711",
      }),
    );
  expect((await run(payingModel())).text).toBe("paid 3");
  expect((await run(payingModel())).text).toBe("paid 3");
  expect(log).toEqual(["charge 4711", "mail ann"]);
});
