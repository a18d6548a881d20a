// Several goals in one repository: `.planning/` has the events of all and shows one.

import { cpSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

async function say(cwd: string, ...words: string[]): Promise<string> {
  const { code, out, err } = await runInside(cwd, words);
  expect({ words, code, err }).toMatchObject({ words, code: 0, err: "" });
  return out;
}

const page = (cwd = project) => readFileSync(join(cwd, ".planning/STATE.md"), "utf8");
const goals = async (cwd: string) =>
  (JSON.parse(await say(cwd, "goal", "list", "--json")) as { data: { goals: { goal: string }[] } }).data.goals
    .map(({ goal }) => goal)
    .sort();

function cloned(): string {
  const clone = line.newProject();
  cpSync(join(project, ".planning"), join(clone, ".planning"), { recursive: true });
  return clone;
}

beforeEach(async () => {
  project = line.newProject();
  await say(project, "init", "--agent", "none");
  await say(project, "goal", "new", "first", "First goal");
  await say(project, "task", "add", "a");
  await say(project, "decide", "Use jose", "--context", "auth", "--reason", "it is small");
});

const finish = () => say(project, "task", "drop", "T-001", "--why", "not needed");

test("when the shown goal is done, the folder switches to the next, and a clone has both", async () => {
  await finish();
  await say(project, "goal", "new", "second", "Second goal");
  expect(page()).toContain("Second goal");
  expect(readdirSync(join(project, ".planning/decisions"))).toEqual([]);
  await say(project, "goal", "use", "second");
  await say(project, "task", "add", "b");
  expect(page()).toMatch(/T-001.*b/);
  const clone = cloned();
  expect(await goals(clone)).toEqual(["first", "second"]);
  expect(await say(clone, "decisions", "--goal", "first")).toContain("jose");
  const before = page(clone);
  await say(clone, "rebuild");
  expect(page(clone)).toBe(before);
});

test("while the shown goal is not done, another goal is not shown, but a clone has it", async () => {
  const before = page();
  const { err } = await runInside(project, ["goal", "new", "second", "Second goal"]);
  expect(err).toContain("holdfast rebuild --goal second");
  expect((await runInside(project, ["goal", "use", "second"])).err).toContain("still shows goal first");
  await say(project, "task", "add", "b");
  await say(project, "fact", "k", "v", "--source", "s");
  expect(page()).toBe(before);
  const clone = cloned();
  expect(await goals(clone)).toEqual(["first", "second"]);
  expect(await say(clone, "facts", "--goal", "second")).toContain("k");
  await say(project, "rebuild", "--goal", "second");
  expect(page()).toContain("Second goal");
  await say(project, "task", "add", "c", "--goal", "first");
  expect(page()).toContain("Second goal");
  expect(await say(cloned(), "task", "list", "--goal", "first")).toContain("c");
});

test("a person's edits of the old goal's files are ingested before they are replaced", async () => {
  await finish();
  const file = join(project, ".planning/STATE.md");
  writeFileSync(file, page().replaceAll("First goal", "The first goal"));
  const at = (Date.now() - 60_000) / 1_000;
  utimesSync(file, at, at);
  const { code, err } = await runInside(project, ["goal", "new", "second", "Second goal"]);
  expect(code).toBe(0);
  expect(err).toContain("applied from STATE.md: statement: The first goal");
  expect(page()).toContain("Second goal");
  expect(await say(project, "goal", "show", "first")).toContain("The first goal");
  expect(readdirSync(join(project, ".planning")).filter((name) => name.includes("unread"))).toEqual([]);
});

test("a killed switch is finished by the next writer", async () => {
  await finish();
  const old = page();
  await say(project, "goal", "new", "second", "Second goal");
  // The page is written last: all other files belong to the new goal.
  writeFileSync(join(project, ".planning/STATE.md"), old);
  await say(project, "task", "add", "b", "--goal", "second");
  expect(page()).toContain("Second goal");
});

test("a clone reads a goal in its own folder from there", async () => {
  await runInside(project, ["goal", "new", "second", "Second goal"]);
  await say(project, "rebuild", "--goal", "second", "--folder", ".planning-second");
  const clone = cloned();
  cpSync(join(project, ".planning-second"), join(clone, ".planning-second"), { recursive: true });
  for (const name of readdirSync(join(clone, ".planning/events"))) {
    const path = join(clone, ".planning/events", name);
    if (readFileSync(path, "utf8").includes('"goal":"second"')) rmSync(path);
  }
  expect(await goals(clone)).toEqual(["first"]);
  await say(clone, "rebuild", "--goal", "second", "--folder", ".planning-second");
  expect(await goals(clone)).toEqual(["first", "second"]);
});
