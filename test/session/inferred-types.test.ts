// Types of the public API that catch mistakes. The compiler checks this file; the test runs it as well.

import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import {
  agentTool,
  type DirectCall,
  HoldfastError,
  isHoldfastError,
  open,
  type RunResult,
  type Session,
  type Tool,
  tool,
} from "../../src/index.ts";

const spec = { name: "charge", description: "Charges.", effect: "mutate" } as const;
const charge = tool({
  ...spec,
  input: z.object({ order: z.string().transform(Number), cents: z.int().default(1) }),
  execute: ({ order, cents }) => ({ order, cents }),
});

/** The arguments that `session.call` infers for a tool. */
type ArgsOf<Each extends Tool> = Each extends Tool<infer _Result, infer Input> ? Input : never;

test("session.call takes what the tool's schema accepts", async () => {
  await using holdfast = await open("memory:");
  const session = await holdfast.session("s");
  const outcome = await session.call({ tool: charge, args: { order: "17" } });
  expect(outcome).toMatchObject({ status: "completed", value: { order: 17, cents: 1 } });
  if (outcome.status === "completed")
    expectTypeOf(outcome.value).toEqualTypeOf<{ order: number; cents: number }>();
  type Accepted = DirectCall<unknown, ArgsOf<typeof charge>>["args"];
  expectTypeOf<{ order: string; cents: number }>().toExtend<Accepted>();
  expectTypeOf<{ order: string; againBecause: string }>().toExtend<Accepted>();
  expectTypeOf<{ ordre: string }>().not.toExtend<Accepted>();
  expectTypeOf<{ order: number }>().not.toExtend<Accepted>();
});

test("the input of a tool, a sub-agent and an untyped tool", () => {
  const run = (_: unknown, child: Session) => child.run({ model: () => Promise.reject(new Error("no")) });
  const sub = agentTool({ name: "sub", description: "", input: z.object({ topic: z.string() }), run });
  expectTypeOf<ArgsOf<typeof charge>>().toEqualTypeOf<{ order: string; cents?: number | undefined }>();
  expectTypeOf<ArgsOf<typeof sub>>().toEqualTypeOf<{ topic: string }>();
  expectTypeOf<ArgsOf<Tool>>().toEqualTypeOf<unknown>();
  expectTypeOf(charge).toExtend<Tool>();
});

test("RunResult.reason is one of its values", () => {
  type Paused = "budget" | "deadline" | "turns" | "loop" | "cancelled" | "stopped" | "drained";
  expectTypeOf<RunResult["reason"]>().toEqualTypeOf<"answered" | "calls" | Paused>();
});

test("isHoldfastError narrows the code", () => {
  const error: unknown = new HoldfastError("LEASE_LOST", "lost", { hint: "Stop." });
  if (!isHoldfastError(error, "LEASE_LOST")) throw error;
  expectTypeOf(error.code).toEqualTypeOf<"LEASE_LOST">();
  expect(error.code).toBe("LEASE_LOST");
});
