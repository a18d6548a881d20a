// Operations that fail say why and suggest a command that works when pasted.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Context, OPERATIONS, perform } from "../../src/operations/index.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
const run = (...words: string[]) => runInside(line.project, words);

beforeAll(async () => {
  line = await CommandLine.build();
  await run("init", "--agent", "none");
  await run("goal", "new", "n1", "One");
  await run("goal", "new", "n2", "Two");
});
afterAll(() => line.remove());

describe("export", () => {
  test("into a missing folder is a user error, not a bug", async () => {
    const { code, err } = await run("export", "./no/such/dir/x.hf");
    expect(code).toBe(2);
    expect(err).toContain(`${line.project}/no/such/dir/x.hf cannot be written: folder`);
    expect(err).toContain("Create the folder first");
    expect(err).not.toMatch(/fault in Holdfast|\n {4}at /);
  });

  test("to a path that cannot be a file is a user error, too", async () => {
    writeFileSync(join(line.project, "plain"), "");
    const { code, err } = await run("export", "plain/x.hf");
    expect(code).toBe(1);
    expect(err).toContain("plain/x.hf cannot be written (ENOTDIR)");
    expect(err).not.toContain("fault in Holdfast");
  });

  test("onto an existing file is rejected", async () => {
    mkdirSync(join(line.project, "there.hf"));
    const { code, err } = await run("export", "there.hf");
    expect(code).toBe(4);
    expect(err).toContain(": file exists");
  });
});

test("the commands of status name the goal if there are several, on the fast path too", async () => {
  const short = await line.say("status", "--goal", "n1");
  const { out } = await run("status", "--goal", "n1");
  expect(out).toBe(short);
  const [, typed = ""] = /next .* {2}holdfast (.+)\n/.exec(out) ?? [];
  expect(typed).toContain("--goal n1");
  const words = typed.match(/"[^"]*"|\S+/g)?.map((each) => each.replaceAll('"', "")) ?? [];
  expect(await run(...words)).toMatchObject({ code: 0 });
});

describe("check", () => {
  test("of a missing goal is an error", async () => {
    const { code, out, err } = await run("check", "--goal", "zzz");
    expect({ code, out }).toEqual({ code: 3, out: "" });
    expect(err).toContain('there is no goal "zzz"');
  });

  test("of a goal checks the files of that goal", async () => {
    writeFileSync(join(line.project, "a.txt"), "a");
    await run("remember", "a.txt", "--goal", "n2");
    writeFileSync(join(line.project, "a.txt"), "b");
    expect(await run("check", "--goal", "n1")).toMatchObject({ code: 0 });
    expect(await run("check", "--goal", "n2")).toMatchObject({ code: 5 });
    expect(await run("check")).toMatchObject({ code: 5 });
  });
});

describe("empty text", () => {
  test.each([
    ["task add", { title: "   ", goal: "n1" }, "title"],
    ["task add", { title: "", goal: "n1" }, "title"],
    ["task add", { title: "t", goal: "n1", wanted: ["works", "\t\n"] }, "wanted[1]"],
    ["goal new", { id: "n3", statement: " " }, "statement"],
    ["goal new", { id: "n3", statement: "s", title: "" }, "title"],
    ["decide", { goal: "n1", decision: " ", context: "c", reason: "r" }, "decision"],
    ["block add", { goal: "n1", description: "\n" }, "description"],
    ["fact", { goal: "n1", key: "k", value: " ", source: " " }, "source"],
  ] as const)("%s rejects %j", async (name, input, field) => {
    const by = { name: "me", role: "human" } as const;
    const context = await Context.of({ cwd: line.project, by, caller: "person" });
    const operation = OPERATIONS.get(name);
    if (!operation) throw new Error(name);
    const refused = await perform(operation, context, input).catch((error: unknown) => error);
    await context.close();
    expect(refused).toMatchObject({ code: "INPUT_INVALID", message: `${name}: ${field} is empty` });
  });

  test("the command line rejects it too, but a fact's value may be blank", async () => {
    const { code, err } = await run("task", "add", "   ", "--goal", "n1");
    expect(code).toBe(2);
    expect(err).toContain("task add: title is empty");
    expect(err).not.toContain("Too small");
    expect(await run("fact", "k", '" "', "--source", "s", "--goal", "n1")).toMatchObject({ code: 0 });
  });
});

test("a goal without tasks that cannot advance names the reason", async () => {
  const project = line.newProject();
  const here = (...words: string[]) => runInside(project, words);
  await here("init", "--agent", "none");
  await here("goal", "new", "g", "G");
  await here("block", "add", "no keys", "--everything");
  expect((await here("next")).out).toBe("nothing to claim (blocked): nothing can move: B-001 is active\n");
  await here("block", "add", "no disk", "--everything");
  expect((await here("next")).out).toContain("B-001, B-002 are active");
});
