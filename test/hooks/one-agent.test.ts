// Sessions of hooks: noticed as crashed by any command, and without a trace in git if they did nothing.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { CommandLine } from "../cli/command-line.ts";
import { goneProcess, type HookedProject, inHookedProjects, start, thisProcess } from "./hooked-project.ts";

let project: HookedProject;
let line: CommandLine;
inHookedProjects((each, command) => {
  project = each;
  line = command;
});

const LONG = { timeout: 120_000 };

test.runIf(process.platform === "linux")(
  "status says crashed at once, and the task is open",
  LONG,
  async () => {
    await project.inGoal((goal) => goal.addTask({ title: "users table" }));
    project.spool("claude-dead", start({ process: thisProcess() }));
    await project.ingest();
    const by = { name: "claude-dead", role: "worker" } as const;
    await project.inGoal((goal) => goal.claim("T-001", { by, session: "claude-dead", detached: true }));
    project.spool("claude-dead", start({ source: "compact", process: await goneProcess() }));
    const { out } = await line.run(["status"], { cwd: project.root });
    expect(out).toContain("claude-dead crashed");
    const { tasks } = await project.state();
    expect(tasks.get("T-001")).toMatchObject({ status: "open", claim: null });
  },
);

test("a session that did nothing writes no file", LONG, async () => {
  project.spool("claude-idle", start(), { at: Date.now(), type: "end", reason: null });
  await project.ingest();
  expect((await project.state()).history.get("claude-idle")?.status).toBe("ended");
  expect(existsSync(join(project.root, ".planning/sessions"))).toBe(false);
});

test("Gemini CLI's notice before every model call is no compaction", LONG, async () => {
  await project.hook("gemini", "checkpoint", { session_id: "abc", trigger: "auto" });
  expect(project.spoolFiles()).not.toContain("gemini-abc.jsonl");
});
