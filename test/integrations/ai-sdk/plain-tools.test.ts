// A durable model rejects tools that did not pass through `d.tools`.

import type { LanguageModelV3FunctionTool } from "@ai-sdk/provider";
import {
  dynamicTool,
  generateText,
  jsonSchema,
  stepCountIs,
  streamText,
  ToolLoopAgent,
  type ToolSet,
  tool,
  wrapLanguageModel,
} from "ai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Durable } from "../../../src/integrations/ai-sdk/index.ts";
import { answer, payingModel } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, READS, says, scripted, toolCall } from "./scripted-world.ts";

const stopWhen = stepCountIs(9);
const asksFor = (name: string) => answer([toolCall("c", name, { order: "1" })]);

describe("a tool that did not pass through d.tools", () => {
  test("is rejected by name before the model is asked, and nothing is recorded", async () => {
    const { log, tools } = makeWorld();
    const requests = {
      generate: (request: Parameters<typeof generateText>[0]) => generateText(request),
      stream: async (request: Parameters<typeof generateText>[0]) => {
        const errors: unknown[] = [];
        const { fullStream } = streamText({ ...request, onError: () => undefined } as never);
        for await (const part of fullStream) if (part.type === "error") errors.push(part.error);
        throw errors[0];
      },
      agent: ({ prompt, ...settings }: Parameters<typeof generateText>[0]) =>
        new ToolLoopAgent(settings as never).generate({ prompt: prompt as string }),
    };
    for (const ask of Object.values(requests)) {
      const holdfast = await freshHoldfast();
      const model = scripted(asksFor("charge"), says("paid"));
      await program(holdfast, async (d, session) => {
        const some = { ...d.tools({ find: tools.find }, READS), charge: tools.charge };
        await expect(
          ask({ model: d.model(model), tools: some, prompt: "Pay", stopWhen }),
        ).rejects.toMatchObject({
          code: "INPUT_INVALID",
          message: expect.stringMatching(/^tool charge: not passed through d\.tools/),
          hint: expect.stringContaining("d.tools({ charge })"),
        });
        expect(session.messages).toEqual([]);
      });
      expect([model.doGenerateCalls.length, model.doStreamCalls.length]).toEqual([0, 0]);
    }
    expect(log).toEqual([]);
  });

  test("is rejected also if the answer that calls it is recorded", async () => {
    const holdfast = await freshHoldfast();
    const { log, tools } = makeWorld();
    const pay = (given: (d: Durable) => ToolSet) =>
      program(holdfast, (d) =>
        generateText({
          model: d.model(scripted(asksFor("charge"), new Error("down"))),
          tools: given(d),
          prompt: "Pay",
          stopWhen,
        }),
      );
    await expect(pay((d) => d.tools({ charge: tools.charge }))).rejects.toThrow("down");
    await expect(pay(() => ({ charge: tools.charge }))).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect(log).toEqual(["charge 1"]);
  });

  test("a provider-defined tool that runs here is rejected when called, unless wrapped", async () => {
    const log: string[] = [];
    const bash = {
      type: "provider",
      id: "anthropic.bash_20250124",
      args: {},
      inputSchema: jsonSchema({ type: "object" }),
      execute: () => {
        log.push("bash");
        return "ok";
      },
    } as const;
    for (const how of ["generate", "stream"] as const) {
      const holdfast = await freshHoldfast();
      const run = (given: (d: Durable) => object) =>
        program(holdfast, async (d, session) => {
          const model = d.model(scripted(asksFor("bash"), says("done")));
          const request = { model, tools: given(d) as ToolSet, prompt: "Do", stopWhen };
          const text =
            how === "generate"
              ? (await generateText(request)).text
              : await streamText({ ...request, onError: () => undefined }).text;
          return [text, session.messages.length];
        });
      await expect(run(() => ({ bash }))).rejects.toThrow();
      expect(log).toEqual([]);
      expect(await run((d) => d.tools({ bash } as never))).toEqual(["done", 4]);
      expect(log.splice(0)).toEqual(["bash"]);
    }
  });
});

describe("still allowed", () => {
  const pay = async (
    given: (d: Durable) => ToolSet,
    name = "charge",
    more: (d: Durable) => object = () => ({}),
  ) => {
    const holdfast = await freshHoldfast();
    const model = scripted(asksFor(name), says("paid"));
    const { text } = await program(holdfast, (d) =>
      generateText({ model: d.model(model), tools: given(d), prompt: "Pay", stopWhen, ...more(d) }),
    );
    expect(text).toBe("paid");
    return model;
  };

  test("several d.tools, other names, dynamic and active tools, unchanged for the provider", async () => {
    const { log, tools } = makeWorld();
    const sent = async (...args: Parameters<typeof pay>) => {
      const model = await pay(...args);
      return model.doGenerateCalls[0]?.tools as LanguageModelV3FunctionTool[];
    };
    const cached = { anthropic: { cacheControl: { type: "ephemeral" } } };
    const charge = { ...tools.charge, providerOptions: cached };
    const both = await sent((d) => ({ ...d.tools({ find: tools.find }, READS), ...d.tools({ charge }) }));
    expect(both.map(({ name, providerOptions }) => [name, providerOptions])).toEqual([
      ["find", undefined],
      ["charge", cached],
    ]);
    await sent((d) => ({ debit: d.tools({ charge }).charge }), "debit");
    const dynamic = dynamicTool({ inputSchema: z.object({}), execute: () => log.push("dynamic") });
    await sent((d) => d.tools({ dynamic }), "dynamic");
    const mixed = (d: Durable): ToolSet => ({ ...d.tools({ charge }), mail: tools.mail });
    await sent(mixed, "charge", () => ({ activeTools: ["charge"] }));
    expect(log).toEqual(["charge 1", "charge 1", "dynamic", "charge 1"]);
  });

  test("middleware on either side; middleware that copies its tools inside d.model", async () => {
    const { log, tools } = makeWorld();
    const changing = (copy: (tool: object) => object) => ({
      specificationVersion: "v3" as const,
      transformParams: async ({ params }: { params: object }) => {
        const { tools: given, ...rest } = params as { tools?: object[] };
        return { ...rest, ...(given && { tools: given.map((each) => copy(each)) }) } as never;
      },
    });
    const clones = changing(structuredClone);
    const spreads = changing((tool) => ({ ...tool, providerOptions: { ...Object(tool).providerOptions } }));
    const holdfast = await freshHoldfast();
    const run = (outer: typeof clones) =>
      program(holdfast, (d) => {
        const inner = wrapLanguageModel({ model: payingModel(), middleware: clones });
        const model = wrapLanguageModel({ model: d.model(inner), middleware: outer });
        return generateText({ model, tools: d.tools(tools, READS), prompt: "Pay", stopWhen });
      });
    await expect(run(clones)).rejects.toMatchObject({
      code: "INPUT_INVALID",
      hint: expect.stringContaining("d.model(wrapLanguageModel({ model, middleware }))"),
    });
    expect(log).toEqual([]);
    expect((await run(spreads)).text).not.toBe("");
    expect(log).toEqual(["charge 4711", "mail ann"]);
  });

  test("a client-side tool through d.tools: its call is returned, and its result is recorded", async () => {
    const holdfast = await freshHoldfast();
    const locate = tool({ inputSchema: z.object({ order: z.string() }) }) as ToolSet[string];
    const model = scripted(asksFor("locate"), says("it is in Bonn"));
    await program(holdfast, async (d, session) => {
      const request = { model: d.model(model), tools: d.tools({ locate }) };
      const messages = await d.messages("Where is it?");
      const first = await generateText({ ...request, messages });
      expect(first.toolCalls).toMatchObject([{ toolName: "locate", input: { order: "1" } }]);
      const output = { type: "text", value: "Bonn" } as const;
      const result = { type: "tool-result", toolCallId: "c", toolName: "locate", output } as const;
      const said = [...messages, ...first.response.messages, { role: "tool" as const, content: [result] }];
      expect((await generateText({ ...request, messages: said })).text).toBe("it is in Bonn");
      expect(JSON.stringify(session.messages)).toContain("Bonn");
    });
  });

  test("tools that the provider runs need not pass through d.tools", async () => {
    const search = { type: "provider", id: "openai.web_search", args: {}, inputSchema: jsonSchema({}) };
    const ran = { ...toolCall("s", "search", {}), providerExecuted: true };
    const found = { type: "tool-result", toolCallId: "s", toolName: "search", result: "found" } as const;
    const holdfast = await freshHoldfast();
    const model = scripted(answer([ran, found, { type: "text", text: "found" }]));
    const { text } = await program(holdfast, (d) =>
      generateText({
        model: d.model(model),
        tools: { search } as unknown as ToolSet,
        prompt: "Find",
        stopWhen,
      }),
    );
    expect(text).toBe("found");
  });
});
