// A user's agent, run by other runtimes and bundled by other tools. Its first run dies inside the tool, right
// after the effect. The second run must repeat the effect with the same key and finish.

import { appendFileSync } from "node:fs";
import { open, tool } from "holdfast";
import { z } from "zod";

export async function agent({ address, world, mustDie }) {
  const charge = tool({
    name: "charge",
    description: "Charge the customer's card",
    effect: "mutate",
    idempotent: true,
    input: z.object({ order: z.string() }),
    execute: (_args, { key }) => {
      appendFileSync(world, `${key}\n`);
      if (mustDie) process.kill(process.pid, "SIGKILL");
      return "charged";
    },
  });
  const model = async ({ messages }) =>
    messages.at(-1)?.role === "tool"
      ? { message: { text: "paid" } }
      : { message: { blocks: [{ kind: "tool_call", id: "c1", name: "charge", args: { order: "1" } }] } };
  try {
    const holdfast = await open(address);
    const session = await holdfast.session("order");
    const { status, text } = await session.run({
      model,
      tools: [charge],
      prompt: { id: "pay", text: "pay" },
    });
    await holdfast.close();
    return `${status}: ${text}`;
  } catch (error) {
    return `${error.code}: ${error.message} | ${error.hint}`;
  }
}
