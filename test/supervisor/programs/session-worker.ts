// An agent whose prompt has no id. The first process is killed in the middle. The next one finishes the work,
// ends the session, and then exits with an error.

import { appendFileSync } from "node:fs";
import * as z from "zod";
import { open, tool } from "../../../src/index.ts";

const [store = "", world = ""] = process.argv.slice(2);
const { HOLDFAST_SESSION } = process.env;

const gift = tool({
  name: "gift",
  description: "Send a gift",
  input: z.object({}),
  effect: "mutate",
  execute: (_args, { key }) => {
    appendFileSync(world, `${key}\n`);
    return "sent";
  },
});

const holdfast = await open(store);
const session = await holdfast.session(HOLDFAST_SESSION ?? "order-1");
if (HOLDFAST_SESSION === undefined) {
  await session.append({ role: "user", text: "Send a gift" });
  process.kill(process.pid, "SIGKILL");
}
await session.run({
  prompt: "Send a gift",
  tools: [gift],
  model: async ({ messages }) =>
    messages.at(-1)?.role === "tool"
      ? { message: { text: "done" } }
      : { message: { blocks: [{ kind: "tool_call", id: `g-${messages.length}`, name: "gift", args: {} }] } },
});
await session.complete();
await holdfast.close();
process.exit(1);
