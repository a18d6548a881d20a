// `watch` prints each change once.

import { spawn } from "node:child_process";
import { expect, test } from "vitest";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

test("watch prints no change twice", async () => {
  const line = await CommandLine.build();
  // Without .planning/, which watch polls as well.
  const named = ["--store", "store.db"];
  await runInside(line.project, ["init", "--agent", "none", ...named]);
  const child = spawn(process.execPath, [line.cli, "watch", "--json", ...named], {
    cwd: line.project,
    env: environment(),
  });
  const ended = new Promise((resolve) => child.on("close", resolve));
  let said = "";
  child.stdout.on("data", (chunk: unknown) => {
    said += String(chunk);
  });
  const told = (words: string): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (said.includes(words)) resolve();
      };
      child.stdout.on("data", look);
      look();
    });
  await told('"kind":"status"');
  await runInside(line.project, ["goal", "new", "checkout", "Ship", ...named]);
  await told('"goal":"checkout"');
  child.kill("SIGINT");
  await ended;
  const answers = said.trim().split("\n");
  expect(answers.length).toBeGreaterThan(1);
  expect(answers.filter((each, index) => each === answers[index - 1])).toEqual([]);
  line.remove();
});
