// A chat in a process of its own: it pays with approval while the conversation continues, and counts slowly.
//
//     chat-server.ts <store> <file of payments> <file that lets the count go on>

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import { stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";
import { landed, never, open } from "../../../../src/index.ts";
import { chatHandler, nodeListener } from "../../../../src/integrations/ai-sdk/index.ts";
import { answer } from "../paying-model.ts";

const [, , store = "", payments = "", gate = ""] = process.argv;
const holdfast = await open(store);

const pay = tool({
  inputSchema: z.object({ eur: z.number() }),
  needsApproval: true,
  execute: ({ eur }) => {
    appendFileSync(payments, `${eur}\n`);
    return { paid: eur };
  },
});
const isPaid = (eur: number): boolean =>
  existsSync(payments) && readFileSync(payments, "utf8").split("\n").includes(String(eur));

/** The model's words and calls, by the last message that it reads. */
async function* spoken(last: string) {
  const { usage } = answer([]);
  yield { type: "stream-start", warnings: [] };
  const isCall = last.includes("Pay 20");
  if (isCall) yield { type: "tool-call", toolCallId: "c1", toolName: "pay", input: '{"eur":20}' };
  else {
    yield { type: "text-start", id: "1" };
    if (last.includes("Count")) {
      yield { type: "text-delta", id: "1", delta: "one " };
      while (!existsSync(gate)) await setTimeout(20);
      yield { type: "text-delta", id: "1", delta: "two" };
    } else {
      const isOutcome = last.includes("has a result now");
      const delta = isOutcome ? "Now it is paid." : last.includes("waits") ? "It waits." : "Sunny.";
      yield { type: "text-delta", id: "1", delta };
    }
    yield { type: "text-end", id: "1" };
  }
  yield { type: "finish", finishReason: { unified: isCall ? "tool-calls" : "stop", raw: undefined }, usage };
}

const model = new MockLanguageModelV3({
  doStream: async ({ prompt }) => {
    const last = JSON.stringify(prompt.at(-1));
    return { stream: ReadableStream.from(spoken(last)) as never };
  },
});

const chat = chatHandler(holdfast, {
  answer: async ({ durable: d, prompt }) =>
    streamText({
      model: d.model(model),
      tools: d.tools(
        { pay },
        {
          pay: {
            whileWaiting: "continue",
            verify: ({ eur }) => (isPaid(eur) ? landed({ paid: eur }) : never()),
          },
        },
      ),
      messages: await d.messages(prompt),
      stopWhen: stepCountIs(5),
    }),
});

const server = createServer(nodeListener(chat)).listen(0, "127.0.0.1", () => {
  console.log((server.address() as AddressInfo).port);
});
