// Works on the task that its supervisor names, with a tool that cannot be verified. The first worker is
// killed in its call. Later ones leave the call to a person and release the task.

import { appendFileSync, existsSync } from "node:fs";
import * as z from "zod";
import { open, tool } from "../../../src/index.ts";

const [store = "", world = ""] = process.argv.slice(2);
const { HOLDFAST_GOAL = "", HOLDFAST_TASK = "" } = process.env;

const fax = tool({
  name: "fax",
  description: "Send a fax",
  input: z.object({}),
  effect: "mutate",
  execute: () => {
    const isFirst = !existsSync(world);
    appendFileSync(world, "fax\n");
    if (isFirst) process.kill(process.pid, "SIGKILL");
    return "sent";
  },
});

const holdfast = await open(store);
const goal = await holdfast.goal(HOLDFAST_GOAL, { by: { name: `agent-${process.pid}`, role: "worker" } });
const id = `try-${goal.task(HOLDFAST_TASK).attempts + 1}`;
await goal.startSession({ session: id });
const claim = await goal.claim(HOLDFAST_TASK, { session: id });
await claim.progress("faxing");
const session = await holdfast.session("faxes", { goal: goal.id });
const { status } = await session.call({ callId: "f1", tool: fax, args: {} });
await session.close();
if (status === "completed") await claim.submit({ summary: "sent" });
else await claim.release(`the fax is ${status}`);
await goal.endSession({ session: id });
await goal.close();
await holdfast.close();
