// A store, a world with its own log, and models that follow a script.

import type { LanguageModelV3GenerateResult } from "@ai-sdk/provider";
import { tool } from "ai";
import { afterEach } from "vitest";
import { z } from "zod";
import { type Holdfast, open, type Session } from "../../../src/index.ts";
import { type DurableOptions, durable } from "../../../src/integrations/ai-sdk/index.ts";
import { answer, MockModel, streamed } from "./paying-model.ts";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const holdfast of opened.splice(0)) await holdfast.close();
});

export async function freshHoldfast(): Promise<Holdfast> {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  return holdfast;
}

/** A world with its own log, and tools that act on it. */
export function makeWorld() {
  const log: string[] = [];
  const tools = {
    find: tool({
      inputSchema: z.object({ order: z.string() }),
      execute: ({ order }) => ({ order, readAt: Math.random() }),
    }),
    charge: tool({
      inputSchema: z.object({ order: z.string(), note: z.string().optional() }),
      execute: ({ order }) => {
        log.push(`charge ${order}`);
        return { charged: order };
      },
    }),
    mail: tool({
      inputSchema: z.object({ to: z.string(), text: z.string() }),
      execute: ({ to }) => {
        log.push(`mail ${to}`);
        return "sent";
      },
    }),
  };
  return { log, tools };
}

export const READS = { find: { effect: "read" } } as const;

/** One execution of a program on a session without an owner. */
export async function program<Result>(
  holdfast: Holdfast,
  body: (d: ReturnType<typeof durable>, session: Session) => Promise<Result>,
  options: DurableOptions = {},
): Promise<Result> {
  const session = await holdfast.session("order-4711");
  try {
    return await body(durable(session, options), session);
  } finally {
    await session.close();
  }
}

export const toolCall = (toolCallId: string, toolName: string, input: object) =>
  ({ type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) }) as const;

export const says = (text: string): LanguageModelV3GenerateResult => answer([{ type: "text", text }]);

/** Gives these answers in order, and counts its questions. */
export function scripted(...answers: (LanguageModelV3GenerateResult | Error)[]) {
  const rest = [...answers];
  const next = () => {
    const each = rest.shift() ?? says("nothing left to say");
    if (each instanceof Error) throw each;
    return each;
  };
  return new MockModel({
    doGenerate: async () => next(),
    doStream: async () => ({ stream: streamed(next()) }),
  });
}
