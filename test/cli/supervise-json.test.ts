// `supervise --json` prints only JSON on stdout. Output of workers goes to stderr.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

test("a worker's output goes to stderr, and every line of stdout is JSON", async () => {
  const line = await CommandLine.build();
  const say = (...words: string[]) => runInside(line.project, words);
  await say("init", "--agent", "none");
  await say("goal", "new", "checkout", "Ship it");
  await say("task", "add", "One");
  const worker = ["sh", "-c", "echo printed; echo complained >&2"];
  const child = spawn(process.execPath, [line.cli, "supervise", "--json", "--", ...worker], {
    cwd: line.project,
    env: environment(),
  });
  const said = { out: "", err: "" };
  const both = new Promise<void>((resolve) => {
    const hear = (name: "out" | "err") => (chunk: unknown) => {
      said[name] += String(chunk);
      const all = said.out + said.err;
      if (all.includes("printed") && all.includes("complained") && said.out.includes("worker.ended"))
        resolve();
    };
    child.stdout.on("data", hear("out"));
    child.stderr.on("data", hear("err"));
  });
  await both;
  child.kill("SIGTERM");
  await once(child, "close");
  const kinds = said.out
    .trim()
    .split("\n")
    .map((each) => JSON.parse(each).kind as string);
  expect(new Set(kinds)).toEqual(new Set(["supervise"]));
  expect(said.err).toMatch(/printed/);
  expect(said.err).toMatch(/complained/);
  line.remove();
});
