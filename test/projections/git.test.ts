// A goal in a repository, with the real git: branches, clones and worktrees.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, describe, expect, test } from "vitest";
import type { Goal } from "../../src/goal/index.ts";
import { type Holdfast, open } from "../../src/open.ts";
import { type GoalFolder, projectGoal } from "../../src/projections/index.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";

const NOBODY = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };
const WHO = {
  GIT_AUTHOR_NAME: "t",
  GIT_AUTHOR_EMAIL: "t@t",
  GIT_COMMITTER_NAME: "t",
  GIT_COMMITTER_EMAIL: "t@t",
};
const env = { ...process.env, ...NOBODY, ...WHO };

const open_: { close(): Promise<void> }[] = [];
const roots: string[] = [];
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  for (const each of open_.splice(0)) await each.close();
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** A working tree with a store of its own. */
class Tree {
  readonly root: string;
  holdfast: Holdfast | null = null;
  goal = null as unknown as Goal;
  folder = null as unknown as GoalFolder;

  constructor(root: string) {
    this.root = root;
  }

  git(...args: string[]): string {
    return execFileSync("git", args, {
      cwd: this.root,
      env,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  merge(from: Tree): { status: number | null; output: string } {
    this.git("fetch", "-q", from.root, "HEAD");
    const args = ["merge", "--no-edit", "FETCH_HEAD"];
    const { status, stdout, stderr } = spawnSync("git", args, { cwd: this.root, env, encoding: "utf8" });
    return { status, output: stdout + stderr };
  }

  commit(): void {
    this.git("add", "-A");
    this.git("commit", "-q", "-m", "work");
  }

  async work(statement?: string): Promise<this> {
    this.holdfast = await open(join(this.root, ".holdfast", "store.db"));
    open_.push(this.holdfast);
    const made = statement === undefined ? {} : { statement, phases: ["one"], tasks: [{ title: "first" }] };
    this.goal = await this.holdfast.goal("checkout", { root: this.root, ...made });
    this.folder = await projectGoal(this.goal, { quietMs: 0 });
    return this;
  }

  read(file = "STATE.md"): string {
    return readFileSync(join(this.root, ".planning", file), "utf8");
  }

  files(): Record<string, string> {
    const folder = join(this.root, ".planning");
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
      /\.(md|json)$/.test(name),
    );
    return Object.fromEntries(names.sort().map((name) => [name, this.read(name)]));
  }
}

function folderFor(): string {
  const root = mkdtempSync(join(quickFolder(), "holdfast-git-"));
  roots.push(root);
  return root;
}

async function begin(): Promise<Tree> {
  const tree = new Tree(folderFor());
  tree.git("init", "-q", "-b", "main");
  writeFileSync(join(tree.root, ".gitignore"), ".holdfast/\n");
  await tree.work("Ship it");
  tree.commit();
  return tree;
}

function cloneOf(tree: Tree): Tree {
  const root = join(folderFor(), "clone");
  execFileSync("git", ["clone", "-q", tree.root, root], { env });
  return new Tree(root);
}

const decision = (text: string) =>
  ({ type: "constraint", context: text, decision: text, reason: text }) as const;

async function add(goal: Goal, who: string): Promise<void> {
  await goal.addTask({ title: `task of ${who}` });
  await goal.decide(decision(`${who} decides`));
  await goal.block({ description: `${who} is stuck`, affects: { tasks: ["T-002"] } });
}

const titles = (goal: Goal): string[] => [...goal.state.tasks.values()].map(({ title }) => title).sort();

describe("two branches that each add a task, a decision and a blocker of the same number", () => {
  test("merge without conflict, hold both, and are the same bytes everywhere", async () => {
    const a = await begin();
    const b = await cloneOf(a).work();
    // A clone has everything, and looking at it changes nothing.
    expect(b.git("status", "--porcelain")).toBe("");
    expect(b.files()).toEqual(a.files());
    await add(a.goal, "a");
    await add(b.goal, "b");
    expect([...a.goal.state.tasks.keys()]).toEqual([...b.goal.state.tasks.keys()]);
    a.commit();
    b.commit();
    const before = a.git("rev-parse", "HEAD").trim();
    expect(a.merge(b)).toMatchObject({ status: 0 });
    const report = await a.folder.sync();
    expect(report.merged).toMatchObject({ notApplied: [] });
    expect(report.edits.filter(({ left, beside }) => left.length > 0 || beside !== null)).toEqual([]);
    expect(report.merged?.renumbered.map(({ was }) => was)).toEqual(["T-002", "D-001", "B-001"]);
    expect(titles(a.goal)).toEqual(["first", "task of a", "task of b"]);
    expect(a.goal.state.decisions.size).toBe(2);
    expect(a.goal.state.blockers.size).toBe(2);
    a.commit();
    // The other way round.
    b.git("fetch", "-q", a.root, before);
    b.git("merge", "-q", "--no-edit", "FETCH_HEAD");
    await b.folder.sync();
    expect(b.files()).toEqual(a.files());
    // A clone that never had a store.
    const c = await cloneOf(a).work();
    expect(c.read()).toBe(a.read());
    expect(c.files()).toEqual(a.files());
    expect(c.git("status", "--porcelain")).toBe("");
    expect(c.goal.task(report.merged?.renumbered[0]?.alias ?? "").title).toBe("task of b");
  });

  test("with conflicts in the rendered files: these are rendered again from the events", async () => {
    const a = await begin();
    writeFileSync(join(a.root, ".planning/.gitattributes"), "# git asks\n");
    a.commit();
    const b = await cloneOf(a).work();
    await add(a.goal, "a");
    await add(b.goal, "b");
    a.commit();
    b.commit();
    const merge = a.merge(b);
    expect(merge.status).toBe(1);
    expect(merge.output).toMatch(/CONFLICT .*STATE\.md/);
    expect(merge.output).not.toMatch(/CONFLICT .*events\//);
    expect(a.read()).toContain("<<<<<<<");
    const { edits } = await a.folder.sync();
    expect(edits.map(({ from }) => from)).toContain("conflict");
    expect(edits.flatMap(({ left }) => left)).toEqual([]);
    for (const text of Object.values(a.files())) expect(text).not.toContain("<<<<<<<");
    expect(titles(a.goal)).toEqual(["first", "task of a", "task of b"]);
    a.commit();
    const c = await cloneOf(a).work();
    expect(c.files()).toEqual(a.files());
  });
});

describe("files of events that git tracks", () => {
  const eventsIn = (tree: { root: string }): string[] => readdirSync(join(tree.root, ".planning/events"));
  const write = async ({ goal }: Tree, who: string, times: number): Promise<void> => {
    for (let index = 0; index < times; index++)
      await goal.fact({ key: `${who} ${index % 9}`, value: index, source: "a command that printed this" });
  };
  const removed = (tree: Tree): string =>
    tree.git("log", "--diff-filter=D", "--name-only", "--format=", "--", ".planning/events").trim();

  test("are never removed, while the others become one per commit", async () => {
    const tree = await begin();
    const commits = 12;
    for (let count = 0; count < commits; count++) {
      await write(tree, `commit ${count}`, 10);
      const tracked = tree.git("ls-files", "--deleted").trim();
      expect(tracked, "a tracked file is gone").toBe("");
      tree.commit();
    }
    expect(removed(tree)).toBe("");
    expect(eventsIn(tree).length).toBeLessThanOrEqual(1 + 4 * commits);
    const clone = await cloneOf(tree).work();
    expect(clone.goal.state.known.size).toBe(tree.goal.state.known.size);
  });

  test("stay when they are only staged, and in a copy whose files are newer than its index", async () => {
    const tree = await begin();
    await write(tree, "staged", 2);
    tree.git("add", "-A");
    const staged = eventsIn(tree);
    await write(tree, "later", 20);
    expect(eventsIn(tree)).toEqual(expect.arrayContaining(staged));
    expect(tree.git("ls-files", "--deleted")).toBe("");
    await tree.holdfast?.close();
    open_.splice(0);
    tree.commit();
    for (const name of eventsIn(tree)) utimesSync(join(tree.root, ".planning/events", name), 4e9, 4e9);
    const copied = await new Tree(tree.root).work();
    await write(copied, "copied", 20);
    expect(tree.git("ls-files", "--deleted")).toBe("");
  });

  test("of two branches merge without conflict, however many each has combined before", async () => {
    const a = await begin();
    const updates = process.env["HOLDFAST_FULL"] === "1" ? 300 : 30;
    await write(a, "base", updates);
    a.commit();
    const b = await cloneOf(a).work();
    await write(a, "a", updates);
    await write(b, "b", updates);
    a.commit();
    b.commit();
    expect(a.merge(b)).toMatchObject({ status: 0 });
    const { merged } = await a.folder.sync();
    expect(merged).toMatchObject({ events: updates, notApplied: [] });
    expect(removed(a)).toBe("");
    expect(eventsIn(a).length).toBeLessThanOrEqual(4 * 4);
    expect(a.goal.revision).toBe(3 + 3 * updates);
  });
});

test("two worktrees of one repository share the store and see each other's claims", async () => {
  const a = await begin();
  await a.goal.addTask({ title: "second" });
  a.commit();
  await a.holdfast?.close();
  open_.splice(0);
  const other = join(folderFor(), "worktree");
  a.git("worktree", "add", "-q", "-b", "side", other);
  mkdirSync(join(other, "below"));
  const claimers = [claim(a.root, "T-001"), claim(other, "T-002")];
  const said = await Promise.all(claimers.map(({ lines }) => lines.next()));
  const addresses = said.map(({ value }) => (JSON.parse(value as string) as { address: string }).address);
  expect(addresses[0]).toBe(addresses[1]);
  for (const { child } of claimers) child.stdin?.end();
  const seen = await Promise.all(
    claimers.map(async ({ lines }) => JSON.parse((await lines.next()).value as string)),
  );
  expect(seen).toEqual([
    [
      ["T-001", "w-T-001"],
      ["T-002", "w-T-002"],
    ],
    [
      ["T-001", "w-T-001"],
      ["T-002", "w-T-002"],
    ],
  ]);
});

function claim(cwd: string, task: string): { child: ChildProcess; lines: AsyncIterator<string> } {
  const program = programFile(new URL("./programs/claimer.ts", import.meta.url));
  const { HOLDFAST_STORE: _store, ...rest } = env as NodeJS.ProcessEnv;
  const child = spawn(process.execPath, [program, task], {
    cwd,
    env: rest,
    stdio: ["pipe", "pipe", "inherit"],
  });
  children.push(child);
  return {
    child,
    lines: createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator](),
  };
}
