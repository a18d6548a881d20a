/**
 * Hooks as a coding agent runs them: a cold process from start to end, against a Node that does nothing.
 * `hookVsNode` is the slowest of three: the hooks before and after every tool use, and the hook at the start of a
 * session, which prints the briefing of a larger goal. The store is as a killed agent leaves it: not closed, its WAL
 * full.
 */

import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Goal } from "../src/index.ts";
import { builtCommandLine, live } from "./command-line.ts";
import type { Measure } from "./measure.ts";
import { alternate, ratio } from "./rounds.ts";
import type { Scratch } from "./scratch.ts";
import { median, rounded } from "./statistics.ts";

const ROUNDS = 15;
const TASKS = 200;
const DECISIONS = 50;
const SESSIONS = 30;
const FILES = 60;
/** More than of the other hooks, since its bar is closer. */
const TOUCHED_ROUNDS = 41;

const fileName = (index: number): string => `src/part-${index}.ts`;
const nothing = (): void => live(["-e", "0"]);

const EDIT = { session_id: "bench", tool_name: "Edit", tool_input: { file_path: fileName(1) } };

export const touchedVsNode: Measure = {
  name: "touchedVsNode",
  what: "holdfast hook touched, cold, after every tool use, against node -e 0",
  bar: 1.3,
  direction: "at most",
  async run(scratch) {
    const { hook } = await hooksIn(scratch, "touched");
    const rounds = await alternate(TOUCHED_ROUNDS, nothing, () => hook("touched", EDIT));
    const { rawMs, oursMs } = rounds;
    const numbers = {
      nodeMs: rounded(median(rawMs)),
      touchedMs: rounded(median(oursMs)),
      nodeBestMs: rounded(Math.min(...rawMs)),
      touchedBestMs: rounded(Math.min(...oursMs)),
      rounds: TOUCHED_ROUNDS,
    };
    return { value: ratio(rounds), numbers };
  },
};

export const hookVsNode: Measure = {
  name: "hookVsNode",
  what: "holdfast hook, cold, the slowest of tool use and session start, against node -e 0",
  bar: 2,
  direction: "at most",
  async run(scratch) {
    const { hook, cwd, cli } = await hooksIn(scratch, "hook");
    const push = { session_id: "bench", tool_name: "Bash", tool_input: { command: "git push" } };
    const before = await alternate(ROUNDS, nothing, () => hook("tool-start", push));
    const touched = await alternate(ROUNDS, nothing, () => hook("touched", EDIT));
    const started = await alternate(
      ROUNDS,
      nothing,
      () => hook("session-start", { session_id: "bench", source: "startup" }),
      // Finishes the background writes of the last start, so that they do not slow the next round.
      () => {
        live([cli, "hook", "ingest"], { cwd });
        forgetStarts(cwd);
      },
    );
    live([cli, "hook", "ingest"], { cwd });
    const numbers = {
      nodeMs: rounded(median([...touched.rawMs, ...started.rawMs])),
      toolStartMs: rounded(median(before.oursMs)),
      toolStartToNode: ratio(before),
      toolUseMs: rounded(median(touched.oursMs)),
      toolUseToNode: ratio(touched),
      sessionStartMs: rounded(median(started.oursMs)),
      sessionStartBestMs: rounded(Math.min(...started.oursMs)),
      sessionStartToNode: ratio(started),
      rounds: ROUNDS,
    };
    return { value: Math.max(ratio(before), ratio(touched), ratio(started)), numbers };
  },
};

/** A session start is briefed once, so each round must look like a new start. */
function forgetStarts(cwd: string): void {
  const folder = join(cwd, ".holdfast", "hooks");
  for (const name of readdirSync(folder)) if (name.endsWith(".briefed")) rmSync(join(folder, name));
}

async function hooksIn(scratch: Scratch, name: string) {
  const cli = await builtCommandLine(scratch);
  const cwd = await project(scratch, name);
  const hook = (event: string, input: object): void =>
    live([cli, "hook", "claude", event], { cwd, input: JSON.stringify({ cwd, ...input }) });
  return { cli, cwd, hook };
}

async function project(scratch: Scratch, name: string): Promise<string> {
  const root = resolve(scratch.path, `project-${name}`);
  mkdirSync(join(root, ".git"), { recursive: true });
  mkdirSync(join(root, "src"));
  for (let index = 0; index < FILES; index++)
    writeFileSync(join(root, fileName(index)), `export const part = ${index};\n`.repeat(200));
  const holdfast = await scratch.openOurs(join(root, ".holdfast", "store.db"));
  await fill(await holdfast.goal("checkout", { statement: "Ship the checkout", root }));
  return root;
}

async function fill(goal: Goal): Promise<void> {
  await goal.addTasks({
    tasks: Array.from({ length: TASKS }, (_, index) => ({
      title: `Implement part ${index} of the checkout`,
      description: `It should do ${index} things well. `.repeat(6),
      acceptance: ["its tests pass", "its page says how it is used"],
      files: [fileName(index)],
    })),
  });
  for (let index = 0; index < DECISIONS; index++)
    await goal.decide({
      type: "technology",
      context: `how to do ${index}`,
      decision: `use library number ${index}`,
      reason: `it is well kept and small, and ${index} people here know it`,
    });
  for (let index = 0; index < SESSIONS; index++) {
    const session = `claude-${index}`;
    await goal.startSession({ session, agent: "claude" });
    const files = [0, 1].map((each) => ({
      path: fileName((2 * index + each) % FILES),
      act: "modified" as const,
    }));
    await goal.recordFiles({ session, files });
    await goal.endSession({
      session,
      notes: `worked on part ${index}; the tests of the next one still fail`,
    });
  }
}
