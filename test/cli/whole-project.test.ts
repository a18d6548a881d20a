// A small project from beginning to end on the command line, as a person and two agents would run it.
//
// A command runs as a process if it creates the store, changes it first, reads it after a kill, or has its
// own exit code. Other commands run inside this process; with HOLDFAST_FULL=1 each of them runs once as a
// process.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

/** Starts many processes in sequence, which is slow on a busy machine. */
const LONG_MS = 600_000;

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

function run(...args: string[]): Promise<Ran> {
  return line.run(args);
}

/** Always runs as a process. */
function start(...args: string[]): Promise<string> {
  return line.say(...args);
}

/** For a command that this file uses only once. */
function say(...args: string[]): Promise<string> {
  return process.env["HOLDFAST_FULL"] ? start(...args) : again(...args);
}

/** For a command that ran before. */
async function again(...args: string[]): Promise<string> {
  const { code, out, err } = await runInside(line.project, args);
  expect(code, `holdfast ${args.join(" ")}: ${err}`).toBe(0);
  return out;
}

const worker = ["--by", "claude-7f2", "--role", "worker"];

test(
  "a project is planned, worked on, interrupted, resolved and handed over",
  async () => {
    const made = await start("init", "--agent", "all");
    expect(made).toContain("created sqlite .holdfast/store.db");
    expect(made).toContain("created .claude/settings.json");
    expect(await start("init")).toMatch(/^exists: .*store\.db\n(?!created|changed)/);
    expect(await say("status")).toContain("holdfast goal new");
    expect(await start("goal", "new", "checkout", "Ship the checkout", "--phase", "Schema", "API")).toContain(
      "goal checkout created",
    );
    await say("task", "add", "users table", "--wanted", "migrates up", "migrates down");
    await again("task", "add", "orders table", "--depends-on", "1");
    await again("task", "add", "token rotation", "--phase", "API");
    expect(await start("next")).toContain("holdfast task claim T-001");

    // ── Work ──
    expect(await say("task", "claim", "1", ...worker)).toContain("in_progress by claude-7f2");
    expect(await say("task", "start", "1", "writing the migration", ...worker)).toContain("in_progress");
    expect(await again("status")).toMatch(/T-001 {2}claude-7f2 {2}users table/);
    writeFileSync(join(line.project, "users.sql"), "create table users ()");
    const handedIn = ["--summary", "migrated", "--file", "users.sql", "--command", "npm test"];
    expect(await start("task", "submit", "T-001", ...handedIn, ...worker)).toContain("submitted");
    expect(await again("status")).toContain("! 1 of checkout to verify");
    expect(await say("task", "verify", "1", "--why", "ran it")).toContain("done");
    expect(await say("task", "show", "1")).toContain("accepted by");

    // ── Facts and decisions ──
    const decided = [
      "--context",
      "JWT library",
      "--reason",
      "typed",
      "--alternative",
      "jsonwebtoken: no types of its own",
    ];
    expect(await say("decide", "jose", ...decided, "--type", "technology")).toContain("D-001");
    expect(await say("decisions", "jwt")).toContain("jose for JWT library");
    await say("fact", "port", "8080", "--source", "compose.yml");
    expect(await say("facts")).toMatch(/port {2}8080/);

    // ── A blocker ──
    await again("task", "claim", "2", ...worker);
    expect(await say("task", "block", "2", "the database is down", ...worker)).toContain("blocked");
    const blocked = await again("status");
    expect(blocked.split("\n")[0]).toMatch(
      /^! B-001 the database is down, since \d+ s {2}holdfast block resolve B-001 --resolution …$/,
    );
    expect(await say("block", "resolve", "1", "--resolution", "restarted")).toContain("unblocked: T-002");
    expect(await say("blockers")).toBe("no blockers\n");

    // ── A killed agent ──
    await line.runAgent("charging");
    expect(await start("calls")).toContain("c_8fk2 charge");
    expect(await line.runAgent(null)).toContain("waiting");
    expect((await again("status")).split("\n")[0]).toMatch(
      /^! 1 call waits for you, since .* holdfast calls$/,
    );
    const ways = (await again("calls")).match(/holdfast resolve .*/g);
    expect(ways).toEqual(["landed", "retry", "failed"].map((each) => `holdfast resolve c_8fk2 ${each}`));
    const answer = ["--result", '"pay_3Q"', "--by", "ann", "--why", "seen in the bank"];
    expect(await say("resolve", "c_8", "landed", ...answer)).toContain("c_8fk2 landed");
    expect(await line.runAgent(null)).toContain("done Paid.");
    const log = await start("session", "log", "order");
    expect(log).toContain("web-3");
    expect(log).toMatch(/completed +c_8fk2 by ann \(seen in the bank\) pay_3Q/);
    expect(await say("session", "versions", "order-4711")).toContain("VERSION");
    expect(await say("session", "diff", "order-4711", "1", "2")).toContain("+ assistant: Paid.");

    // ── Hand-over ──
    expect(await say("resume", "--session", "night", ...worker)).toContain("session night started");
    await again("task", "claim", "2", "--session", "night", ...worker);
    const leaving = [
      "--reason",
      "context 80%",
      "--context-usage",
      "80%",
      "--notes",
      "half done",
      "--next",
      "2",
    ];
    expect(await say("handoff", ...leaving, ...worker)).toContain("session night of checkout handed off");
    writeFileSync(join(line.project, "users.sql"), "drop table users");
    const { code, out } = await run("resume", "--session", "morning");
    expect(code).toBe(5);
    expect(out).toContain("users.sql DRIFTED");
    expect(out).toContain("holdfast resume --force --goal checkout");
    const briefing = await again("resume", "--session", "morning", "--force");
    expect(briefing).toContain("NEXT T-002");
    expect(briefing).toContain('handed off: "context 80%"');
    expect(await say("session", "list")).toContain("order-4711");
  },
  LONG_MS,
);

test("an export imports into another store unchanged", async () => {
  const file = join(line.project, "all.jsonl");
  expect(await start("export", file)).toContain("2 goals and sessions");
  const other = ["--store", join(line.project, "other.db")];
  expect(await start("import", file, ...other)).toContain("imported");
  expect(await again("import", file, ...other), "a second import changes nothing").toContain("imported");
  for (const words of [
    ["goal", "show"],
    ["session", "log", "order-4711"],
    ["task", "list", "--all"],
  ]) {
    const here = JSON.parse(await again(...words, "--json"));
    const there = JSON.parse(await again(...words, ...other, "--json"));
    expect(there.data, words.join(" ")).toEqual(here.data);
  }
  const checked = await run("check", "--json", ...other);
  expect(JSON.parse(checked.out)).toMatchObject({ data: { ok: false, problems: [] } });
  expect(checked.code, "a person must check a drifted file").toBe(5);
});
