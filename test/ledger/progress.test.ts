// What a display of calls is told: one start and its outcome for each, and nothing else.

import { expect, test } from "vitest";
import { z } from "zod";
import { DefiniteFailure, open, type ToolSpec, tool } from "../../src/index.ts";
import { callBlock } from "./bench.ts";

type Execute = ToolSpec<unknown, unknown>["execute"];

/** What a tool does, and what its display is told of the outcome. */
const OUTCOMES: Readonly<Record<string, { readonly execute: Execute; readonly told: readonly object[] }>> = {
  done: { execute: () => "receipt", told: [{ type: "call.completed", by: "execute" }] },
  noted: {
    execute: () => new Map([["a", 1]]),
    told: [{ type: "call.completed", by: "execute", note: expect.any(String) }],
  },
  refused: {
    execute: () => {
      throw new DefiniteFailure("no such card");
    },
    told: [{ type: "call.failed", error: expect.stringContaining("no such card") }],
  },
  lost: {
    execute: () => {
      throw new Error("the line went dead");
    },
    told: ["call.unknown", "call.waiting"].map((type) => ({
      type,
      why: expect.stringContaining("the line went dead"),
    })),
  },
};

test("every outcome of a call is told once, under its id and tool, after its start", async () => {
  await using holdfast = await open("memory:");
  const session = await holdfast.session("s");
  const names = Object.keys(OUTCOMES);
  const tools = names.map((name) =>
    tool({
      name,
      description: name,
      effect: "mutate",
      input: z.object({}),
      execute: (args, context) => OUTCOMES[name]?.execute(args, context),
    }),
  );
  const blocks = names.map((name) => callBlock(`call-${name}`, name));
  const message = await session.append({ role: "assistant", blocks });
  const told: { type: string; callId?: string; tool?: string }[] = [];
  await session.calls(message, tools, { on: (progress) => told.push(progress) });
  for (const [name, outcome] of Object.entries(OUTCOMES)) {
    const call = { callId: `call-${name}`, tool: name };
    expect(told.filter(({ callId }) => callId === call.callId)).toEqual([
      expect.objectContaining({ ...call, type: "call.issued" }),
      ...outcome.told.map((each) => expect.objectContaining({ ...call, ...each })),
    ]);
  }
  const outcomes = Object.values(OUTCOMES).flatMap((outcome) => outcome.told);
  expect(told).toHaveLength(names.length + outcomes.length);
});
