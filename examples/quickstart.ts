/**
 * The first ten lines: open a store, declare a tool, run. Kill this program anywhere and run it again: it
 * continues where it stopped, and the card is not charged twice.
 */

import { type Model, open, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

// A stand-in for your payment provider.
const payments = {
  charge: async (orderId: string, { idempotencyKey }: { idempotencyKey: string }) => ({
    orderId,
    idempotencyKey,
  }),
};

const charge = tool({
  name: "charge",
  description: "Charge the customer's card",
  effect: "mutate",
  idempotent: true, // the provider takes our key: repeating is safe
  input: z.object({ orderId: z.string() }),
  execute: ({ orderId }, { key }) => payments.charge(orderId, { idempotencyKey: key }),
});

// Any model is one function. This one is scripted: it asks for the charge, then it answers.
const model: Model = async ({ messages }) =>
  messages.at(-1)?.role === "tool"
    ? { message: { text: "Order 4711 is paid." }, usage: { usd: 0.005 } }
    : {
        message: { blocks: [{ kind: "tool_call", id: "c1", name: "charge", args: { orderId: "4711" } }] },
        usage: { usd: 0.005 },
      };

// Your program calls open(): it finds or creates .holdfast/ in your project.
const holdfast = await open(process.env["HOLDFAST_STORE"] ?? temporaryFolder());
const session = await holdfast.session("order-4711");
const result = await session.run({ model, tools: [charge], prompt: "Pay order 4711", budget: { usd: 2 } });
await holdfast.close();

console.log(`${result.status}: ${result.text}`);
console.log(
  `spent $${result.spent.usd ?? 0} in ${result.spent.turns} turns; version ${result.version} is on disk`,
);
