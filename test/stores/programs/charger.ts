// Charges one order, and ends in a given way right after.

import { appendFileSync } from "node:fs";
import * as z from "zod";
import { isHoldfastError, open, tool } from "../../../src/index.ts";

const [address = "", order = "", end = "", world = ""] = process.argv.slice(2);

const charge = tool({
  name: "charge",
  description: "Charge a card",
  input: z.object({ order: z.string() }),
  effect: "mutate",
  execute: () => {
    appendFileSync(world, `${order}\n`);
    if (end === "kill") process.kill(process.pid, "SIGKILL");
    return "charged";
  },
});

try {
  const holdfast = await open(address);
  const session = await holdfast.session(`order-${order}`);
  await session.call({ callId: `pay-${order}`, tool: charge, args: { order } });
  process.stdout.write("charged\n");
  if (end === "exit") process.exit(0);
  await holdfast.close();
} catch (error) {
  process.stdout.write(isHoldfastError(error) ? `${error.code}\n` : String(error));
}
