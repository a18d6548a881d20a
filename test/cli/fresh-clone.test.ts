// A clone has the files of `.planning/` but no store: the first command creates the store from them.

import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

const PAGE = ".planning/STATE.md";

test("a fresh clone has the same status and STATE.md, and git ignores its store", async () => {
  for (const words of [
    ["init"],
    ["goal", "new", "checkout", "Ship the checkout"],
    ["task", "add", "Build the cart"],
    ["decide", "Use jose", "--for", "auth", "--because", "it is small"],
    ["rebuild"],
  ]) {
    expect(await runInside(line.project, words)).toMatchObject({ code: 0 });
  }
  const clone = line.newProject();
  cpSync(join(line.project, ".planning"), join(clone, ".planning"), { recursive: true });
  const cloned = await line.run(["status", "--json"], { cwd: clone });
  expect(cloned.err).toBe("");
  const status = (text: string) => (JSON.parse(text) as { data: { goals: object[] } }).data.goals;
  expect(status(cloned.out)).toEqual(status(await line.say("status", "--json")));
  expect((await runInside(clone, ["rebuild"])).code).toBe(0);
  expect(readFileSync(join(clone, PAGE), "utf8")).toBe(readFileSync(join(line.project, PAGE), "utf8"));
  expect(readFileSync(join(clone, ".holdfast/.gitignore"), "utf8")).toBe("*\n");
});

test("a folder without events, or a named store that is missing, is rejected", async () => {
  const empty = line.newProject();
  expect(await line.run(["status"], { cwd: empty })).toMatchObject({ code: 3 });
  const clone = line.newProject();
  cpSync(join(line.project, ".planning"), join(clone, ".planning"), { recursive: true });
  expect((await line.run(["status", "--store", "other.db"], { cwd: clone })).code).toBe(3);
});
