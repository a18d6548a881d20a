// Unusual answers of models and tools, and providers that fail before their first byte.

import { Agent, type FunctionTool, type Model, run, setTracingDisabled, tool } from "@openai/agents";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, landed, open, type Session } from "../../../src/index.ts";
import { type Durable, durable } from "../../../src/integrations/openai-agents/index.ts";
import { resultsIn, ScriptedModel } from "./scripted-model.ts";

setTracingDisabled(true);

let holdfast: Holdfast;
let session: Session;
beforeEach(async () => {
  holdfast = await open("memory:");
  session = await holdfast.session("s");
});
afterEach(() => holdfast.close());

async function startedAgain(): Promise<Durable> {
  await session.close();
  session = await holdfast.session("s");
  return durable(session);
}

const ORDER = z.object({ order: z.string() });

function calling(name: string, args: object = {}): ScriptedModel {
  return new ScriptedModel((request) =>
    resultsIn(request) > 0 ? [{ text: "done" }] : [{ call: name, args }],
  );
}

test("a pending call finds its tool although the SDK has changed the tool's name", async () => {
  const charge = (d: Durable, execute: (signal: AbortSignal | undefined) => Promise<string>) =>
    d.tool({
      name: "charge card",
      description: "Charges an order",
      parameters: ORDER,
      verify: () => landed("charged before"),
      execute: (_input, _context, details) => execute(details?.signal),
    });
  const ask = async (d: Durable, made: FunctionTool<unknown, typeof ORDER, unknown>, id: string) => {
    const model = new ScriptedModel((request) =>
      id === "b" || resultsIn(request) > 0
        ? [{ text: `done ${id}` }]
        : [{ call: made.name, args: { order: "4711" } }],
    );
    const agent = new Agent({ name: "Shop", model: d.model(model), tools: [made] });
    return (await run(agent, await d.input({ id, text: id }), { session: d.session })).finalOutput;
  };
  const first = durable(session);
  // Its program ends during the call, so no outcome is recorded.
  const cutOff = charge(first, (signal) => {
    const stopped = new Promise<string>((_, reject) => {
      signal?.addEventListener("abort", () => reject(new Error("cut off")), { once: true });
    });
    void session.close();
    return stopped;
  });
  expect(cutOff.name).toBe("charge_card");
  await expect(ask(first, cutOff, "a")).rejects.toThrow();
  const again = await startedAgain();
  const fine = charge(again, () => Promise.reject(new Error("it is not run again")));
  expect(await ask(again, fine, "b")).toBe("done b");
  expect(session.openCalls).toEqual([]);
  expect(await ask(again, fine, "a")).toBe("done a");
});

test("a stream that fails before it begins may be retried on the same handle", async () => {
  let fails = true;
  const inner: Model = {
    getResponse: () => Promise.reject(new Error("not asked for")),
    getStreamedResponse: (request) => {
      if (fails) throw new Error("no route to the provider");
      return new ScriptedModel(() => [{ text: "hello" }]).getStreamedResponse(request);
    },
  };
  const d = durable(session);
  const agent = new Agent({ name: "A", model: d.model(inner) });
  const ask = async () => {
    const streamed = await run(agent, await d.input("Hi"), { session: d.session, stream: true });
    await streamed.completed;
    return streamed.finalOutput;
  };
  await expect(ask()).rejects.toThrow("no route");
  await expect(ask()).rejects.toThrow("no route");
  fails = false;
  expect(await ask()).toBe("hello");
});

test("a model that could not be resolved is resolved at the next question", async () => {
  const { OPENAI_API_KEY } = process.env;
  delete process.env["OPENAI_API_KEY"];
  try {
    const model = durable(session).model("gpt-test");
    await expect(model.getRetryAdvice?.({} as never)).rejects.toThrow("Missing credentials");
    process.env["OPENAI_API_KEY"] = "none";
    const failed = { error: new Error("busy"), request: {}, stream: false, attempt: 1 };
    await expect(model.getRetryAdvice?.(failed as never)).resolves.not.toThrow();
  } finally {
    if (OPENAI_API_KEY === undefined) delete process.env["OPENAI_API_KEY"];
    else process.env["OPENAI_API_KEY"] = OPENAI_API_KEY;
  }
});

test("arguments with a lone surrogate are reported to the model, and the program continues", async () => {
  const model = calling("charge", { order: "x\ud83d" });
  for (const _ of [1, 2]) {
    const d = await startedAgain();
    const charge = d.tool({
      name: "charge",
      description: "Charges",
      parameters: ORDER,
      execute: () => "charged",
    });
    const agent = new Agent({ name: "Shop", model: d.model(model), tools: [charge] });
    const result = await run(agent, await d.input({ id: "pay", text: "Pay" }), { session: d.session });
    expect([result.finalOutput, session.openCalls]).toEqual(["done", []]);
  }
  expect(model.asked).toHaveLength(2);
  expect(JSON.stringify(model.asked[1]?.input)).toContain("half of a surrogate pair");
});

const BYTES = new Uint8Array([137, 80, 78, 71]);
const PNG = { data: BYTES, mediaType: "image/png" };

test.each([
  ["an image in bytes", { type: "image", image: PNG, detail: "low" }],
  ["an image of the older form", { type: "image", ...PNG }],
  ["a file in bytes", { type: "file", file: { ...PNG, filename: "a.png" } }],
  ["a file of the older form", { type: "file", fileData: BYTES, mediaType: "image/png", filename: "a.png" }],
  [
    "several",
    [
      { type: "text", text: "two" },
      { type: "image", image: PNG },
    ],
  ],
  ["an image by its address", { type: "image", image: { url: "https://example.org/a.png" } }],
])("for a tool that returns %s the model gets the same as from the SDK alone", async (_, output) => {
  const options = { name: "look", description: "Looks", parameters: z.object({}), execute: () => output };
  const sent = ({ asked: [, second] }: ScriptedModel) => {
    const items = (second?.input ?? []) as { readonly output?: unknown }[];
    return items.at(-1)?.output;
  };
  const plain = calling("look");
  await run(new Agent({ name: "A", model: plain, tools: [tool(options)] }), "Look");
  const ours = calling("look");
  const d = durable(session);
  const agent = new Agent({ name: "A", model: d.model(ours), tools: [d.tool(options)] });
  await run(agent, await d.input("Look"), { session: d.session });
  expect(sent(ours)).toEqual(sent(plain));
  expect(JSON.stringify(sent(ours))).toMatch(/base64|https/);
});
