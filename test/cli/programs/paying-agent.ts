// An agent that charges a card and hangs during the charge, until a person has resolved that call.

import { type Model, open, tool } from "holdfast";

const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;

const charge = tool({
  name: "charge",
  description: "Charge a card",
  effect: "mutate",
  input: anything,
  execute: async () => {
    process.stdout.write("charging\n");
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  },
});

const model: Model = async ({ messages }) => {
  const last = messages.at(-1);
  if (last?.role === "tool") return { message: { text: "Paid." }, usage: { usd: 0.01 } };
  const call = { kind: "tool_call", id: "c_8fk2", name: "charge", args: { orderId: 4711 } } as const;
  return { message: { blocks: [call] }, usage: { usd: 0.01 } };
};

const holdfast = await open();
const session = await holdfast.session("order-4711", {
  goal: "checkout",
  title: "Pay order 4711",
  label: "web-3",
});
const result = await session.run({ model, tools: [charge], prompt: "Pay order 4711", budget: { usd: 2 } });
process.stdout.write(`${result.status} ${result.text ?? ""}\n`);
await holdfast.close();
