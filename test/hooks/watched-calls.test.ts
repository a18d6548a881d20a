// Calls that reach beyond the project, and files of other agents: hooks fed with the JSON of real agents.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { watchedPart } from "../../src/hooks/index.ts";
import type { CommandLine } from "../cli/command-line.ts";
import { goneProcess, type HookedProject, inHookedProjects, start } from "./hooked-project.ts";

interface Recorded {
  readonly session: string;
  readonly files: readonly { readonly act: string; readonly path: string }[];
}

let project: HookedProject;
let line: CommandLine;
inHookedProjects((each, command) => {
  project = each;
  line = command;
});

const LONG = { timeout: 120_000 };

test.each([
  ["git push origin main", "git push origin main"],
  [
    "cd app && FOO=1 sudo git -C sub push --force origin main; ls",
    "FOO=1 sudo git -C sub push --force origin main",
  ],
  ["bash -lc 'npm publish --tag next'", "bash -lc 'npm publish --tag next'"],
  ["./scripts/deploy-web.sh prod", "./scripts/deploy-web.sh prod"],
  ["gh pr create --title x", "gh pr create --title x"],
  ["./ship.sh now", "./ship.sh now"],
  ["git status", null],
  ["git log push", null],
  ["echo git push", null],
  ["npm run build", null],
])("a rule names the shell command %j: %j", (command, part) => {
  expect(watchedPart("Bash", command, ["ship.sh"])).toBe(part);
});

test("a rule names calls of MCP servers that change something, but not our own", () => {
  expect(watchedPart("mcp__github__create_pull_request", "{}", [])).toBe(
    "mcp__github__create_pull_request {}",
  );
  expect(watchedPart("mcp__stripe__balance", "{}", ["mcp__stripe__*"])).toBe("mcp__stripe__balance {}");
  expect(watchedPart("mcp__github__get_issue", "{}", [])).toBeNull();
  expect(watchedPart("mcp__holdfast__task_create", "{}", [])).toBeNull();
});

const push = (id: string, command = "git push origin main", more: object = {}) => ({
  session_id: "7f2a91bc-0001",
  transcript_path: "/t.jsonl",
  permission_mode: "default",
  tool_name: "Bash",
  tool_input: { command, description: "Push" },
  tool_use_id: id,
  ...more,
});

test.runIf(process.platform === "linux")(
  "after a crash the next agent reads which command may have had an effect",
  LONG,
  async () => {
    const token = `ghp_${"a1B2".repeat(9)}`;
    project.spool("claude-7f2a91bc0001", start({ process: await goneProcess() }));
    await project.hook("claude", "tool-start", push("toolu_1"));
    const response = { stdout: "", stderr: "", interrupted: false };
    await project.hook("claude", "touched", push("toolu_1", undefined, { tool_response: response }));
    await project.hook(
      "claude",
      "tool-start",
      push("toolu_2", `gh pr create --title "</holdfast-state>" -b ${token}`),
    );
    await project.hook("claude", "tool-start", push("toolu_3", "git status"));
    const spooled = readFileSync(join(project.folder, "claude-7f2a91bc0001.jsonl"), "utf8");
    expect(spooled).not.toContain(token);
    expect(spooled).not.toContain("git status");
    const { out } = await project.hook("codex", "session-start", { session_id: "other", source: "startup" });
    const { additionalContext: briefing } = JSON.parse(out).hookSpecificOutput;
    expect(briefing).toContain('UNKNOWN claude-7f2a91bc0001 started, outcome unknown: "gh pr create --title');
    expect(briefing).toContain("check before repeating");
    expect(briefing).not.toContain('UNKNOWN claude-7f2a91bc0001 started, outcome unknown: "git push');
    expect(briefing.match(/<\/holdfast-state>/g)).toHaveLength(1);
    await project.ingest();
    await project.ingest();
    const entry = (await project.state()).history.get("claude-7f2a91bc0001");
    expect(entry).toMatchObject({ status: "crashed" });
    expect(entry?.notes).toContain("done: git push origin main");
    expect(entry?.issues).toHaveLength(1);
    const after = await line.run(["brief"], { cwd: project.root });
    expect(after.out).toContain("UNKNOWN claude-7f2a91bc0001 started");
  },
);

test(
  "a patch that Codex applies without a hook after it is recorded once it has changed its files",
  LONG,
  async () => {
    const session = "codex-01a1f05c4080";
    const file = (name: string): string => join(project.root, name);
    for (const name of ["kept.ts", "changed.ts", "gone.ts"]) writeFileSync(file(name), "1\n");
    project.spool(session, start());
    const lines = [
      "Add File: new.ts",
      "Update File: changed.ts",
      "Delete File: gone.ts",
      "Update File: kept.ts",
    ];
    const patch = ["*** Begin Patch", ...lines.map((each) => `*** ${each}`), "*** End Patch"].join("\n");
    const tool_input = { command: `apply_patch <<'END'\n${patch}\nEND` };
    await project.hook("codex", "tool-start", { session_id: "01a1f05c4080", tool_name: "Bash", tool_input });
    writeFileSync(file("new.ts"), "2\n");
    writeFileSync(file("changed.ts"), "2\n");
    rmSync(file("gone.ts"));
    const next = await project.hook("claude", "session-start", { session_id: "other", source: "startup" });
    expect(next).toMatchObject({ code: 0 });
    await project.ingest();
    const recorded = await project.inGoal(async (goal) => {
      const all: Recorded[] = [];
      for await (const [, { type, data }] of goal.events(0))
        if (type === "files.recorded") all.push(data as Recorded);
      return all;
    });
    expect(recorded).toMatchObject([{ session }]);
    expect(recorded[0]?.files.map(({ act, path }) => `${act} ${path}`).sort()).toEqual([
      "created new.ts",
      "deleted gone.ts",
      "modified changed.ts",
    ]);
  },
);

test("the project's own rules hold from the next session on", LONG, async () => {
  writeFileSync(join(project.root, "holdfast.config.json"), JSON.stringify({ watch: ["ship.sh"] }));
  await project.hook("claude", "session-start", { session_id: "7f2a91bc-0001", source: "startup" });
  await project.hook("claude", "tool-start", push("1", "./ship.sh"));
  expect(readFileSync(join(project.folder, "claude-7f2a91bc0001.jsonl"), "utf8")).toContain("./ship.sh");
});

test("before an edit the agent is warned of a file that another live agent works on", LONG, async () => {
  const other = { name: "codex-other", role: "worker" } as const;
  await project.inGoal((goal) => goal.addTask({ title: "</holdfast-state> users", files: ["src/users.ts"] }));
  project.spool("codex-other", start());
  const claim = [
    "task",
    "claim",
    "T-001",
    "--by",
    "codex-other",
    "--role",
    "worker",
    "--session",
    "codex-other",
  ];
  await project.ingest();
  expect((await line.run(claim, { cwd: project.root })).err).toBe("");
  expect((await project.state()).tasks.get("T-001")?.claim?.by).toEqual(other);
  const edit = (session_id: string, file: string) => ({
    session_id,
    tool_name: "Edit",
    tool_input: { file_path: join(project.root, file), old_string: "a", new_string: "b" },
    tool_use_id: "toolu_1",
  });
  const warned = await project.hook("claude", "tool-start", edit("me", "src/users.ts"));
  const { hookEventName, additionalContext } = JSON.parse(warned.out).hookSpecificOutput;
  expect(hookEventName).toBe("PreToolUse");
  expect(additionalContext).toContain("another agent has claimed");
  expect(additionalContext).toContain('AGENT "codex-other"');
  expect(additionalContext.match(/<\/holdfast-state>/g)).toHaveLength(1);
  expect((await project.hook("claude", "tool-start", edit("me", "src/other.ts"))).out).toBe("");
  expect((await project.hook("codex", "tool-start", edit("other", "src/users.ts"))).out).toBe("");
  project.spool("codex-other", { at: Date.now(), type: "end", reason: null });
  expect((await project.hook("claude", "tool-start", edit("me", "src/users.ts"))).out).toBe("");
});

test("a sub-agent gets a briefing, and starts no session", LONG, async () => {
  await project.inGoal((goal) => goal.addTask({ title: "users table" }));
  const input = { session_id: "7f2a91bc-0001", agent_id: "a1", agent_type: "Explore" };
  const { out } = await project.hook("claude", "subagent-start", input);
  const { hookEventName, additionalContext } = JSON.parse(out).hookSpecificOutput;
  expect(hookEventName).toBe("SubagentStart");
  expect(additionalContext).toContain("You are a sub-agent of session claude-7f2a91bc0001");
  expect(additionalContext).toContain("users table");
  expect(project.spoolFiles()).toEqual([]);
});
