// `watch` ends silently when its reader closes the pipe, even while nothing changes.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, afterEach, expect, test } from "vitest";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

const named = ["--store", "store.db"];
const line = await CommandLine.build();
const started: ChildProcess[] = [];

afterEach(async () => {
  for (const child of started.splice(0)) {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, "exit") : null;
    try {
      process.kill(-(child.pid ?? 0), "SIGKILL");
    } catch {
      // The process has ended, as expected.
    }
    await ended;
  }
});
afterAll(() => line.remove());

function start(command: string): ChildProcess {
  const child = spawn("bash", ["-c", command], { cwd: line.project, env: environment(), detached: true });
  started.push(child);
  return child;
}

test.each(["", "--json"])("watch %s ends when its reader closes the pipe", async (how) => {
  await runInside(line.project, ["init", "--agent", "none", ...named]);
  const watch = `'${process.execPath}' '${line.cli}' watch ${how} ${named.join(" ")}`;
  const child = start(`${watch} | head -n 1; echo "ended with \${PIPESTATUS[0]}"`);
  let said = "";
  child.stdout?.on("data", (chunk: unknown) => {
    said += String(chunk);
  });
  await once(child, "close");
  expect(said).toMatch(/\nended with 141\n$/);
});

test("while the reader is there, every line is an answer", async () => {
  await runInside(line.project, ["init", "--agent", "none", ...named]);
  const child = start(`exec '${process.execPath}' '${line.cli}' watch --json ${named.join(" ")}`);
  let said = "";
  const told = (isThere: (text: string) => boolean): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (isThere(said)) resolve();
      };
      child.stdout?.on("data", (chunk: unknown) => {
        said += String(chunk);
        look();
      });
    });
  await told((text) => text.endsWith("\n "));
  child.stdout?.removeAllListeners("data");
  const more = told((text) => text.trimEnd().includes("\n") && text.includes('"goal":"checkout"'));
  await runInside(line.project, ["goal", "new", "checkout", "Ship", ...named]);
  await more;
  const kinds = said
    .trimEnd()
    .split("\n")
    .map((each) => JSON.parse(each).kind);
  expect(new Set(kinds)).toEqual(new Set(["status"]));
});
