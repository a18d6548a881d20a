// Edits of STATE.md that are not by the user: a commit of somebody else, and an agent that a hook watches.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { noteAgentEdit } from "../../src/operations/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { runInside } from "./inside.ts";

const NOBODY = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };

let folder: string;
let project: string;
let theirs: string;
beforeEach(async () => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-edits-"));
  project = join(folder, "project");
  theirs = join(folder, "theirs");
  git(folder, "ann", "init", "-q", "-b", "main", project);
  await here("init", "--agent", "none");
  await here("goal", "new", "app", "Ship app", "--phase", "API");
  await here("task", "add", "one");
  await here("block", "add", "security review pending", "--everything");
  commit(project, "ann");
  git(folder, "ann", "clone", "-q", project, theirs);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Anyone may commit under any name. */
function git(cwd: string, name: string, ...args: string[]): string {
  const who = { GIT_AUTHOR_NAME: name, GIT_COMMITTER_NAME: name };
  const mail = { GIT_AUTHOR_EMAIL: `${name}@x`, GIT_COMMITTER_EMAIL: `${name}@x` };
  const env = { ...process.env, ...NOBODY, ...who, ...mail };
  return execFileSync("git", args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}
const commit = (cwd: string, name: string): void => {
  git(cwd, name, "add", "-A");
  git(cwd, name, "commit", "-qm", "work");
};
const here = (...args: string[]) => runInside(project, args);
const pageOf = (root: string): string => join(root, ".planning", "STATE.md");

/** Removes the line of the blocker, which resolves it, and adds a decision-free note of the next action. */
function attack(root: string): void {
  const page = readFileSync(pageOf(root), "utf8");
  const lines = page.split("\n").filter((line) => !/^- .*B-001/.test(line));
  expect(lines.length).toBeLessThan(page.split("\n").length);
  writeFileSync(pageOf(root), lines.join("\n").replace("Ship app", "Sell app"));
}

interface Shown {
  readonly statement: string;
  readonly blockers: readonly { readonly id: string; readonly status: string }[];
}
async function shown(): Promise<Shown> {
  const { out } = await here("goal", "show", "--json");
  return (JSON.parse(out) as { data: Shown }).data;
}
const UNCHANGED = { statement: "Ship app", blockers: [{ id: "B-001", status: "active" }] };
const authors = async (): Promise<string[]> => {
  const { out } = await here("events", "--limit", "100", "--json");
  const { data } = JSON.parse(out) as { data: { events: { type: string; by: string; role: string }[] } };
  return data.events.filter(({ type }) => type === "edit.taken").map(({ by, role }) => `${by} ${role}`);
};
const beside = (): string[] =>
  readdirSync(join(project, ".planning")).filter((name) => name.includes(".unread-"));

/** As if git had been done for a minute. */
function later(): void {
  const before = Date.now() / 1_000 - 60;
  utimesSync(pageOf(project), before, before);
}

describe("a commit of somebody else that edits STATE.md", () => {
  test.each(["mallory", "ann"])("is not an act of the user who pulls, by the name of %s", async (name) => {
    attack(theirs);
    commit(theirs, name);
    git(project, "ann", "pull", "-q", "--ff-only", theirs, "main");
    const { err } = await here("fact", "a", "1", "--source", "x");
    expect(err).toContain(`by "${name}" brought it, and only a person of this clone may do it`);
    expect(await shown()).toMatchObject(UNCHANGED);
    expect(await authors()).toEqual([`${name} worker`]);
    expect(beside()).toHaveLength(1);
  });

  test("is found long after the pull, below a commit and an edit of the user", async () => {
    attack(theirs);
    commit(theirs, "mallory");
    git(project, "ann", "pull", "-q", "--ff-only", theirs, "main");
    writeFileSync(join(project, "own.txt"), "own");
    commit(project, "ann");
    writeFileSync(pageOf(project), `${readFileSync(pageOf(project), "utf8")}\n`);
    later();
    await here("rebuild");
    expect(await shown()).toMatchObject(UNCHANGED);
  });

  test("is not hidden by a bare repository that the commit puts into .planning", async () => {
    attack(theirs);
    // Git takes a folder with these for a repository when it runs there. This one knows of no such commit.
    const bare = join(folder, "bare");
    git(folder, "mallory", "init", "-q", "-b", "main", "--bare", bare);
    const tree = git(bare, "mallory", "hash-object", "-w", "-t", "tree", "/dev/null").trim();
    const empty = git(bare, "mallory", "commit-tree", "-m", "empty", tree).trim();
    git(bare, "mallory", "update-ref", "refs/heads/main", empty);
    for (const each of ["HEAD", "config", "objects", "refs"])
      cpSync(join(bare, each), join(theirs, ".planning", each), { recursive: true });
    commit(theirs, "mallory");
    git(project, "ann", "pull", "-q", "--ff-only", theirs, "main");
    expect(git(join(project, ".planning"), "ann", "rev-parse", "--is-bare-repository")).toBe("true\n");
    later();
    await here("fact", "a", "1", "--source", "x");
    expect(await shown()).toMatchObject(UNCHANGED);
    expect(await authors()).toEqual(["mallory worker"]);
  });

  test("is found in a merge that the user made", async () => {
    attack(theirs);
    commit(theirs, "mallory");
    await here("task", "add", "two");
    commit(project, "ann");
    git(project, "ann", "fetch", "-q", theirs, "main");
    git(project, "ann", "merge", "-q", "--no-edit", "FETCH_HEAD");
    later();
    await here("rebuild");
    expect(await shown()).toMatchObject(UNCHANGED);
    expect(await authors()).not.toContainEqual(expect.stringContaining("human"));
  });

  test("is found while a merge is not finished", async () => {
    attack(theirs);
    commit(theirs, "mallory");
    git(project, "ann", "fetch", "-q", theirs, "main");
    git(project, "ann", "merge", "-q", "--no-commit", "--no-ff", "FETCH_HEAD");
    later();
    await here("rebuild");
    expect(await shown()).toMatchObject(UNCHANGED);
  });
});

test("an edit of the user is theirs, committed or not", async () => {
  attack(project);
  commit(project, "ann");
  await here("rebuild");
  expect(await shown()).toMatchObject({ statement: "Sell app", blockers: [] });
  expect(await authors()).toEqual([expect.stringMatching(/ human$/)]);
});

describe("an edit of STATE.md by an agent that a hook saw", () => {
  test("counts as the agent's, also if a person saved the file after it", async () => {
    attack(project);
    await noteAgentEdit(
      join(project, ".holdfast"),
      "STATE.md",
      readFileSync(pageOf(project), "utf8"),
      "claude-7f2a91bc",
    );
    writeFileSync(pageOf(project), `${readFileSync(pageOf(project), "utf8")}\n`);
    const { err } = await here("rebuild");
    expect(err).toBe("");
    expect(await shown()).toMatchObject(UNCHANGED);
    expect(await authors()).toEqual(["claude-7f2a91bc worker"]);
    expect(beside()).toHaveLength(1);
    // The next rendering is not the agent's.
    attack(project);
    await here("rebuild");
    expect(await shown()).toMatchObject({ statement: "Sell app" });
  });
});
