// Options and environment variables of a command apply to its output and to the workers that it starts.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

/** Output up to and including these words. */
async function printed(child: ReturnType<typeof spawn>, words: string): Promise<string> {
  let said = "";
  await new Promise<void>((resolve, reject) => {
    child.stdout?.on("data", (chunk: unknown) => {
      said += String(chunk);
      if (said.includes(words)) resolve();
    });
    child.once("close", () => reject(new Error(`it ended without saying ${words}: ${said}`)));
  });
  const closed = once(child, "close");
  child.kill("SIGTERM");
  await closed;
  return said;
}

test("watch shows the goal of HOLDFAST_GOAL, as status does", async () => {
  const line = await CommandLine.build();
  await runInside(line.project, ["init", "--agent", "none"]);
  await runInside(line.project, ["goal", "new", "checkout", "Ship the checkout"]);
  await runInside(line.project, ["goal", "new", "search", "Find things"]);
  const child = spawn(process.execPath, [line.cli, "watch", "--json"], {
    cwd: line.project,
    env: { ...environment(), HOLDFAST_GOAL: "search" },
  });
  const said = await printed(child, '"kind":"status"');
  expect(said).toContain('"goal":"search"');
  expect(said).not.toContain('"goal":"checkout"');
  line.remove();
});

test("a worker's commands find the store that was passed to supervise", async () => {
  const line = await CommandLine.build();
  const named = ["--store", "elsewhere.db"];
  await runInside(line.project, ["init", "--agent", "none", ...named]);
  await runInside(line.project, ["goal", "new", "checkout", "Ship it", ...named]);
  await runInside(line.project, ["task", "add", "One", ...named]);
  const claim = `"${process.execPath}" "${line.cli}" task claim "$HOLDFAST_TASK" && echo claimed there`;
  const child = spawn(process.execPath, [line.cli, "supervise", ...named, "--", "sh", "-c", claim], {
    cwd: line.project,
    env: environment(),
  });
  await printed(child, "claimed there");
  line.remove();
});
