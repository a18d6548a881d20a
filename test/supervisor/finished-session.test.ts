// Real processes on one SQLite file, and the command line.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { open, type SupervisorEvent } from "../../src/index.ts";
import { Sweeper } from "../../src/supervisor/index.ts";
import { runInside } from "../cli/inside.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(quickFolder(), "holdfast-finished-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("an effect happens once, also when the worker fails after it has completed the session", async () => {
  const program = programFile(new URL("./programs/session-worker.ts", import.meta.url));
  const store = join(folder, "store.db");
  const world = join(folder, "world");
  const command = [process.execPath, program, store, world];
  await once(spawn(command[0] ?? "", command.slice(1), { stdio: "ignore" }), "exit");
  const holdfast = await open(store);
  const stop = new AbortController();
  const ended: Extract<SupervisorEvent, { type: "worker.ended" }>[] = [];
  let looks = 0;
  const sweep = Sweeper.prototype.sweep;
  Sweeper.prototype.sweep = function (this: Sweeper) {
    // After five more sweeps a worker would have been started again.
    if (ended.length > 0 && ++looks > 5) stop.abort();
    return sweep.call(this);
  };
  try {
    await holdfast.supervise({
      start: { command, output: "ignore" },
      everyMs: 10,
      backoffMs: 0,
      signal: stop.signal,
      onEvent: (event) => event.type === "worker.ended" && ended.push(event),
    });
  } finally {
    Sweeper.prototype.sweep = sweep;
  }
  expect(ended.map(({ how, why }) => [how, why])).toEqual([["died", "it ended with exit code 1"]]);
  expect(readFileSync(world, "utf8").trim().split("\n")).toHaveLength(1);
  await holdfast.close();
});

test("supervise --parallel 0 is rejected at once", async () => {
  const store = join(folder, "store.db");
  await (await open(store)).close();
  const said = ["supervise", "--store", store, "--parallel", "0", "--", "true"];
  const { code, err } = await runInside(folder, said);
  expect([code, err]).toEqual([2, expect.stringContaining("--parallel 0")]);
});
