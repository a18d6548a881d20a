// A command that writes `.planning/` does not load the schema compiler, which is slow to load.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

const line = await CommandLine.build();
afterAll(() => line.remove());

test("writing a goal's files does not load the schema compiler, but rejecting an edit does", async () => {
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
  // The spy works: the compiler produces the error message.
  const board = join(project, ".planning", "task_board.json");
  writeFileSync(board, readFileSync(board, "utf8").replace('"status": "open"', '"status": "shut"'));
  const refused = await run("rebuild");
  expect(refused.out + refused.err).toContain("shut");
  expect(hasLoaded("/ajv/")).toBe(true);
});
