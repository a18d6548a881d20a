/**
 * `runWithCheckpoints` runs an agent over the tasks of a goal. Every step is durable: run the program again
 * after a kill, and it continues with the next task. Here the agent fails once and is retried, and the run is
 * stopped in the middle and started again.
 */

import { open, runWithCheckpoints, type TaskAgent } from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const folder = temporaryFolder();
const executed: string[] = [];
const stop = new AbortController();

const agent: TaskAgent = {
  name: "builder",
  executeTask: async (task, { finding, progress, attempt }) => {
    executed.push(task.id);
    await progress(`attempt ${attempt}`);
    if (task.id === "T-001" && attempt === 1) throw new Error("a flaky test");
    if (task.id === "T-002") await finding("port", 8080, "server.ts");
    if (task.id === "T-002") stop.abort();
    return { summary: `${task.title} works` };
  },
  verifyTask: async (_, evidence) => evidence.summary?.endsWith("works") === true,
};

async function program(signal?: AbortSignal): Promise<string> {
  const holdfast = await open(folder);
  const goal = await holdfast.goal("build", {
    statement: "Build it",
    verification: "self",
    tasks: [
      { title: "one" },
      { title: "two", dependsOn: ["T-001"] },
      { title: "three", dependsOn: ["T-002"] },
    ],
  });
  const report = await runWithCheckpoints(agent, goal, {
    retry: { backoffMs: 20 },
    ...(signal && { signal }),
  });
  await holdfast.close();
  return `${report.status}, ${report.progress.tasksCompleted} of ${report.progress.tasksTotal} tasks`;
}

console.log(`first run:  ${await program(stop.signal)}`);
console.log(`second run: ${await program()}`);
console.log(`executed: ${executed.join(", ")}`);
