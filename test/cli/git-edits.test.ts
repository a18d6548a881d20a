// A person's edit of STATE.md arrives through the real git: by a branch, a stash, a merge or a clone.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { quickFolder } from "../quick-folder.ts";
import { runInside } from "./inside.ts";

const WHO = { NAME: "t", EMAIL: "t@t" };
const env = {
  ...process.env,
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  ...Object.fromEntries(
    Object.entries(WHO).flatMap(([name, value]) => [
      [`GIT_AUTHOR_${name}`, value],
      [`GIT_COMMITTER_${name}`, value],
    ]),
  ),
};

let folder: string;
let project: string;
beforeEach(async () => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-brought-"));
  project = join(folder, "project");
  execFileSync("git", ["init", "-q", "-b", "main", project], { env });
  await here("init", "--agent", "none");
  await here("goal", "new", "app", "Ship app", "--phase", "API");
  for (const title of ["one", "two", "three"]) await here("task", "add", title);
  git("add", "-A");
  git("commit", "-qm", "made");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const here = (...args: string[]) => runInside(project, args);
const git = (...args: string[]) =>
  execFileSync("git", args, { cwd: project, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const planning = (file: string, root = project) => join(root, ".planning", file);
const page = () => readFileSync(planning("STATE.md"), "utf8");
const beside = (root = project) =>
  readdirSync(planning("", root)).filter((name) => name.includes(".unread-"));

function edit(from: string, to: string): void {
  expect(page()).toContain(from);
  writeFileSync(planning("STATE.md"), page().replace(from, to));
}

const tick = (): void => edit("- [ ] T-002", "- [x] T-002");
const plan = (): void => edit("## Decisions", "- [ ] four\n\n## Decisions");
const agentActs = () => here("task", "claim", "T-001", "--by", "ag", "--role", "worker");
const statusOf = async (id: string, root = project): Promise<string> => {
  const { out } = await runInside(root, ["task", "show", id, "--json"]);
  return (JSON.parse(out) as { data: { status: string } }).data.status;
};

async function expectTaken(): Promise<void> {
  const { code, err } = await agentActs();
  expect(code, err).toBe(0);
  expect(err).toContain("applied from STATE.md: T-002 done");
  expect(err).toContain("new task: four");
  expect(await statusOf("T-002")).toBe("done");
  expect(page()).toContain("four");
  expect(beside()).toEqual([]);
}

test("a committed edit is ingested after switching branches", async () => {
  git("branch", "other");
  tick();
  plan();
  git("commit", "-qam", "tick");
  git("checkout", "-q", "other");
  git("checkout", "-q", "main");
  await expectTaken();
});

test("a stashed edit is ingested after it is popped", async () => {
  tick();
  plan();
  git("stash", "-q");
  git("stash", "pop", "-q");
  await expectTaken();
});

test.each([["--ff"], ["--no-ff"]])(
  "an edit committed on a branch is ingested after a merge %s",
  async (how) => {
    git("checkout", "-q", "-b", "feature/side");
    tick();
    plan();
    git("commit", "-qam", "tick");
    git("checkout", "-q", "main");
    git("merge", "-q", how, "--no-edit", "feature/side");
    await expectTaken();
  },
);

test("an edit is ingested although the other side of the merge rendered the page again", async () => {
  git("checkout", "-q", "-b", "side");
  tick();
  git("commit", "-qam", "tick");
  git("checkout", "-q", "main");
  await here("fact", "currency", "EUR", "--source", "x");
  await here("block", "add", "the bank is closed");
  git("add", "-A");
  git("commit", "-qm", "goal");
  git("merge", "-q", "--no-edit", "side");
  const { err } = await agentActs();
  expect(err).toContain("applied from STATE.md: T-002 done");
  expect(await statusOf("T-002")).toBe("done");
});

test("an edit that was ingested and undone since is not ingested again from an old commit", async () => {
  tick();
  git("commit", "-qam", "tick");
  git("branch", "old");
  await here("rebuild");
  expect(await statusOf("T-002")).toBe("done");
  await here("task", "reopen", "T-002", "--why", "not so");
  git("add", "-A");
  git("commit", "-qm", "goal");
  git("checkout", "-q", "old");
  await here("fact", "a", "1", "--source", "x");
  expect(await statusOf("T-002")).toBe("open");
  expect(page()).toContain("- [ ] T-002 [open] two");
});

test("an old edit that was never ingested does not undo later changes to the same task", async () => {
  git("checkout", "-q", "-b", "old");
  tick();
  git("commit", "-qam", "tick");
  git("checkout", "-q", "main");
  await here("task", "claim", "T-002", "--by", "ag", "--role", "worker");
  git("add", "-A");
  git("commit", "-qm", "goal");
  git("checkout", "-q", "old");
  const { err } = await here("fact", "a", "1", "--source", "x");
  expect(err).toContain("the goal has moved on since");
  expect(await statusOf("T-002")).toBe("in_progress");

  // The command that the note names.
  const [kept = ""] = beside();
  expect(err).toContain(`cp ${kept} STATE.md && holdfast rebuild`);
  cpSync(planning(kept), planning("STATE.md"));
  const before = Date.now() / 1_000 - 60;
  utimesSync(join(project, ".git/logs/HEAD"), before, before);
  await here("rebuild");
  expect(await statusOf("T-002")).toBe("done");
  expect(beside()).toEqual([]);
});

test("a clone ingests an edit that git brought as its author's, without the authority of a person", async () => {
  tick();
  plan();
  git("commit", "-qam", "tick");
  const clone = join(folder, "clone");
  execFileSync("git", ["clone", "-q", project, clone], { env });
  const { err } = await runInside(clone, ["fact", "a", "1", "--source", "x"]);
  expect(err).toMatch(
    /T-002 done: commit [0-9a-f]{10} by "t" brought it, and only a person of this clone may/,
  );
  expect(err).toMatch(/new task: four: git brought it from another clone/);
  expect(await statusOf("T-002", clone)).toBe("open");
  expect(beside(clone)).toHaveLength(1);
});

test("two clones that ingested the same edit agree after a merge", async () => {
  tick();
  git("commit", "-qam", "tick");
  const clone = join(folder, "clone");
  execFileSync("git", ["clone", "-q", project, clone], { env });
  for (const root of [project, clone]) {
    await runInside(root, ["rebuild"]);
    // In the clone the edit is left to a person.
    for (const name of beside(root)) rmSync(planning(name, root));
    execFileSync("git", ["add", "-A"], { cwd: root, env });
    execFileSync("git", ["commit", "-qm", "goal"], { cwd: root, env });
  }
  git("fetch", "-q", clone, "HEAD");
  git("merge", "-q", "--no-edit", "FETCH_HEAD");
  const { code, err } = await here("rebuild");
  expect(code, err).toBe(0);
  expect(await statusOf("T-002")).toBe("done");
  expect(beside()).toEqual([]);
});
