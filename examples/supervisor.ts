/**
 * A supervisor restarts agents that die. This one starts an agent for every ready task. The agent is killed
 * right after it has charged a card. The supervisor marks the crash, releases the task, asks the payment
 * service about the charge, and starts the next agent. The next agent finds everything settled and finishes.
 */

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { landed, never, open, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

const [, script = "", role, agentsFolder] = process.argv;
const folder = agentsFolder ?? temporaryFolder();
const payments = join(folder, "payments");
const charges = (): string[] =>
  existsSync(payments) ? readFileSync(payments, "utf8").trim().split("\n") : [];

const charge = tool({
  name: "charge",
  description: "Charge the customer's card",
  input: z.object({ order: z.string() }),
  effect: "mutate",
  execute: ({ order }, { key }) => {
    appendFileSync(payments, `${key}\n`);
    process.kill(process.pid, "SIGKILL");
    return `paid ${order}`;
  },
  verify: (_args, { key }) => (charges().includes(key) ? landed("paid") : never()),
});

const holdfast = await open(join(folder, "store.db"));
if (role === "agent") await work();
else await lookAfterAgents();
await holdfast.close();

/** The agent that the supervisor starts, once for the task and once more after the kill. */
async function work(): Promise<void> {
  const { HOLDFAST_GOAL = "", HOLDFAST_TASK = "" } = process.env;
  const goal = await holdfast.goal(HOLDFAST_GOAL, { by: { name: "agent", role: "worker" } });
  const id = `agent-${goal.task(HOLDFAST_TASK).attempts + 1}`;
  await goal.startSession({ session: id });
  const claim = await goal.claim(HOLDFAST_TASK, { session: id });
  await claim.progress("charging the card");
  // The session belongs to the goal, so it continues with its task. Without a goal it would get its own
  // worker.
  const session = await holdfast.session("order-4711", { goal: goal.id });
  await session.call({ callId: "charge-4711", tool: charge, args: { order: "4711" } });
  await claim.submit({ summary: "paid" });
  await goal.endSession({ session: id });
  await goal.close();
}

async function lookAfterAgents(): Promise<void> {
  const goal = await holdfast.goal("checkout", {
    statement: "Pay order 4711",
    verification: "self",
    tasks: [{ title: "pay" }],
  });
  const before = await holdfast.superviseOnce();
  console.log(`ready: ${before.ready.length}, crashed: ${before.crashed.length}`);

  const done = new AbortController();
  await holdfast.supervise({
    tools: [charge],
    start: { command: [process.execPath, ...process.execArgv, script, "agent", folder], output: "ignore" },
    backoffMs: 10,
    everyMs: 200,
    signal: done.signal,
    onEvent: (event) => {
      if (event.type === "task.reset") console.log(`put back: ${event.task}, was ${event.note}`);
      if (event.type === "call.settled") console.log(`settled: ${event.callId} ${event.status}`);
      if (event.type === "worker.ended") console.log(`worker: ${event.how}`);
      if (event.type === "worker.ended" && event.how === "done") done.abort();
    },
  });
  await goal.refresh();
  console.log(`task: ${goal.task("T-001").status}; charged ${charges().length}×`);
  console.log(
    `sessions: ${goal
      .chain("agent-2")
      .map(({ id, status }) => `${id} ${status}`)
      .join(", ")}`,
  );
}
