// A clone has the files of `.planning/` but no store: the first command creates the store from them.

import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
afterEach(() => {
  vi.restoreAllMocks();
});

const PAGE = ".planning/STATE.md";

test("a fresh clone has the same status and STATE.md, and git ignores its store", async () => {
  for (const words of [
    ["init"],
    ["goal", "new", "checkout", "Ship the checkout"],
    ["task", "add", "Build the cart"],
    ["decide", "Use jose", "--context", "auth", "--reason", "it is small"],
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

test("a clone whose clock is days behind says until when the goal waits, and has all of it then", async () => {
  const ahead = line.newProject();
  const HOUR = 3_600_000;
  const at = Date.now();
  const isNow = (ms: number) => vi.spyOn(Date, "now").mockReturnValue(ms);
  isNow(at + 30 * HOUR);
  for (const words of [
    ["init"],
    ["goal", "new", "checkout", "Ship it"],
    ["task", "add", "Cart"],
    ["rebuild"],
  ])
    expect(await runInside(ahead, words)).toMatchObject({ code: 0 });
  const clone = line.newProject();
  cpSync(join(ahead, ".planning"), join(clone, ".planning"), { recursive: true });
  const until = new Date(at + 6 * HOUR).toISOString();
  for (const words of [
    ["goal", "show"],
    ["next", "--goal", "checkout"],
    ["goal", "new", "checkout", "Ours"],
  ]) {
    isNow(at);
    const { code, err } = await runInside(clone, words);
    expect(code, words.join(" ")).not.toBe(0);
    expect(err, words.join(" ")).toContain(until);
    expect(err).toMatch(/there is no goal checkout yet: its event files are dated/);
    expect(err).not.toMatch(/git checkout|goal new/);
  }
  isNow(at + 6 * HOUR + 1);
  const shown = await runInside(clone, ["goal", "show", "--json"]);
  expect(JSON.parse(shown.out)).toMatchObject({ data: { goal: "checkout", statement: "Ship it" } });
});
