import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import * as z from "zod";
import { landed, never, tool } from "../../../src/index.ts";

/** Charges by appending a line to the world's own log. The process that charges first dies right after it. */
export function chargeIn(world: string) {
  return tool({
    name: "charge",
    description: "Charge the card",
    input: z.object({ order: z.string() }),
    effect: "mutate",
    execute: ({ order }, { key }) => {
      appendFileSync(world, `${key}\n`);
      if (!existsSync(`${world}.died-${order}`)) {
        writeFileSync(`${world}.died-${order}`, "");
        process.kill(process.pid, "SIGKILL");
      }
      return { paid: order };
    },
    verify: (_args, { key }) => {
      const has = existsSync(world) && readFileSync(world, "utf8").split("\n").includes(key);
      return has ? landed({ paid: "yes" }) : never();
    },
  });
}
