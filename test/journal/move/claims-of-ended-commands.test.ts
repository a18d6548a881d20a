// A claim by a command outlives its process. A move that it blocks names the command that releases it.

import { afterAll, expect, test } from "vitest";
import { CommandLine } from "../../cli/command-line.ts";
import { runInside } from "../../cli/inside.ts";

const line = await CommandLine.build();
afterAll(() => line.remove());

test.each([
  [".holdfast", []],
  ["named.db", ["--store", "named.db"]],
])("the hint of a move from %s is a command that makes the move possible", async (from, store) => {
  const project = line.newProject();
  const say = (...words: string[]) => runInside(project, words);
  await say("init", "--agent", "none", ...store);
  await say("goal", "new", "checkout", "Ship it", ...store);
  await say("task", "add", "One", ...store);
  const claimed = await line.run(["task", "claim", "1", "--by", "ann", ...store], { cwd: project });
  expect(claimed.code).toBe(0);
  const { code, err } = await say("move", "--yes", from, "moved.db");
  expect(code).toBe(4);
  const command = /whose agent is gone: holdfast (.*)$/m.exec(err)?.[1] ?? "";
  expect(command).toMatch(/^task release T-001 --force /);
  const words = command.split(" ").map((each) => each.replaceAll('"', ""));
  expect(await say(...words)).toMatchObject({ code: 0 });
  expect(await say("move", "--yes", from, "moved.db")).toMatchObject({ code: 0 });
});
