// An agent has a shell, so it can type what a person types. The command line refuses a person's acts there.

import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OPERATIONS } from "../../src/operations/index.ts";
import { CommandLine, environment, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;

beforeAll(async () => {
  line = await CommandLine.build();
  await line.say("init", "--agent", "none");
  // The agent is killed inside of its payment, so that a person must say whether it happened.
  await line.runAgent("charging");
});

afterAll(() => line.remove());

const ANSWER = [
  "resolve",
  "c_8fk2",
  "landed",
  "--result",
  '"paid"',
  "--by",
  "ann",
  "--why",
  "seen in the bank",
];

describe("acts of a person are refused", () => {
  const shells: [string, Record<string, string>][] = [
    ["the role of a worker", { HOLDFAST_ROLE: "worker" }],
    ["the shell of Claude Code", { CLAUDECODE: "1" }],
    ["the shell of Codex", { CODEX_SANDBOX: "seatbelt" }],
    ["the shell of Cursor's agent", { CURSOR_AGENT: "1" }],
    ["the shell of Gemini CLI", { GEMINI_CLI: "1" }],
  ];
  test.each(shells)("in %s", async (_, env) => {
    const before = await runInside(line.project, ["calls", "--json"]);
    for (const args of [ANSWER, [...ANSWER, "--role", "human"]]) {
      const { code, err, out } = await runInside(line.project, args, env);
      expect(err).toContain("for people, but an agent runs");
      expect({ code, out }).toEqual({ code: 4, out: "" });
    }
    expect(await runInside(line.project, ["calls", "--json"])).toEqual(before);
  });

  test.runIf(process.platform === "linux").each(["claude", "cursor-agent"])(
    "below a process named %s, without any variable of it",
    async (name) => {
      const { code, err } = await runBelow(name, ANSWER);
      expect(err).toContain(`(${name})`);
      expect(code).toBe(4);
    },
  );

  test("each with its own act, before anything is read", async () => {
    const acts = [
      ["approve", "c_8fk2", "--by", "ann", "--why", "x"],
      ["deny", "c_8fk2", "--by", "ann", "--why", "x"],
      ["session", "effects", "s", "on", "--by", "ann", "--why", "x"],
      ["session", "retry", "s"],
      ["session", "cancel", "s", "--by", "ann", "--why", "x"],
      ["session", "erase", "s", "--yes"],
      ["session", "fork", "s", "t", "--live"],
      ["retract", "0123", "--why", "x"],
      ["review", "--accept", "all"],
      ["restore", "--accept"],
      ["trust", "--yes"],
      ["sign"],
      ["signer", "add", "ann", "ann.pub"],
      ["signer", "remove", "ann"],
      ["approver", "add", "ann", "ann.pub"],
      ["approver", "remove", "ann"],
      ["prune", "--older-than", "1d", "--yes"],
    ];
    const refused: [string, number][] = [];
    for (const args of acts) {
      const { code, err } = await runInside(line.project, args, { CLAUDECODE: "1" });
      if (!err.includes("for people, but an agent runs it: Claude Code"))
        refused.push([`${args}: ${err}`, code]);
    }
    expect(refused).toEqual([]);
  });
});

test("an agent without a role is a worker, never a person", async () => {
  const env = { CLAUDECODE: "1" };
  const run = (...args: string[]) => runInside(line.project, args, env);
  const made = await run("goal", "new", "g", "Ship it", "--role", "orchestrator");
  expect(made.code).toBe(0);
  expect((await run("goal", "new", "h", "Ship it")).err).toContain("a worker, may not");
  expect((await run("fact", "port", "8080", "--source", "x", "--by", "ann")).code).toBe(0);
  const { events } = await line.json<{ events: { type: string; role: string }[] }>("events");
  expect(events[0]).toMatchObject({ type: "fact.set", role: "worker" });
});

test("a person's answer still counts", async () => {
  expect((await line.run(ANSWER)).code).toBe(0);
});

/** These look, or set up what changes no history. A new operation of a person must vouch or be named here. */
const HARMLESS = ["approver list", "backup", "init", "rekey", "signer list", "supervise", "vacuum", "verify"];

test("every operation of a person vouches, or is known to be harmless", () => {
  const persons = [...OPERATIONS.values()].filter(({ who }) => who === "person");
  const harmless = persons.filter(({ vouches }) => vouches === undefined).map(({ name }) => name);
  expect(harmless.sort()).toEqual(HARMLESS);
});

/** Runs the command below a process whose program has the agent's name, as a child of init's would be. */
function runBelow(name: string, args: readonly string[]): Promise<Ran> {
  const folder = join(line.project, "bin");
  mkdirSync(folder, { recursive: true });
  const program = join(folder, name);
  // A copy of the shell: its name in the process table is the file's.
  copyFileSync("/bin/sh", program);
  const words = [process.execPath, line.cli, ...args];
  return new Promise((resolve) => {
    const child = execFile(
      program,
      ["-c", '"$@"; exit $?', name, ...words],
      { cwd: line.project, env: environment() },
      (_error, out, err) => resolve({ code: child.exitCode ?? -1, out, err }),
    );
    child.stdin?.end();
  });
}
