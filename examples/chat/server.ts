/**
 * A chat that survives: kill this server in the middle of an answer, start it again, reload the page. The
 * answer continues, and the card is charged once. No network is needed: the model follows a script, slowly.
 *
 *     npm start                                     in a project that `npx holdfast new chat` wrote
 *     node examples/chat/server.ts [store] [port]   in a checkout
 */

import { appendFileSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { simulateReadableStream, stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { isHoldfastError, landed, never, open } from "holdfast";
import { chatHandler, nodeListener } from "holdfast/ai-sdk";
import { z } from "zod";

const [, , store = "./chat.db", port = "3000"] = process.argv;
const pace = Number(process.env["CHAT_PACE_MS"] ?? 150);
const here = process.env["CHAT_FOLDER"] ?? fileURLToPath(new URL(".", import.meta.url));
const holdfast = await open(store);

/** The bank: a file with a line per charge, so that a test can count them. */
const bank = `${store}.charges`;
const charges = (): string[] => {
  try {
    return readFileSync(bank, "utf8").trim().split("\n");
  } catch {
    return [];
  }
};

const tools = {
  charge: tool({
    description: "Charges the customer's card",
    inputSchema: z.object({ order: z.string(), eur: z.number() }),
    needsApproval: ({ eur }) => eur > 100,
    execute: async ({ order, eur }) => {
      appendFileSync(bank, `${order} ${eur}\n`);
      await setTimeout(10 * pace);
      return { receipt: order };
    },
  }),
};

const REPORT = "The card is charged. The parcel leaves today, and you get a mail with its number.";

/** Charges what the customer names, then reports in many words. */
const model = new MockLanguageModelV3({
  doStream: async ({ prompt }) => {
    const last = prompt.at(-1);
    const said = JSON.stringify(last?.role === "user" ? last.content : "");
    const eur = Number(/\d+/.exec(said)?.[0] ?? 0);
    const isPaid = last?.role === "tool";
    const isCalling = !isPaid && eur > 0;
    const call = { type: "tool-call", toolCallId: crypto.randomUUID(), toolName: "charge" };
    const text = isPaid ? REPORT : isCalling ? "I charge your card now." : "How much is it?";
    const chunks = [
      { type: "stream-start", warnings: [] },
      { type: "text-start", id: "1" },
      ...text.split(/(?<= )/).map((delta) => ({ type: "text-delta", id: "1", delta })),
      { type: "text-end", id: "1" },
      ...(isCalling ? [{ ...call, input: JSON.stringify({ order: "4711", eur }) }] : []),
      {
        type: "finish",
        finishReason: { unified: isCalling ? "tool-calls" : "stop", raw: undefined },
        usage: {
          inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 5, text: 5, reasoning: 0 },
        },
      },
    ];
    return { stream: simulateReadableStream({ chunks, chunkDelayInMs: pace }) as never };
  },
});

const chat = chatHandler(holdfast, {
  answer: async ({ durable: d, prompt }) =>
    streamText({
      model: d.model(model),
      // After a kill the bank tells whether the charge landed.
      tools: d.tools(tools, {
        charge: {
          verify: ({ order, eur }) =>
            charges().includes(`${order} ${eur}`) ? landed({ receipt: order }) : never(),
        },
      }),
      messages: await d.messages(prompt),
      stopWhen: stepCountIs(5),
      // A call that waits for approval is a part of the chat, not an error.
      onError: ({ error }) => {
        if (!isHoldfastError(error, "SESSION_HAS_OPEN_CALLS")) console.error(error);
      },
    }),
});

/** The page imports the SDK and our transport, so it is bundled: here, or before the start. */
async function bundledPage(): Promise<string> {
  const bundled = process.env["CHAT_PAGE"];
  if (bundled) return readFileSync(bundled, "utf8");
  const { rolldown } = await import("rolldown");
  const bundle = await rolldown({ input: `${here}/page.js`, platform: "browser" });
  return (await bundle.generate({ format: "esm" })).output[0].code;
}

const files: Readonly<Record<string, readonly [type: string, text: string]>> = {
  "/": ["text/html; charset=utf-8", readFileSync(`${here}/index.html`, "utf8")],
  "/page.js": ["text/javascript", await bundledPage()],
};

const listener = nodeListener(async (request) => {
  const file = files[new URL(request.url).pathname];
  return file ? new Response(file[1], { headers: { "content-type": file[0] } }) : chat(request);
});
const server = createServer(listener).listen(Number(port), "127.0.0.1", () => {
  console.log(`open http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
});
