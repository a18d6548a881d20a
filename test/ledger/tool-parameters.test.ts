// The parameters that a model reads: derived from a tool's input schema, or refused.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, type Model, open, type StandardSchema, type Tool, tool } from "../../src/index.ts";

const validate = (value: unknown) => ({ value });
const plain: StandardSchema = { "~standard": { version: 1, vendor: "valibot", validate } };
const spec = { name: "charge", description: "Charges.", effect: "mutate", execute: () => "ok" } as const;

/** The parameters in the first request of a run with this tool. */
async function parametersSent(declared: Tool): Promise<unknown> {
  let sent: unknown;
  const model: Model = async ({ tools }) => {
    sent = tools[0]?.inputJsonSchema;
    return { message: { text: "done" } };
  };
  await using holdfast = await open("memory:");
  const session = await holdfast.session("s");
  await session.run({ model, tools: [declared], prompt: "Go" });
  return sent;
}

const ORDER = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };

describe("derived parameters", () => {
  test("zod: those of the input, without the dialect", async () => {
    const input = z.object({ order: z.string().transform(Number), cents: z.int().min(0).max(9).default(1) });
    expect(await parametersSent(tool({ ...spec, input }))).toEqual({
      type: "object",
      properties: {
        order: { type: "string" },
        cents: { type: "integer", minimum: 0, maximum: 9, default: 1 },
      },
      required: ["order"],
    });
  });

  test("a union of objects is an object", async () => {
    const input = z.union([
      z.object({ order: z.string() }),
      z.object({ order: z.string(), all: z.boolean() }),
    ]);
    const sent = await parametersSent(tool({ ...spec, input }));
    expect(sent).toMatchObject({ type: "object", anyOf: [ORDER, { type: "object" }] });
  });

  test("arktype: a schema that is a function with a converter", async () => {
    const input = Object.assign(() => undefined, plain, { toJsonSchema: () => ORDER });
    expect(await parametersSent(tool({ ...spec, input }))).toEqual(ORDER);
  });

  test("`inputJsonSchema` overrides what the schema derives", async () => {
    const input = z.object({ order: z.string() });
    const inputJsonSchema = { type: "object", description: "An order." };
    expect(await parametersSent(tool({ ...spec, input, inputJsonSchema }))).toEqual(inputJsonSchema);
    expect(await parametersSent(tool({ ...spec, input: plain, inputJsonSchema }))).toEqual(inputJsonSchema);
  });

  test("a sub-agent has parameters, too", async () => {
    const run = () => Promise.reject(new Error("not called"));
    const sub = agentTool({ name: "sub", description: "", input: z.object({ order: z.string() }), run });
    expect(await parametersSent(sub)).toEqual(ORDER);
  });
});

describe("a schema without a JSON form is refused", () => {
  const refusal = (why: string) =>
    expect.objectContaining({
      code: "INPUT_INVALID",
      message: `tool charge: its input schema has no JSON Schema that a model could read (${why})`,
      hint: expect.stringContaining("Pass `inputJsonSchema`"),
    });

  test("by tool() and agentTool()", () => {
    const why = "valibot has no converter on it";
    expect(() => tool({ ...spec, input: plain })).toThrow(refusal(why));
    const run = () => Promise.reject(new Error("not called"));
    expect(() => agentTool({ name: "charge", description: "", input: plain, run })).toThrow(refusal(why));
  });

  test("with the reason of the library", () => {
    const input = z.object({ at: z.date() });
    expect(() => tool({ ...spec, input })).toThrow(refusal("Date cannot be represented in JSON Schema"));
  });

  test("by run() for a tool that did not go through tool(), before anything is recorded", async () => {
    await using holdfast = await open("memory:");
    const session = await holdfast.session("s");
    const model: Model = () => Promise.reject(new Error("not asked"));
    const run = session.run({ model, tools: [{ ...spec, input: plain }], prompt: "Go" });
    await expect(run).rejects.toEqual(refusal("valibot has no converter on it"));
    expect(session.messages).toEqual([]);
  });
});
