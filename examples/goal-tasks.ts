/**
 * Working on a goal's tasks. An agent claims a task under a lease. An agent whose task was taken over gets an
 * error and can write nothing more. An agent does not close its own task: a verifier does.
 */

import { isHoldfastError, open } from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const holdfast = await open(temporaryFolder());
const worker = { name: "w1", role: "worker" } as const;
const verifier = { name: "v1", role: "verifier" } as const;
const supervisor = { name: "s1", role: "supervisor" } as const;
const titles = ["schema", "tokens", "docs", "deploy", "report"];
const goal = await holdfast.goal("work", {
  statement: "Get it done",
  tasks: titles.map((title) => ({ title })),
});
const status = (task: string): string => `${goal.task(task).title} ${goal.task(task).status}`;

// Done, and accepted by a verifier.
const schema = await goal.claim("T-001", { by: worker });
console.log(`still ours: ${await schema.heartbeat()}`);
await schema.progress("the tables are there, the indexes are not");
await schema.submit({ summary: "12 tables", commands: [{ command: "npm test", exitCode: 0 }] });
await goal.verify({ task: "T-001", accept: true, by: verifier });
console.log(status("T-001"));

// Failed, then retried.
await (await goal.claim("T-002", { by: worker })).fail("the key is missing");
console.log(status("T-002"));
await goal.retry({ task: "T-002", why: "the key came" });
console.log(status("T-002"));

// Blocked, then released.
const blocker = await (await goal.claim("T-003", { by: worker })).block("nobody knows the domain");
console.log(`${status("T-003")}, blocked by ${blocker}`);
await goal.resolve({ blocker, resolution: "example.com" });
await (await goal.claim("T-003", { by: worker })).release("lunch");

// Taken over: the old holder is a zombie, and its writes are rejected.
const zombie = await goal.claim("T-004", { by: worker });
await goal.reset({ task: "T-004", why: "no sign of life", force: true, by: supervisor });
try {
  await zombie.submit({ summary: "done!" });
} catch (error) {
  if (!isHoldfastError(error, "LEASE_LOST")) throw error;
  console.log(`the zombie hears ${error.code}; ${status("T-004")}`);
}

// The same without a claim object, for command lines whose process ends in between.
const work = { by: worker } as const;
await goal.claim("T-005", { ...work, detached: true });
await goal.noteProgress({ task: "T-005", note: "half of it", ...work });
await goal.release({ task: "T-005", why: "lunch", ...work });
await goal.claim("T-005", { ...work, detached: true });
await goal.fail({ task: "T-005", error: "no paper", ...work });
await goal.retry({ task: "T-005", why: "paper came" });
await goal.claim("T-005", { ...work, detached: true });
const description = "the printer jams";
await goal.resolve({
  blocker: await goal.blockTask({ task: "T-005", description, ...work }),
  resolution: "it works",
});
await goal.claim("T-005", { ...work, detached: true });
await goal.submit({ task: "T-005", summary: "printed", ...work });
console.log(status("T-005"));

await goal.refresh();
const { tasksCompleted, tasksTotal } = goal.progress();
console.log(`${tasksCompleted} of ${tasksTotal} done`);
await goal.close();
await holdfast.close();
