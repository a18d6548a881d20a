/** An agent whose first call is in flight when SIGTERM comes. `charge` minds its signal and is not idempotent. */

import { appendFileSync, existsSync } from "node:fs";
import { z } from "zod";
import { type Model, open, tool } from "../../../src/index.ts";

const [store = "", world = "", mode = ""] = process.argv.slice(2);

const charge = tool({
  name: "charge",
  description: "charge",
  effect: "mutate",
  input: z.object({ order: z.number() }),
  execute: async ({ order }, { signal }) => {
    process.stdout.write(`begun ${order}\n`);
    while (!existsSync(`${world}.go`)) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    appendFileSync(world, `charged ${order}\n`);
    return order;
  },
});

const model: Model = async ({ messages }) => {
  const block = (order: number) =>
    ({ kind: "tool_call", id: `c${order}`, name: "charge", args: { order } }) as const;
  return { message: messages.length > 1 ? { text: "paid" } : { blocks: [block(1), block(2)] } };
};

const holdfast = await open(store);
const session = await holdfast.session("orders");
const drain = new AbortController();
process.once("SIGTERM", () => {
  process.stdout.write("terminating\n");
  if (mode === "drain") drain.abort();
  else void holdfast.close({ finish: "call", ...(mode === "late" && { withinMs: 1 }) });
});
const options = { model, tools: [charge], parallel: 1, prompt: { id: "p", text: "Pay" } };
const outcome = await session.run({ ...options, drain: drain.signal }).then(
  ({ status, reason }) => `${status} ${reason}`,
  (error: { code?: string }) => String(error.code),
);
process.stdout.write(`result ${outcome}\n`);
await holdfast.close();
