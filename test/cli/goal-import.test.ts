// A STATE.md of another tool becomes a goal, from the command line.

import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

const SEED = fileURLToPath(new URL("../projections/seed/STATE.md", import.meta.url));

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

const run = (typed: string): Promise<Ran> => runInside(project, typed.split(" "));
const planned = (name: string): string => join(project, ".planning", name);

beforeEach(() => {
  project = line.newProject();
  mkdirSync(planned(""));
  copyFileSync(SEED, planned("STATE.md"));
});

test("init offers to import a foreign STATE.md, and goal import keeps it beside the goal's own page", async () => {
  const offered = await run("init --agent none");
  expect(offered.out).toContain("goal import .planning/STATE.md");
  const { code, out, err } = await run("goal import .planning/STATE.md");
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toContain("goal init-abc123 imported: 40%, at T-006 (in_progress)");
  expect(out).toContain("! the bar says 50%, the tasks say 40%");
  expect(readFileSync(planned("STATE.imported.md"), "utf8")).toBe(readFileSync(SEED, "utf8"));
  expect(readFileSync(planned("STATE.md"), "utf8")).toContain("goal: init-abc123");
  const [first] = (await run("next")).out.match(/^T-\d+ +\w+/gm) ?? [];
  expect(first).toMatch(/^T-006 +in_progress$/);
  const resumed = await run("resume");
  expect(resumed).toMatchObject({ code: 5 });
  expect(resumed.out).toContain("! db/migrations/002_refresh_tokens.sql MISSING");
  expect((await run("init --agent none")).out).not.toContain("goal import");
});

test("goal new moves a foreign STATE.md aside, and says how to make a goal of it", async () => {
  await run("init --agent none");
  const { err } = await run("goal new other Something");
  const [, kept = ""] = /holdfast goal import (STATE\.md\.unread-[0-9a-f]{12})/.exec(err) ?? [];
  expect(existsSync(planned(kept))).toBe(true);
  expect(await run(`goal import .planning/${kept} auth`)).toMatchObject({ code: 0 });
});

test("a file that cannot be imported leaves no goal, and import points to goal import", async () => {
  await run("init --agent none");
  writeFileSync(join(project, "broken.md"), "only words, no state\n");
  expect(await run("goal import broken.md x")).toMatchObject({
    code: 2,
    err: expect.stringContaining("broken.md cannot be imported"),
  });
  expect(await run("goal import missing.md x")).toMatchObject({
    code: 2,
    err: expect.stringContaining("there is no such file"),
  });
  expect((await run("goal list")).out).toContain("no goals yet");
  expect((await run("import .planning/STATE.md")).err).toContain("holdfast goal import");
});
