// Writes to a goal with a folder, every few milliseconds, until it is killed or has written `count` times.
// Says on stdout what the store has acknowledged. With `told`, each write also waits for a line on stdin, so
// that who reads meanwhile keeps up.

import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { open } from "../../../src/open.ts";
import { projectGoal } from "../../../src/projections/index.ts";

const [store = "", root = "", name = "", count = "0", everyMs = "50", told] = process.argv.slice(2);
const words = told === "told" ? createInterface({ input: process.stdin })[Symbol.asyncIterator]() : null;

const holdfast = await open(store);
const by = { name, role: "orchestrator" } as const;
const goal = await holdfast.goal("checkout", { root, by });
const folder = await projectGoal(goal);
process.stdout.write("ready\n");
for (let index = 0; index < Number(count); index++) {
  await words?.next();
  const key = `${name}-${index}`;
  await goal.fact({ key, value: index, source: "x".repeat(100) });
  process.stdout.write(`${key}\n`);
  if (index % 5 === 0) await goal.decide({ type: "constraint", context: key, decision: key, reason: key });
  if (index % 7 === 0) await goal.addTask({ title: key });
  await pause(Number(everyMs));
}
await folder.close();
await holdfast.close();
process.stdin.destroy();
