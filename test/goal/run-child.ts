// One run of an agent over a goal, to be killed from outside. It prints its position on stdout and appends a
// line to the world's own log, beside the store, whenever it executes a task.

import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { openGoal, runWithCheckpoints, type TaskAgent } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";

const [store = "", world = "", verification = ""] = process.argv.slice(2);
const isSelf = verification === "self";

const journal = new Journal({ store: await openSqlite({ path: store }) });
const goal = await openGoal(journal, "checkout", {
  statement: "Ship it",
  verification: isSelf ? "self" : "separate",
  maxAttempts: 10,
  phases: ["one", "two"],
  tasks: [
    { title: "a", phase: 1 },
    { title: "b", phase: 1, dependsOn: ["T-001"] },
    { title: "c", phase: 1, wave: 2 },
    { title: "d", phase: 2 },
    { title: "e", phase: 2, dependsOn: ["T-004"] },
  ],
});
process.stdout.write("open\n");

const agent: TaskAgent = {
  name: "agent",
  async executeTask(task, context) {
    appendFileSync(world, `${JSON.stringify({ task: task.id, attempt: context.attempt, at: Date.now() })}\n`);
    process.stdout.write(`execute ${task.id}\n`);
    await context.progress("begun");
    await sleep(5);
    await context.finding(`seen-${task.id}`, context.attempt);
    // The second task fails once, with or without kills.
    if (task.id === "T-002" && task.failures === 0) throw new Error("flaky");
    return { summary: `did ${task.id}` };
  },
};
if (!isSelf) {
  agent.verifyTask = async (task) => {
    process.stdout.write(`verify ${task.id}\n`);
    await sleep(2);
    return true;
  };
}

const report = await runWithCheckpoints(agent, goal, { retry: { backoffMs: 1 } });
await journal.store.close();
process.stdout.write(`report ${report.status}\n`);
