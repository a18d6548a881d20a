// What AI SDK 7 adds, with its own mock models of spec v4. Runs with HOLDFAST_AI_SDK=7. The types are those of
// version 6, so options that only 7 has are passed as objects.

import * as sdk from "ai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Holdfast } from "../../../src/index.ts";
import {
  callContext,
  type Durable,
  type DurableOptions,
  fromAiSdk,
  fromModelMessages,
  toModelMessages,
} from "../../../src/integrations/ai-sdk/index.ts";
import { answer, IS_SDK_7, MockModel } from "./paying-model.ts";
import { freshHoldfast, makeWorld, program, says, scripted, toolCall } from "./scripted-world.ts";

const stopWhen = stepCountIs(9);
const PNG = "iVBORw0KGgo=";
const HAS_OPEN_CALLS = { code: "SESSION_HAS_OPEN_CALLS" };

const asksFor = (name: string, input: object = { order: "1" }) => answer([toolCall("c", name, input)]);

/** One execution of a program that pays, with options of AI SDK 7. */
function pay(
  holdfast: Holdfast,
  model: MockModel,
  request: (d: Durable) => object,
  options: DurableOptions = {},
) {
  return program(
    holdfast,
    (d) => generateText({ prompt: "Pay", stopWhen, ...request(d), model: d.model(model) } as never),
    options,
  );
}

describe.runIf(IS_SDK_7)("files", () => {
  const url = new URL(`data:image/png;base64,${PNG}`);
  const parts = [
    { type: "file", mediaType: "image/png", data: { type: "data", data: PNG } },
    { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array([1, 2, 3]) } },
    { type: "reasoning-file", mediaType: "image/png", data: { type: "data", data: PNG } },
    { type: "custom", kind: "mock.note", providerMetadata: { mock: { note: "kept" } } },
    {
      type: "text",
      text: "here",
      citations: [{ source: { type: "source", sourceType: "url", id: "s", url: "https://x.test" } }],
    },
  ];
  const byUrl = [{ type: "file", mediaType: "image/png", data: { type: "url", url } }];

  test.each([
    ["generateText", parts],
    ["streamText", parts],
    ["generateText", byUrl],
  ] as const)("%s gives generated files live and again from the record", async (how, content) => {
    const holdfast = await freshHoldfast();
    const model = scripted(answer(content as never));
    const given = (): Promise<string> =>
      program(holdfast, async (d) => {
        const request = { model: d.model(model), prompt: "Draw" };
        const result = how === "streamText" ? streamText(request) : await generateText(request);
        const files = (await result.files).map(({ base64 }) => base64);
        return JSON.stringify([files, (await result.steps).map((step) => step.content)]);
      });
    const live = await given();
    expect(live).toContain(PNG);
    expect(await given()).toBe(live);
    expect(model.doGenerateCalls.length + model.doStreamCalls.length).toBe(1);
  });

  test("a prompt and a tool result with tagged files survive the record unchanged", async () => {
    const holdfast = await freshHoldfast();
    const file = (data: object) => ({ type: "file", mediaType: "image/png", data }) as never;
    const bytes = { type: "data", data: new Uint8Array([1, 2, 3]) };
    const tagged = [
      bytes,
      { type: "data", data: PNG },
      { type: "url", url: new URL("https://x.test/a.png") },
      { type: "reference", reference: { openai: "file-1" } },
      { type: "text", text: "a document" },
    ];
    const output = { type: "content", value: tagged.map(file) };
    const messages = [
      { role: "user", content: tagged.map(file) },
      { role: "assistant", content: [{ type: "tool-call", toolCallId: "c", toolName: "look", input: {} }] },
      { role: "tool", content: [{ type: "tool-result", toolCallId: "c", toolName: "look", output }] },
    ] as sdk.ModelMessage[];
    const session = await holdfast.session("s");
    await session.append(await fromModelMessages(messages, holdfast));
    const back = await toModelMessages(session.messages, holdfast);
    expect(back).toEqual(messages);
    expect(JSON.stringify(session.messages)).not.toContain('"0":1');

    const model = new MockModel({ doGenerate: async () => says("seen") });
    await session.run({ model: fromAiSdk(model, { artifacts: holdfast }), tools: [], prompt: "And?" });
    const sent = model.doGenerateCalls[0]?.prompt as unknown as { content: { data: object }[] }[];
    expect(sent[0]?.content.map(({ data }) => data)).toEqual(tagged);
    expect(sent[2]).toEqual(messages[2]);
  });

  test("a file recorded with a model of spec v3 is replayed for one of v4, and the other way round", async () => {
    const { MockLanguageModelV3 } = (await import("ai/test")) as { MockLanguageModelV3: typeof MockModel };
    const v3 = { type: "file", mediaType: "image/png", data: PNG };
    const v4 = { ...v3, data: { type: "data", data: PNG } };
    for (const [first, second, content] of [
      [MockLanguageModelV3, MockModel, v3],
      [MockModel, MockLanguageModelV3, v4],
    ] as const) {
      const holdfast = await freshHoldfast();
      const draw = async (Model: typeof MockModel): Promise<string[]> =>
        program(holdfast, async (d) => {
          const model = d.model(new Model({ doGenerate: async () => answer([content] as never) }));
          return (await generateText({ model, prompt: "Draw" })).files.map(({ base64 }) => base64);
        });
      expect(await draw(first)).toEqual([PNG]);
      expect(await draw(second)).toEqual([PNG]);
    }
  });
});

describe.runIf(IS_SDK_7)("toolApproval", () => {
  test("a call that needs a person waits in the queue, and runs once when approved", async () => {
    const holdfast = await freshHoldfast();
    const { log, tools } = makeWorld();
    const rule = { charge: { type: "user-approval", reason: "a lot" } };
    const run = (model: MockModel, isWrapped = true) =>
      pay(holdfast, model, (d) => ({
        tools: d.tools({ charge: tools.charge }),
        ...(isWrapped && { toolApproval: d.toolApproval(rule) }),
        // Without effect here: no client carries the answer, so there is nothing to sign.
        experimental_toolApprovalSecret: "secret",
      }));
    await expect(run(scripted(asksFor("charge")))).rejects.toMatchObject(HAS_OPEN_CALLS);
    const why = "charge needs approval: a lot";
    expect((await holdfast.calls.list()).calls).toMatchObject([{ callId: "c", status: "waiting", why }]);
    // A program that has lost the rule does not run it either.
    await expect(run(scripted(), false)).rejects.toMatchObject(HAS_OPEN_CALLS);
    expect(log).toEqual([]);
    await holdfast.calls.approve("c", { by: "ann" });
    expect((await run(scripted(says("paid")))).text).toBe("paid");
    expect(log).toEqual(["charge 1"]);
  });

  test("rules get the call and its contexts, decide over needsApproval, and deny by themselves", async () => {
    const seen: unknown[] = [];
    const { log, tools } = makeWorld();
    const charge = Object.assign(
      { ...tools.charge, needsApproval: true },
      { contextSchema: z.object({ shop: z.string() }) },
    );
    const contexts = { runtimeContext: { user: "ann" }, toolsContext: { charge: { shop: "s" } } };
    const byTool = {
      charge: (input: unknown, { toolContext, runtimeContext, toolCallId }: Record<string, unknown>) => {
        seen.push([input, toolContext, runtimeContext, toolCallId]);
        return "not-applicable";
      },
    };
    const forAll = ({ toolCall }: { toolCall: { toolName: string } }) =>
      toolCall.toolName === "charge" ? { type: "denied", reason: "closed" } : undefined;
    const run = async (rule: object) =>
      pay(await freshHoldfast(), scripted(asksFor("charge"), says("done")), (d) => ({
        ...contexts,
        tools: d.tools({ charge }),
        toolApproval: d.toolApproval(rule),
      }));
    expect((await run(byTool)).text).toBe("done");
    expect(seen).toEqual([[{ order: "1" }, { shop: "s" }, { user: "ann" }, "c"]]);
    expect(log).toEqual(["charge 1"]);
    expect(JSON.stringify((await run(forAll)).steps)).toContain("closed");
    expect(log).toEqual(["charge 1"]);
  });
});

describe.runIf(IS_SDK_7)("signed approvals of the SDK", () => {
  const { log, tools } = makeWorld();
  type Parts = { type: string; approvalId: string; signature?: string }[];

  /** Asks, and answers its own approval request as a client would that may change the request's parts. */
  const run = (
    holdfast: Holdfast,
    model: MockModel,
    sign: (given: string | undefined) => string | undefined,
  ) =>
    program(
      holdfast,
      async (d) => {
        const request = {
          model: d.model(model),
          tools: d.tools({ charge: tools.charge }),
          toolApproval: d.toolApproval({ charge: "user-approval" }),
          experimental_toolApprovalSecret: "secret",
          stopWhen,
        };
        const asked = { role: "user", content: "Pay" };
        const first = await generateText({ ...request, messages: [asked] } as never);
        const sent = first.response.messages.map((message) => ({
          ...message,
          content: (message.content as unknown as Parts).map((part) =>
            part.type === "tool-approval-request" ? { ...part, signature: sign(part.signature) } : part,
          ),
        }));
        const approvals = sent
          .flatMap(({ content }) => content)
          .filter(({ type }) => type === "tool-approval-request")
          .map(({ approvalId }) => ({ type: "tool-approval-response", approvalId, approved: true }));
        expect(approvals).toHaveLength(1);
        const messages = [asked, ...sent, { role: "tool", content: approvals }];
        return generateText({ ...request, messages } as never);
      },
      { approvals: "sdk" },
    );

  test.each([
    ["without its signature", () => undefined],
    ["with another signature", () => "AAAA"],
  ])("a response to a request %s ends the run, and the ledger has no call", async (_, forge) => {
    const holdfast = await freshHoldfast();
    const forged = run(holdfast, scripted(asksFor("charge"), says("paid")), forge);
    await expect(forged).rejects.toThrow(/signature/);
    expect(log).toEqual([]);
    expect((await holdfast.calls.list()).calls).toEqual([]);
  });

  test("a signed response lets the call run once, also after a crash", async () => {
    const holdfast = await freshHoldfast();
    const keep = (given: string | undefined) => {
      expect(given).toEqual(expect.any(String));
      return given;
    };
    await expect(run(holdfast, scripted(asksFor("charge"), new Error("down")), keep)).rejects.toThrow("down");
    expect((await run(holdfast, scripted(says("paid")), keep)).text).toBe("paid");
    expect(log).toEqual(["charge 1"]);
  });
});

describe.runIf(IS_SDK_7)("tools that call tools", () => {
  /** Runs a script of calls, as code that a model wrote would. */
  const scriptTool = (calls: readonly string[]) =>
    Reflect.get(sdk, "experimental_toolCaller")(
      tool({ inputSchema: z.object({}), execute: () => "unbound" }),
      {
        type: "local",
        bind: (tools: sdk.ToolSet) =>
          tool({
            description: `calls ${Object.keys(tools).join(", ")}`,
            inputSchema: z.object({}),
            execute: async (_input, options) => {
              const results: unknown[] = [];
              for (const [index, order] of calls.entries()) {
                const own = { ...options, toolCallId: `${options.toolCallId}:tool-${index}` };
                results.push(await tools["charge"]?.execute?.({ order } as never, own));
              }
              return results;
            },
          }),
      },
    ) as sdk.ToolSet[string];

  test("calls that a tool makes are in the ledger, and each runs once though the tool runs again", async () => {
    const holdfast = await freshHoldfast();
    const world: string[] = [];
    const charge = tool({
      inputSchema: z.object({ order: z.string() }),
      execute: ({ order }, options) => {
        world.push(`${order} ${callContext(options).callId}`);
        if (order === "2") throw new Error("the line went dead");
        return { charged: order };
      },
    });
    const run = (model: MockModel) =>
      pay(holdfast, model, (d) => ({
        tools: d.tools({ script: scriptTool(["1", "2", "3"]), charge }),
        experimental_toolCallers: { charge: ["script"] },
      }));
    const model = scripted(asksFor("script", {}));
    await expect(run(model)).rejects.toMatchObject(HAS_OPEN_CALLS);
    const said = { outcome: "landed", result: { charged: "2" }, by: "ann", why: "seen" } as const;
    await holdfast.calls.resolve("c:tool-1", said);
    // The tool was tried again and met the open call each time, so a person is asked about it, too.
    await holdfast.calls.resolve("c", { outcome: "retry", by: "ann", why: "its charge is settled" });
    const next = scripted(says("paid"));
    expect((await run(next)).text).toBe("paid");
    expect(world).toEqual(["1 c:tool-0", "2 c:tool-1", "3 c:tool-2"]);
    const charged = ["1", "2", "3"].map((order) => ({ charged: order }));
    expect(JSON.stringify(next.doGenerateCalls[0]?.prompt)).toContain(JSON.stringify(charged));
    const sent = model.doGenerateCalls[0]?.tools as { name: string; description: string }[];
    expect(sent).toMatchObject([{ name: "script", description: "calls charge" }]);
  });

  test("a tool that the provider calls keeps the provider's mark, without ours", async () => {
    const { tools } = makeWorld();
    const caller = Reflect.get(sdk, "experimental_toolCaller")(
      { type: "provider", id: "mock.code", args: {}, inputSchema: z.object({}), isProviderExecuted: true },
      {
        type: "provider",
        prepareProviderOptions: (given: object) => ({ ...given, mock: { callable: true } }),
      },
    );
    const model = scripted(says("done"));
    await pay(await freshHoldfast(), model, (d) => ({
      tools: d.tools({ code: caller, charge: tools.charge }),
      experimental_toolCallers: { charge: ["code"] },
    }));
    const charge = model.doGenerateCalls[0]?.tools?.find(({ name }) => name === "charge") as object;
    expect(Reflect.get(charge, "providerOptions")).toStrictEqual({ mock: { callable: true } });
  });
});

test.runIf(IS_SDK_7)(
  "telemetry gets the events of a plain program, each once and without marks of ours",
  async () => {
    const { tools } = makeWorld();
    const model = () => scripted(asksFor("charge"), says("paid"));
    const seen = async (run: (telemetry: object) => Promise<unknown>): Promise<string[]> => {
      const events: string[] = [];
      const names = ["onStart", "onStepStart", "onLanguageModelCallStart", "onLanguageModelCallEnd"];
      names.push("onToolExecutionStart", "onToolExecutionEnd", "onStepEnd", "onEnd");
      const listener = (name: string) => (event: object) => {
        const { tools: given, usage, content, toolCall: call } = event as Record<string, unknown>;
        events.push(JSON.stringify([name, { given, usage, content, call }]));
      };
      const integration = Object.fromEntries(names.map((name) => [name, listener(name)]));
      await run({ isEnabled: true, integrations: [integration] });
      return events;
    };
    const { charge } = tools;
    const request = { prompt: "Pay", stopWhen, instructions: "You pay orders." };
    const plain = await seen((telemetry) =>
      generateText({ ...request, telemetry, model: model(), tools: { charge } } as never),
    );
    const holdfast = await freshHoldfast();
    const durably = await seen((telemetry) =>
      pay(holdfast, model(), (d) => ({ ...request, telemetry, tools: d.tools({ charge }) })),
    );
    const names = (events: string[]) => events.map((event) => JSON.parse(event)[0]);
    expect(plain.length).toBeGreaterThan(8);
    expect(names(durably)).toEqual(names(plain));
    expect(durably.join()).not.toContain("holdfast");
    expect(durably.join()).not.toContain("durable");
  },
);
