/**
 * `holdfast status` as a person or a hook runs it: a cold process from start to end, against a Node that
 * does nothing. The command line is built as published. The store has a goal, tasks and sessions.
 */

import { resolve } from "node:path";
import { builtCommandLine, live } from "./command-line.ts";
import type { Measure } from "./measure.ts";
import { alternate, ratio } from "./rounds.ts";
import type { Scratch } from "./scratch.ts";
import { median, rounded } from "./statistics.ts";

const ROUNDS = 15;
const TASKS = 40;
const SESSIONS = 20;

export const statusVsNode: Measure = {
  name: "statusVsNode",
  what: "holdfast status, cold, against node -e 0",
  bar: 2,
  direction: "at most",
  async run(scratch) {
    const cli = await builtCommandLine(scratch);
    const store = await filledStore(scratch);
    const rounds = await alternate(
      ROUNDS,
      () => live(["-e", "0"]),
      () => live([cli, "status", "--store", store]),
    );
    const { rawMs, oursMs } = rounds;
    const numbers = {
      nodeMs: rounded(median(rawMs)),
      statusMs: rounded(median(oursMs)),
      nodeBestMs: rounded(Math.min(...rawMs)),
      statusBestMs: rounded(Math.min(...oursMs)),
      rounds: ROUNDS,
    };
    return { value: ratio(rounds), numbers };
  },
};

async function filledStore(scratch: Scratch): Promise<string> {
  const store = resolve(scratch.file("status"));
  const holdfast = await scratch.openOurs(store);
  const goal = await holdfast.goal("checkout", { statement: "Ship the checkout" });
  await goal.addTasks({ tasks: Array.from({ length: TASKS }, (_, index) => ({ title: `task ${index}` })) });
  for (let index = 0; index < SESSIONS; index++) {
    const session = await holdfast.session(`session-${index}`);
    await session.append({ role: "user", text: "hello" });
    await session.close();
  }
  return store;
}
