// Claims a task in the store that a worktree finds, reports it, and keeps it until its input ends.

import { resolve } from "node:path";
import { open } from "../../../src/open.ts";

const [task = ""] = process.argv.slice(2);
const holdfast = await open();
const goal = await holdfast.goal("checkout", {
  by: { name: `w-${task}`, role: "worker" },
  root: process.cwd(),
});
await goal.claim(task);
const store = resolve(holdfast.address.replace(/^sqlite /, ""));
process.stdout.write(`${JSON.stringify({ address: store, claimed: task })}\n`);
process.stdin.resume();
process.stdin.on("end", async () => {
  const seen = [...(await goal.refresh()).state.tasks.values()].map(({ id, claim }) => [
    id,
    claim?.by.name ?? null,
  ]);
  process.stdout.write(`${JSON.stringify(seen)}\n`);
  await holdfast.close();
});
