import Anthropic from "@anthropic-ai/sdk";
import { onTestFinished } from "vitest";
import { z } from "zod";
import { open, tool } from "../../../src/index.ts";
import { type WireAnswer, wireServer } from "../wire/server.ts";

/**
 * A store, and Anthropic's client on an API that gives these answers and then says "Done.". Both are closed
 * with the test.
 */
export async function loopback(answers: readonly WireAnswer[]) {
  const server = await wireServer([...answers, said([{ type: "text", text: "Done." }], "end_turn")]);
  const holdfast = await open("memory:");
  const client = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
  onTestFinished(async () => {
    await server.close();
    await holdfast.close();
  });
  return { holdfast, client, requests: server.requests };
}

const HEAD = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-5-5",
  stop_sequence: null,
};
const USAGE = { input_tokens: 1, output_tokens: 1 };

/** An answer in one piece. */
export function said(content: readonly object[], stop_reason: string, more: object = {}): WireAnswer {
  return { body: { ...HEAD, content, stop_reason, usage: USAGE, ...more } };
}

type Event = NonNullable<WireAnswer["events"]>[number];

/** A streamed answer with one call, whose arguments were sent up to here. */
export function streamedCall(json: string, stop_reason: string | null): readonly Event[] {
  const content_block = { type: "tool_use", id: "toolu_1", name: "charge", input: {} };
  return [
    { type: "message_start", message: { ...HEAD, content: [], stop_reason: null, usage: USAGE } },
    { type: "content_block_start", index: 0, content_block },
    { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: json } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 9 } },
    { type: "message_stop" },
  ];
}

/** A tool that accepts any input, and the inputs it got. */
export function chargeTool() {
  const charged: unknown[] = [];
  const charge = tool({
    name: "charge",
    description: "Charges an order",
    effect: "mutate",
    input: z.any(),
    execute: (args) => {
      charged.push(args);
      return "charged";
    },
  });
  return { charge, charged };
}
