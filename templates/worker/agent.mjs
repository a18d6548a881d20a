// An agent that you can kill anywhere: node agent.mjs. Run it again, and it continues.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { landed, never, open, tool } from "holdfast";
import { z } from "zod";

// The outside world: a file with a line per charge. Put your payment provider here.
const WORLD = "charges.log";
const charges = () => (existsSync(WORLD) ? readFileSync(WORLD, "utf8").split("\n").filter(Boolean) : []);

const charge = tool({
  name: "charge",
  description: "Charge the customer's card for an order",
  effect: "mutate",
  input: z.object({ order: z.string() }),
  async execute({ order }) {
    appendFileSync(WORLD, `${order}\n`);
    await sleep(Number(process.env.SLOW_MS ?? 1_000));
    return { paid: order };
  },
  // After a crash: did it happen?
  verify: ({ order }) => (charges().includes(order) ? landed({ paid: order }) : never()),
});

// A scripted model, so that this runs without a key. Replace it by fromAnthropic(client, "claude-sonnet-5-5")
// of holdfast/anthropic, fromOpenAI of holdfast/openai or fromAiSdk of holdfast/ai-sdk.
const model = async ({ messages }) =>
  messages.at(-1)?.role === "tool"
    ? { message: { text: "Order 4711 is paid." } }
    : { message: { blocks: [{ kind: "tool_call", id: "c1", name: "charge", args: { order: "4711" } }] } };

const holdfast = await open();
process.once("SIGTERM", () => holdfast.close({ finish: "call", withinMs: 20_000 }));
const session = await holdfast.session(process.env.HOLDFAST_SESSION ?? "order-4711");
if (session.resumed) console.log(`resumed from version ${session.resumed.version}`);
const result = await session.run({ model, tools: [charge], prompt: { id: "pay", text: "Pay order 4711" } });
console.log(`${result.status}: ${result.text || result.reason}`);
for (const call of result.waiting) console.log(`waits for you: ${call.callId} ${call.tool}: ${call.why}`);
await holdfast.close();
