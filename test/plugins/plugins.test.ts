// The plugins of the agents: written from one source, complete, and quiet where Holdfast is not used.

import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse as parseToml } from "smol-toml";
import { afterAll, describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { pluginFiles } from "../../scripts/plugin-files.ts";
import { quickFolder } from "../quick-folder.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const files = pluginFiles();
const scratch = mkdtempSync(join(quickFolder(), "holdfast-plugins-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test.each([...files])("%s is what the source says (npm run plugins writes it)", async (path, text) => {
  await expect(text).toMatchFileSnapshot(join(root, path));
});

test("no file is left of an older source", () => {
  const folders = ["plugins", ".claude-plugin", ".agents", ".cursor-plugin"];
  const there = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile())
      .map((each) => join(each.parentPath, each.name).slice(root.length)),
  );
  expect(there.sort()).toEqual([...files.keys()].sort());
});

test("every manifest, command and skill can be parsed, and names what exists", () => {
  for (const [path, text] of files) {
    if (path.endsWith(".json")) expect(typeof JSON.parse(text), path).toBe("object");
    if (path.endsWith(".toml")) expect(parseToml(text), path).toMatchObject({ prompt: expect.any(String) });
    if (!path.endsWith(".md")) continue;
    const [, head = ""] = /^---\n([\s\S]*?)\n---\n/.exec(text) ?? [];
    const { name, description } = parseYaml(head) as Record<string, string>;
    expect(description?.length, path).toBeGreaterThan(20);
    if (path.endsWith("SKILL.md")) expect(name).toBe(path.split("/").at(-2));
  }
  for (const folder of ["claude-code", "codex", "cursor", "gemini", "opencode"])
    expect(
      [...files.keys()].filter((path) => /(status|next|handoff|resolve)/.test(path) && path.includes(folder)),
    ).toHaveLength(4);
});

test("the package brings the plugins and the marketplaces", () => {
  const { files: packed } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    files: string[];
  };
  const isPacked = (path: string): boolean =>
    packed.some((each) => path === each || path.startsWith(`${each}/`));
  expect([...files.keys()].filter((path) => !isPacked(path))).toEqual([]);
});

describe("the launcher", () => {
  const launcher = join(root, "plugins/claude-code/bin/holdfast.sh");
  const project = (name: string): string => {
    const folder = join(scratch, name);
    mkdirSync(folder);
    execFileSync("git", ["init", "-q", "-b", "main", folder]);
    return folder;
  };
  /** A Holdfast that says where it is and what it was asked. */
  const install = (folder: string): void => {
    const file = join(folder, "node_modules/.bin/holdfast");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `#!/bin/sh\necho "${folder} $*"\n`);
    chmodSync(file, 0o755);
  };
  const run = (cwd: string, ...args: string[]) => {
    const env = { PATH: "/usr/bin:/bin", HOME: scratch };
    const { status, stdout, stderr } = spawnSync("sh", [launcher, ...args], { cwd, env, encoding: "utf8" });
    return { status, out: stdout.trim(), error: stderr.trim() };
  };

  test("starts the project's Holdfast, and in a worktree that of the main checkout", () => {
    const folder = project("with");
    install(folder);
    mkdirSync(join(folder, ".holdfast"));
    expect(run(folder, "hook", "claude", "stop").out).toBe(`${folder} hook claude stop`);
    const commit = [
      "-c",
      "user.name=a",
      "-c",
      "user.email=a@b",
      "commit",
      "-q",
      "--allow-empty",
      "-m",
      "Begin",
    ];
    execFileSync("git", ["-C", folder, ...commit]);
    execFileSync("git", ["-C", folder, "worktree", "add", "-q", join(scratch, "tree")]);
    expect(run(join(scratch, "tree"), "hook", "codex", "stop").out).toBe(`${folder} hook codex stop`);
  });

  test("a hook is quiet in a project that does not use Holdfast, or is wired by init", () => {
    const folder = project("without");
    install(folder);
    expect(run(folder, "hook", "claude", "stop")).toEqual({ status: 0, out: "", error: "" });
    expect(run(folder, "hook", "gemini", "stop")).toEqual({ status: 0, out: "{}", error: "" });
    mkdirSync(join(folder, ".planning"));
    mkdirSync(join(folder, ".claude"));
    writeFileSync(join(folder, ".claude/settings.json"), '{ "command": "holdfast hook claude stop" }');
    expect(run(folder, "hook", "claude", "stop").out).toBe("");
    expect(run(folder, "hook", "cursor", "stop").out).toBe(`${folder} hook cursor stop`);
  });

  test("without Holdfast a hook is quiet, and the MCP server says what to install", () => {
    const folder = project("missing");
    mkdirSync(join(folder, ".planning"));
    expect(run(folder, "hook", "claude", "session-start")).toEqual({ status: 0, out: "", error: "" });
    expect(run(folder, "mcp")).toMatchObject({ status: 1, error: expect.stringContaining("npm install") });
  });
});

test("the opencode plugin gives a session its briefing once, and reports edits and ends", async () => {
  const plugin = join(scratch, "opencode");
  cpSync(join(root, "plugins/opencode"), plugin, { recursive: true });
  const log = join(scratch, "hooks.log");
  const answer = JSON.stringify({ hookSpecificOutput: { additionalContext: "GOAL checkout" } });
  writeFileSync(join(plugin, "bin/holdfast.sh"), `echo "$*: $(cat)" >> ${log}\necho '${answer}'\n`);
  const { Holdfast } = await import(join(plugin, "holdfast.js"));
  const hooks = await Holdfast({ directory: scratch, worktree: scratch });
  const config = { command: { "holdfast-next": { template: "mine" } } } as Record<
    string,
    Record<string, unknown>
  >;
  await hooks.config(config);
  expect(Object.keys(config["command"] ?? {}).sort()).toEqual(
    ["handoff", "next", "resolve", "status"].map((name) => `holdfast-${name}`),
  );
  expect(config["command"]?.["holdfast-next"]).toEqual({ template: "mine" });
  expect(config["mcp"]?.["holdfast"]).toMatchObject({ type: "local" });
  for (let turn = 0; turn < 2; turn++) {
    const output = { system: ["You are an agent."] };
    await hooks["experimental.chat.system.transform"]({ sessionID: "ses_1" }, output);
    expect(output.system).toEqual(["You are an agent.", "GOAL checkout"]);
  }
  await hooks["tool.execute.after"]({ tool: "read", sessionID: "ses_1", args: { filePath: "a.ts" } });
  await hooks["tool.execute.after"]({ tool: "edit", sessionID: "ses_1", args: { filePath: "a.ts" } });
  await hooks.event({ event: { type: "session.idle", properties: { sessionID: "ses_1" } } });
  const lines = existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : [];
  expect(lines.map((line) => line.split(":")[0])).toEqual([
    "hook opencode session-start",
    "hook opencode touched",
    "hook opencode stop",
  ]);
  expect(lines[1]).toContain('"file_path":"a.ts"');
});
