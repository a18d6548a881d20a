// Incomplete answers: cut off, refused, or lost with the connection.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, onTestFinished, test } from "vitest";
import { fromAnthropic } from "../../../src/integrations/anthropic/index.ts";
import { skipWaits } from "../../skip-waits.ts";
import { chargeTool, loopback, said, streamedCall } from "./loopback.ts";

const HALF = '{"order":"o1","amount":10';
const CALL = { type: "tool_use", id: "toolu_1", name: "charge", input: { order: "o1", amount: 1_000 } };

describe("a call whose arguments may be cut off is not run", () => {
  test.each([
    { stop: "max_tokens", what: "ran into max_tokens", hint: "params.max_tokens" },
    { stop: "model_context_window_exceeded", what: "filled its context window", hint: "compact" },
    { stop: "refusal", what: "stopped by a refusal", hint: "another model" },
    { stop: "stop_sequence", what: "wrote a stop sequence", hint: "params.stop_sequences" },
    { stop: null, what: "stop_reason: null", hint: "Run again" },
  ])("after $stop", async ({ stop, what, hint }) => {
    const { holdfast, client } = await loopback([{ events: streamedCall(HALF, stop) }]);
    const { charge, charged } = chargeTool();
    const session = await holdfast.session("pay");
    const model = fromAnthropic(client, "claude-sonnet-5-5", { stream: true });
    const paid = session.run({ model, tools: [charge], prompt: "Pay 1000 for o1" });
    await expect(paid).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringMatching(`${what}.* in the middle of a tool call \\(charge\\)`),
      hint: expect.stringMatching(`${hint}.*The call was not run`),
    });
    expect(charged).toEqual([]);
    expect(session.messages).toHaveLength(1);
  });

  test.each([
    { what: "the model ended by itself", content: [CALL], stop: "end_turn" },
    {
      what: "only text after it is cut off",
      content: [CALL, { type: "text", text: "And" }],
      stop: "max_tokens",
    },
  ])("but it is run when $what", async ({ content, stop }) => {
    const { holdfast, client } = await loopback([said(content, stop)]);
    const { charge, charged } = chargeTool();
    const session = await holdfast.session("pay");
    await session.run({ model: fromAnthropic(client, "claude-sonnet-5-5"), tools: [charge], prompt: "Pay" });
    expect(charged).toEqual([CALL.input]);
  });
});

/** An API whose first stream breaks off after its second event. The next one is complete. */
async function breakingApi(howItBreaks: "destroyed" | "ended") {
  let asked = 0;
  const text = (events: readonly { type?: string }[]) =>
    events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  const events = streamedCall('{"order":"o1"}', "tool_use");
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (++asked > 1) return response.end(text(events));
    if (howItBreaks === "ended") return response.end(text(events.slice(0, 2)));
    return response.write(text(events.slice(0, 2)), () => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  });
  const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new Anthropic({ baseURL, apiKey: "none", maxRetries: 0 });
}

test.each(["destroyed", "ended"] as const)(
  "a stream whose connection is %s in the middle is requested again",
  async (howItBreaks) => {
    const { holdfast } = await loopback([]);
    const model = fromAnthropic(await breakingApi(howItBreaks), "claude-sonnet-5-5", { stream: true });
    const { charge, charged } = chargeTool();
    const session = await holdfast.session("pay");
    const waited = skipWaits([250]);
    await session.run({ model, tools: [charge], prompt: "Pay o1", maxTurns: 1 });
    expect(waited).toEqual([250]);
    expect(charged).toEqual([{ order: "o1" }]);
  },
);
