// Hooks in faulty environments: they still report what they can, and record nothing wrong.

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { type CommandLine, environment, type Ran } from "../cli/command-line.ts";
import { type HookedProject, inHookedProjects, thisProcess } from "./hooked-project.ts";

let line: CommandLine;
let project: HookedProject;
inHookedProjects((made, by) => {
  [project, line] = [made, by];
});

function contextOf({ out }: Ran): string {
  return JSON.parse(out).hookSpecificOutput.additionalContext as string;
}

describe.runIf(process.platform === "linux")(
  "the agent's process is found past the programs that start its hook",
  () => {
    /** Runs the hook as its child, like a package runner, and ends with it. */
    const runner = (cli: string) =>
      `require("node:child_process").execFileSync("sh", ["-c", ${JSON.stringify(`"${process.execPath}" "${cli}" hook claude session-start; true`)}],
      { input: JSON.stringify({ session_id: process.env.SESSION }) });`;
    const RUNNERS: readonly (readonly [string, string, string])[] = [
      [
        "a name that it gave itself",
        "run.cjs",
        'process.title = "npm exec holdfast hook claude session-start";',
      ],
      ["the script that it runs", "npx-cli.js", ""],
    ];

    test.each(RUNNERS)("%s", async (_, script, first) => {
      const file = join(project.root, script);
      writeFileSync(file, first + runner(line.cli));
      const ran = spawnSync(process.execPath, [file], {
        cwd: project.root,
        env: environment({ SESSION: "a" }),
        encoding: "utf8",
      });
      expect(ran).toMatchObject({ status: 0, stderr: "" });
      const [start] = readFileSync(join(project.folder, "claude-a.jsonl"), "utf8").split("\n");
      expect(JSON.parse(start ?? "").process, "this process is the agent").toEqual(thisProcess());
    });
  },
);

test("a spool that cannot be written does not suppress the briefing", async () => {
  rmSync(project.folder, { recursive: true });
  writeFileSync(project.folder, "in the way");
  const began = await project.hook("claude", "session-start", { session_id: "a" });
  expect(began.code).toBe(0);
  expect(contextOf(began)).toContain('goal="checkout"');
  expect(began.err).toMatch(/^holdfast hook claude session-start: .*hooks/);
  expect((await project.hook("claude", "touched", { session_id: "a" })).code).toBe(0);
});

describe("the briefing reports pulled events that cannot be merged", () => {
  const TROUBLES = {
    "the folder cannot be read": (events: string) => symlinkSync(events, events),
    "a file of it is damaged": (events: string) => {
      mkdirSync(events);
      writeFileSync(join(events, `${"0".repeat(32)}.jsonl`), '{"this is":"no event"}\n');
    },
  };

  test.each(Object.entries(TROUBLES))("%s", async (_, trouble) => {
    mkdirSync(join(project.root, ".planning"));
    trouble(join(project.root, ".planning/events"));
    const began = await project.hook("claude", "session-start", { session_id: "a" });
    const context = contextOf(began);
    expect(context).toContain('goal="checkout"');
    expect(context).toMatch(/^Some events of a pull were not merged\.[\s\S]*\nNOT MERGED ".*events/m);
    expect(began.err).toMatch(/^holdfast hook claude session-start: .*events/m);
    expect(project.log(), "later readers see it, too").toContain("hook claude session-start: ");
  });
});

test("an agent's writes to .planning/ are not recorded as its work", async () => {
  mkdirSync(join(project.root, ".planning"));
  const files = [".planning/STATE.md", "work.ts"];
  for (const file of files) writeFileSync(join(project.root, file), "text");
  const command = ["*** Begin Patch", ...files.map((file) => `*** Update File: ${file}`)].join("\n");
  await project.hook("codex", "touched", {
    session_id: "a",
    tool_name: "apply_patch",
    tool_input: { command },
  });
  const touched = JSON.parse(readFileSync(join(project.folder, "codex-a.jsonl"), "utf8"));
  expect(touched.files).toMatchObject([{ path: "work.ts" }]);
});

test("a briefing mark from the future does not suppress a briefing", async () => {
  const mark = join(project.folder, "claude-a.startup.briefed");
  writeFileSync(mark, "");
  const tomorrow = Date.now() / 1_000 + 86_400;
  utimesSync(mark, tomorrow, tomorrow);
  const began = await project.hook("claude", "session-start", { session_id: "a", source: "startup" });
  expect(contextOf(began)).toContain('goal="checkout"');
});

test("an error is logged with its hint", async () => {
  const connection = await Connection.open(join(project.root, ".holdfast/store.db"), false);
  connection.exec("PRAGMA user_version = 99");
  await connection.close();
  const { code, err } = await project.ingest();
  expect(code).toBe(0);
  expect(err).toMatch(/^holdfast hook ingest: .* \(.+\)\n$/);
  expect(project.log()).toContain(err);
});
