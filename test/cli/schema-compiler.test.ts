// A command that writes `.planning/` is over before a compiler of schemas would be loaded.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

const line = await CommandLine.build();
afterAll(() => line.remove());

test("a command that writes the files beside a goal does not load the schema compiler, and one that refuses an edit does", async () => {
  const { project } = line;
  const list = join(project, "loaded.txt");
  const spy = join(project, "spy.cjs");
  writeFileSync(
    spy,
    `process.on("exit", () => require("node:fs").writeFileSync(${JSON.stringify(list)}, Object.keys(require.cache).join("\\n")));`,
  );
  const run = (...args: string[]) => line.run(args, { env: { NODE_OPTIONS: `--require ${spy}` } });
  const hasLoaded = (name: string) => readFileSync(list, "utf8").includes(name);
  await runInside(project, ["init", "--agent", "none"]);
  await runInside(project, ["goal", "new", "checkout", "Ship the checkout"]);
  expect(await run("task", "add", "Build the cart")).toMatchObject({ code: 0, err: "" });
  expect([hasLoaded("spy.cjs"), hasLoaded("/ajv/")]).toEqual([true, false]);
  // The spy sees what it is meant to see: an error is worded by the compiler.
  const board = join(project, ".planning", "task_board.json");
  writeFileSync(board, readFileSync(board, "utf8").replace('"status": "open"', '"status": "shut"'));
  const refused = await run("rebuild");
  expect(refused.out + refused.err).toContain("shut");
  expect(hasLoaded("/ajv/")).toBe(true);
});
