// The fast path of `status` reads its options without commander. Both must give the same answer.

import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
  await runInside(line.project, ["init", "--agent", "none"]);
  await runInside(line.project, ["goal", "new", "checkout", "Ship the checkout"]);
});
afterAll(() => line.remove());

test.each([
  [],
  ["--json"],
  ["--goal", "check"],
  ["--goal=checkout", "--json"],
  ["--goal", "unknown"],
  ["--goal"],
  ["--goal="],
  ["--store", ".holdfast/store.db"],
  ["--store=.holdfast/store.db", "--json"],
  ["--store", "missing.db"],
  ["--json=yes"],
  ["--line"],
  ["--line", "--goal", "checkout"],
  ["--line=yes"],
  ["--unknown"],
  ["more"],
])("status %s %s", async (...options) => {
  const args = ["status", ...options];
  expect(await line.run(args)).toEqual(await runInside(line.project, args));
});

test("one line has the goal, its progress and the task in hand", async () => {
  await runInside(line.project, ["task", "add", "Round to cents"]);
  await runInside(line.project, ["task", "claim", "T-001", "--by", "worker"]);
  expect((await line.run(["status", "--line"])).out).toBe("checkout 0/1 · T-001 Round to cents\n");
});
