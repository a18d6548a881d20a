// Pages report the effect of a merge on each user's work, and pulled events that could not be merged.

import { cpSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasOtherUser, OTHER_USER } from "../other-user.ts";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

type Clone = ((...args: string[]) => Promise<Ran>) & { readonly root: string };

const EVENTS = ".planning/events";

/** A user's clone. Commands run inside this process, because these tests need no process. */
function clone(root = line.newProject()): Clone {
  const here = async (...args: string[]): Promise<Ran> => runInside(root, args);
  return Object.assign(here, { root });
}

/** Copies like git: new files are added, existing ones stay unchanged. */
function pull(to: Clone, from: Clone): void {
  cpSync(join(from.root, EVENTS), join(to.root, EVENTS), { recursive: true });
}

async function well(ran: Promise<Ran>): Promise<string> {
  const { code, out, err } = await ran;
  expect(code, err).toBe(0);
  return out;
}

/** Two clones of a goal with one task. */
async function twoClones(): Promise<[Clone, Clone]> {
  const [ours, theirs] = [clone(), clone()];
  await well(ours("init", "--agent", "none"));
  await well(ours("goal", "new", "shop", "Ship the shop"));
  await well(ours("task", "add", "build the cart"));
  cpSync(join(ours.root, ".planning"), join(theirs.root, ".planning"), { recursive: true });
  await well(theirs("status"));
  return [ours, theirs];
}

const e = ["--by", "agent-e", "--role", "worker"];
const f = ["--by", "agent-f", "--role", "worker"];

test("the second clone learns that its work was not applied and which number its task has now", async () => {
  const [ours, theirs] = await twoClones();
  await well(theirs("task", "claim", "1", ...f));
  await well(ours("task", "claim", "1", ...e));
  await well(ours("task", "submit", "1", "--summary", "built", ...e));
  await well(theirs("task", "add", "sweep the floor"));
  await well(ours("task", "add", "fix a typo"));
  await well(ours("task", "claim", "2", ...e));
  pull(ours, theirs);

  const renumbered = 'T-002 "fix a typo" is now T-003';
  const lost = /not applied: task claimed, task submitted T-001 "build the cart" by agent-e: .+/;
  const status = await well(ours("status"));
  expect(status).toContain(renumbered);
  expect(status).toMatch(lost);
  expect(status, "the other clone holds the task").toContain("T-001  agent-f, in another clone");
  expect(status, "its lease has the old number").toContain("T-003  agent-e  fix a typo");

  for (const command of [["next"], ["goal", "show"], ["rebuild"]]) {
    const shown = await well(ours(...command));
    expect(shown, command[0]).toContain(renumbered);
    expect(shown, command[0]).toMatch(lost);
  }
  const brief = await well(ours("brief"));
  expect(brief).toContain('RENUMBERED T-002 "fix a typo" is now T-003');
  expect(brief).toMatch(/NOT APPLIED task claimed, task submitted T-001 "build the cart" by agent-e: ".+"/);
  const rebuilt = JSON.parse(await well(ours("rebuild", "--json"))).data;
  expect(rebuilt.merged).toEqual([expect.stringMatching(lost), renumbered]);

  const late = await ours("task", "submit", "2", ...e);
  expect(late).toMatchObject({ code: expect.any(Number), err: expect.stringContaining("is now T-003") });
  const never = await ours("task", "submit", "1", ...e);
  expect(never.err).toContain("T-001 is held by agent-f, in another clone, not by agent-e");

  await well(ours("task", "submit", "3", ...e));
  await well(ours("task", "verify", "3"));
  expect(await well(ours("next")), "a finished task is not reported again").not.toContain(renumbered);
  expect((await ours("check")).code).toBe(0);
});

test("a fresh clone is complete and reports no merge", async () => {
  const [ours, theirs] = await twoClones();
  await well(theirs("task", "add", "sweep the floor"));
  await well(ours("task", "add", "fix a typo"));
  pull(ours, theirs);
  await well(ours("rebuild"));
  const fresh = clone();
  cpSync(join(ours.root, ".planning"), join(fresh.root, ".planning"), { recursive: true });
  expect(await well(fresh("status"))).not.toContain("is now");
  expect(await fresh("check")).toMatchObject({ code: 0 });
});

test("a goal without its first events hides no other goal, in a new clone and after a pull", async () => {
  const [ours] = await twoClones();
  const other = clone();
  await well(other("init", "--agent", "none"));
  await well(other("goal", "new", "broken", "Cannot be made"));
  const [first] = readdirSync(join(other.root, EVENTS));
  await well(other("task", "add", "one"));
  rmSync(join(other.root, EVENTS, first as string));
  pull(ours, other);
  const fresh = clone();
  cpSync(join(ours.root, ".planning"), join(fresh.root, ".planning"), { recursive: true });
  for (const each of [ours, fresh]) {
    const { code, out, err } = await each("status");
    expect(code).toBe(0);
    expect(out).toContain("shop");
    expect(out).toMatch(/not merged: goal broken cannot be built from these events/);
    expect(err).toContain("goal broken cannot be built");
    expect(err).not.toContain("Nothing was written");
    for (const command of [["next"], ["brief"]])
      expect(await well(each(...command)), command[0]).toMatch(/goal broken cannot be built/);
  }
});

test("an unreadable events file or folder is reported and blocks no command", async () => {
  const [ours, theirs] = await twoClones();
  await well(theirs("task", "add", "sweep the floor"));
  pull(ours, theirs);
  const events = join(ours.root, EVENTS);
  // A folder in place of a file.
  const name = `${"0".repeat(32)}.jsonl`;
  mkdirSync(join(events, name));
  const asked = [["status"], ["next"], ["brief"], ["task", "list"], ["rebuild"], ["task", "add", "more"]];
  for (const command of asked) {
    const { code, out, err } = await ours(...command);
    expect(code, err).toBe(0);
    expect(err).toContain(`${name} in`);
    expect(err).not.toContain("fault in Holdfast");
    if (["status", "next", "brief"].includes(command[0] as string)) expect(out).toContain(name);
  }
  expect(await well(ours("next"))).toContain("sweep the floor");
  // A file in place of the folder.
  renameSync(events, `${events}-aside`);
  writeFileSync(events, "");
  for (const command of [["status"], ["next"]]) await well(ours(...command));
});

test.runIf(process.getuid?.() === 0 && hasOtherUser)(
  "another user's events folder is reported and blocks no command",
  async () => {
    const [ours] = await twoClones();
    await well(ours("status"));
    const { chmodSync, chownSync } = await import("node:fs");
    const { uid = 0, gid = 0 } = OTHER_USER;
    const give = (path: string): void => chownSync(path, uid, gid);
    for (const name of ["", ...readdirSync(ours.root, { recursive: true, encoding: "utf8" })])
      give(join(ours.root, name));
    chownSync(join(ours.root, EVENTS), 0, 0);
    chmodSync(join(ours.root, EVENTS), 0o700);
    for (const command of [["status"], ["next"], ["task", "add", "more"]]) {
      const { code, err } = await line.run(command, { cwd: ours.root, as: OTHER_USER });
      expect(err).not.toContain("fault in Holdfast");
      expect(code, err).toBe(0);
      expect(err).toContain("EACCES");
    }
    const { code, err } = await line.run(["rebuild"], { cwd: ours.root, as: OTHER_USER });
    expect(err).not.toContain("fault in Holdfast");
    expect(code).not.toBe(0);
  },
);
