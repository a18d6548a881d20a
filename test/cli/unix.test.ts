// The command line among other programs: closed pipes, signals, non-terminals, colours.

import { execFile, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
  await inside("init");
  await inside("goal", "new", "checkout", "Ship the checkout");
});
afterAll(() => line.remove());

/** Setup commands need no process. */
async function inside(...args: string[]): Promise<void> {
  expect(await runInside(line.project, args)).toMatchObject({ code: 0 });
}

test("a reader that closes the pipe early ends it silently", async () => {
  const script = `"${process.execPath}" "${line.cli}" completion bash | head -c 1 >/dev/null; echo "\${PIPESTATUS[0]}"`;
  const { stdout, stderr } = await promisify(execFile)("bash", ["-c", script], { env: environment() });
  expect(stderr).toBe("");
  expect(["0", "141"]).toContain(stdout.trim());
});

test("a pipe without any reader is not an error", async () => {
  const child = spawn(process.execPath, [line.cli, "--help"], { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  let said = "";
  child.stderr.on("data", (chunk) => {
    said += String(chunk);
  });
  await new Promise((resolve) => child.on("close", resolve));
  expect(said).toBe("");
});

test("colours appear only if wanted", async () => {
  const colour = "\u001b[";
  expect((await line.run(["status"])).out).not.toContain(colour);
  expect((await line.run(["status"], { env: { FORCE_COLOR: "1" } })).out).toContain(colour);
  expect((await line.run(["goal", "list"], { env: { FORCE_COLOR: "1" } })).out).toContain(colour);
  const both = { FORCE_COLOR: "1", NO_COLOR: "1" };
  expect((await line.run(["status"], { env: both })).out).not.toContain(colour);
});

test("watch shows the changes of another process and ends with Ctrl-C", async () => {
  const child = spawn(process.execPath, [line.cli, "watch", "--json"], {
    cwd: line.project,
    env: environment(),
  });
  const answers: { data: { goals: { tasks: number }[] } }[] = [];
  const told = (tasks: number): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (answers.some(({ data }) => data.goals[0]?.tasks === tasks)) resolve();
      };
      child.stdout.on("data", look);
      look();
    });
  let rest = "";
  child.stdout.on("data", (chunk) => {
    const lines = (rest + String(chunk)).split("\n");
    rest = lines.pop() ?? "";
    for (const each of lines) answers.push(JSON.parse(each));
  });
  await told(0);
  await inside("task", "add", "users table");
  await told(1);
  const ended = new Promise<number | null>((resolve) => child.on("exit", resolve));
  child.kill("SIGINT");
  expect(await ended).toBe(130);
});

test("the repository's store is found from a subfolder, and another store by its option", async () => {
  mkdirSync(join(line.project, "src/deep"), { recursive: true });
  const below = await line.run(["status", "--json"], { cwd: join(line.project, "src/deep") });
  expect(JSON.parse(below.out)).toMatchObject({ data: { goals: [{ goal: "checkout" }] } });
  await inside("init", "--store", "other.db");
  const said = await line.run(["status", "--json"], { env: { HOLDFAST_STORE: "other.db" } });
  expect(JSON.parse(said.out)).toMatchObject({ data: { goals: [] } });
  const flag = await line.run(["status", "--json", "--store=.holdfast"], {
    env: { HOLDFAST_STORE: "other.db" },
  });
  expect(JSON.parse(flag.out)).toMatchObject({ data: { goals: [{ goal: "checkout" }] } });
});

test("the fast path of status gives the same answer as the slow one", async () => {
  const short = await line.say("status");
  const { out: long } = await runInside(line.project, ["status", "--by", "ann"]);
  expect(long).toBe(short);
});

test("help and the version need no store", async () => {
  expect((await line.run(["--version"], { cwd: "/" })).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  const { code, out } = await line.run(["task", "claim", "--help"], { cwd: "/" });
  expect(code).toBe(0);
  expect(out).toContain("Usage: holdfast task claim");
});

test.each(["bash", "zsh"])("the completion script for %s is valid", async (shell) => {
  const script = await line.say("completion", shell);
  const found = `COMP_WORDS=(holdfast task cl); COMP_CWORD=2; _holdfast; echo "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)("bash", [
    "-c",
    `${shell === "bash" ? script : script.replace(/^autoload.*\n/, "")}\n${found}`,
  ]);
  expect(stdout.trim()).toBe("claim");
});
