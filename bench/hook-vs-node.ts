/**
 * A hook as a coding agent meets it: a cold process, from its start to its end, against a Node that does nothing. What is
 * judged is the hook that runs after every tool use; the one that runs once per session, and reads and writes the store, is
 * shown beside it.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { builtCommandLine, live } from "./command-line.ts";
import type { Measure } from "./measure.ts";
import { alternate, ratio } from "./rounds.ts";
import type { Scratch } from "./scratch.ts";
import { median, rounded } from "./statistics.ts";

const ROUNDS = 15;
const STARTS = 7;
const TASKS = 40;

export const hookVsNode: Measure = {
  name: "hookVsNode",
  what: "holdfast hook, after a tool use, cold, against node -e 0",
  bar: 2,
  direction: "at most",
  async run(scratch) {
    const cli = await builtCommandLine(scratch);
    const cwd = await project(scratch);
    const hook = (event: string, input: object): void =>
      live([cli, "hook", "claude", event], { cwd, input: JSON.stringify({ cwd, ...input }) });
    const edit = { session_id: "bench", tool_name: "Edit", tool_input: { file_path: "edited.ts" } };
    const nothing = (): void => live(["-e", "0"]);
    const touched = await alternate(ROUNDS, nothing, () => hook("touched", edit));
    const started = await alternate(STARTS, nothing, (round) =>
      hook("session-start", { session_id: `bench-${round}`, source: "startup" }),
    );
    const numbers = {
      nodeMs: rounded(median(touched.rawMs)),
      hookMs: rounded(median(touched.oursMs)),
      hookBestMs: rounded(Math.min(...touched.oursMs)),
      sessionStartMs: rounded(median(started.oursMs)),
      sessionStartToNode: ratio(started),
      rounds: ROUNDS,
    };
    return { value: ratio(touched), numbers };
  },
};

/** With a goal, tasks and a file to be hashed. */
async function project(scratch: Scratch): Promise<string> {
  const root = resolve(scratch.path, "project");
  mkdirSync(join(root, ".git"), { recursive: true });
  writeFileSync(join(root, "edited.ts"), "export const edited = true;\n".repeat(200));
  const holdfast = await scratch.openOurs(join(root, ".holdfast", "store.db"));
  const goal = await holdfast.goal("checkout", { statement: "Ship the checkout" });
  await goal.addTasks({ tasks: Array.from({ length: TASKS }, (_, index) => ({ title: `task ${index}` })) });
  return root;
}
