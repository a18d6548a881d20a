// An error is one line, followed by a hint on a second line. Scripts tell errors apart by the exit code.

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { hasOtherUser, OTHER_USER } from "../other-user.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
  await well("init");
  await well("goal", "new", "checkout", "Ship the checkout");
  await well("task", "add", "users table");
});
afterAll(() => line.remove());

/** Runs inside this process, like most of the table. */
async function well(...args: string[]): Promise<void> {
  expect(await runInside(line.project, args)).toMatchObject({ code: 0 });
}

/** Arguments, exit code and message. */
const TABLE: readonly (readonly [typed: string, code: number, says: string, hint: string])[] = [
  ["", 2, "no command given", "holdfast status"],
  ["stauts", 2, "there is no command stauts", "Did you mean status?"],
  ["xyzzy --json=no", 2, "there is no command xyzzy", "holdfast --help"],
  ["task", 2, "task: a second word is missing", "list, show, claim"],
  ["task clam 1", 2, "there is no command task clam", "Did you mean task claim"],
  ["task claim", 2, "task claim: missing required argument 'task'", "holdfast task claim --help"],
  ["task claim 1 --sesion x", 2, "unknown option '--sesion'", "Did you mean --session?"],
  ["task claim 9", 3, "goal checkout: there is no task 9", "Did you mean T-001?"],
  ["task submit 1", 4, "task T-001 is open: it cannot submit", "Claim it first."],
  ["task list --goal chekout", 3, 'there is no goal "chekout"', "Did you mean checkout?"],
  ["status --store=", 2, "--store is empty (expected an address)", "Is the variable set?"],
  ["supervise --store= -- node worker.js", 2, "--store is empty", "Is the variable set?"],
  ["status --goal chekout", 3, 'there is no goal "chekout"', "Did you mean checkout?"],
  ["goal new checkout again", 4, "goal checkout: it exists already", "holdfast goal show checkout"],
  ["goal new a/b c", 2, 'goal id "a/b" is not a valid name', "letters, digits"],
  ["goal new x y --ttl soon", 2, "--ttl: soon is not a duration", "--ttl 30d"],
  ["brief --tokens many", 2, "--tokens: many is not a whole number", "--tokens 3"],
  ["decide jose", 2, "required option '--context <text>' not specified", "holdfast decide --help"],
  ["decide a --context b --reason c --alternative d", 2, "--alternative: d lacks a reason", "--alternative"],
  ["init --agent vim", 2, 'there is no agent "vim" that can be wired', "claude, codex, cursor, gemini"],
  ["init --check --remove", 2, "init: --check cannot be combined", "Use --check"],
  ["goal use chekout", 3, 'there is no goal "chekout"', "Did you mean checkout?"],
  ["schema new Big-Name", 2, "Big-Name", "lower"],
  ["torture", 2, "torture: no agent given", "holdfast torture --setup"],
  ["torture -- node x.js", 2, "torture: --effects is missing", "--effects"],
  ["supervise --retain soon", 2, "--retain: soon is not a duration", "--retain 30d"],
  ["goal move 7", 3, "goal checkout has no phase 7", "Its phases"],
  ["block resolve 3 --resolution x", 3, "goal checkout: there is no blocker 3", "holdfast block list"],
  ["session log nope", 3, 'there is no session "nope"', "holdfast session list"],
  ["resolve c1 landed", 2, "resolve is for people: without a terminal it needs --by and --why", "--by ann"],
  ["resolve c1 maybe --by a --why b", 2, "resolve: there is no outcome maybe", "landed (it happened)"],
  ["resolve c1 landed --by a --why b", 3, 'there is no open call "c1"', "holdfast calls"],
  [
    "prune --older-than 1d",
    2,
    "prune removes sessions for good: without a terminal it needs --yes",
    "--dry-run",
  ],
  ["prune --yes", 2, "prune: no condition was given", "Pass an age"],
  ["session cancel x", 2, "session cancel is for people", "--by ann"],
  ["task claim 1 --role boss", 2, "there is no role boss", "worker, architect"],
  ["goal new more words --by bob --role worker", 4, "a worker, may not ", "architect"],
  ["handoff --reason done", 3, "which session? 0 active: none", "holdfast resume"],
  [
    "import missing.jsonl",
    2,
    "missing.jsonl cannot be imported: it cannot be read (ENOENT)",
    "Nothing was written.",
  ],
  ["completion tcsh", 2, "completion: there is no script for tcsh", "bash, zsh or fish"],
  ["status --store nowhere.db", 3, "there is no store at", "holdfast init"],
  ["status --store mysql://a:secret@b/c", 3, "no store understands the address mysql://b/c", "postgres://"],
  ["goal new x y --store :memory:", 3, "no store understands the address :memory:", '"memory:"'],
];

/**
 * Commands with a fast path in `main.ts` run as a process. The rest run inside this process, which is faster.
 */
test.each(TABLE)("holdfast %s ends with %i", async (typed, code, says, hint) => {
  const words = typed === "" ? [] : typed.split(" ");
  const isShort = words.length === 0 || words[0] === "status";
  const ran = isShort ? await line.run(words) : await runInside(line.project, words);
  const [first = "", second = ""] = ran.err.split("\n");
  expect({ code: ran.code, out: ran.out }, ran.err).toEqual({ code, out: "" });
  expect(first).toMatch(/^holdfast: /);
  expect(first).toContain(says);
  expect(second).toContain(hint);
  expect(ran.err, "a user error shows no stack trace").not.toContain("    at ");
});

test("with --json an error is JSON, too", async () => {
  const { code, out, err } = await line.run(["task", "claim", "9", "--json"]);
  expect({ code, out }).toEqual({ code: 3, out: "" });
  expect(JSON.parse(err)).toMatchObject({
    schemaVersion: 1,
    kind: "error",
    data: { code: "GOAL_ITEM_NOT_FOUND", hint: expect.stringContaining("T-001"), retryable: false },
  });
});

test("with two goals, --goal or HOLDFAST_GOAL must name one", async () => {
  await well("goal", "new", "search", "Search that finds");
  const { code, err } = await runInside(line.project, ["next"]);
  expect(code).toBe(3);
  expect(err).toContain("which goal? There are 2");
  expect(err).toContain("Pass --goal, set HOLDFAST_GOAL, or run holdfast goal use <goal>");
  expect(err).toContain("One of: search, checkout");
  const { out } = await runInside(line.project, ["next", "--json"], { HOLDFAST_GOAL: "check" });
  expect(JSON.parse(out)).toMatchObject({ data: { goal: "checkout" } });
  await well("goal", "use", "sea");
  const chosen = await runInside(line.project, ["next", "--json"]);
  expect(JSON.parse(chosen.out), "or the goal chosen for this worktree").toMatchObject({
    data: { goal: "search" },
  });
  await well("goal", "use", "--none");
  expect((await runInside(line.project, ["next"])).code).toBe(3);
});

describe("unusable stores", () => {
  test("a store of a newer version is rejected and left unchanged", async () => {
    await well("init", "--store", "newer.db");
    const connection = await Connection.open(join(line.project, "newer.db"), false);
    connection.exec("PRAGMA user_version = 99");
    await connection.close();
    const store = ["--store", "newer.db"];
    for (const { code, err } of [
      await line.run(["status", ...store]),
      await runInside(line.project, ["task", "list", ...store]),
    ]) {
      expect(code).toBe(1);
      expect(err).toContain("has format 99");
      expect(err).toContain("Update Holdfast");
    }
  });

  test("a file that is not a store is reported as such", async () => {
    writeFileSync(join(line.project, "letter.db"), "Dear all, this is no database. ".repeat(50));
    const { code, err } = await line.run(["status", "--store", "letter.db"]);
    expect(code).toBe(1);
    expect(err).toContain("letter.db");
    expect(err).not.toContain("    at ");
  });

  test.skipIf(!hasOtherUser)("nothing is created in a read-only folder", async () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-closed-"));
    chmodSync(folder, 0o555);
    const { code, err } = await line.run(["init", "--store", join(folder, "store.db")], {
      cwd: tmpdir(),
      as: OTHER_USER,
    });
    rmSync(folder, { recursive: true });
    expect(code).toBe(1);
    expect(err).toContain("store.db could not be created");
    expect(err).toContain("Check the permissions of the folder");
  });
});
