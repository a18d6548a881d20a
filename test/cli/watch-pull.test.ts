// `watch` shows pulled events, although a pull writes files and not the store.

import { spawn } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

test("watch merges pulled events", async () => {
  const line = await CommandLine.build();
  const theirs = line.newProject();
  await runInside(line.project, ["init", "--agent", "none"]);
  await runInside(line.project, ["goal", "new", "checkout", "Ship the checkout"]);
  cpSync(join(line.project, ".planning"), join(theirs, ".planning"), { recursive: true });
  await runInside(theirs, ["task", "add", "one"]);

  const child = spawn(process.execPath, [line.cli, "watch", "--json"], {
    cwd: line.project,
    env: environment(),
  });
  const ended = new Promise((resolve) => child.on("close", resolve));
  let said = "";
  const told = (words: string): Promise<void> =>
    new Promise((resolve) => {
      const look = (chunk: unknown): void => {
        said += String(chunk);
        if (said.includes(words)) resolve();
      };
      child.stdout.on("data", look);
    });
  await told('"tasks":0');
  cpSync(join(theirs, ".planning/events"), join(line.project, ".planning/events"), { recursive: true });
  await told('"tasks":1');
  child.kill("SIGINT");
  await ended;
  expect(said).toContain('"goal":"checkout"');
  line.remove();
});
