// `init` on real files: all of them or none, links and permissions kept, and every wired command really run.

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { placeAll } from "../../src/wiring/index.ts";
import { CommandLine } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";

/** Some thirty processes: on a busy machine that takes its time. */
const LONG_MS = 600_000;

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(() => {
  project = line.newProject();
});

const SETTINGS =
  '{\r\n\t// mine\r\n\t"permissions": {"allow": ["Bash(ls)"]}, // and this\r\n\t"hooks": {"Stop": []}\r\n}';
const CONFIG = "# mine\nmodel = 'o4' # really\n\n[mcp_servers.github]\ncommand = \"gh\"\n";

function put(path: string, text: string): void {
  mkdirSync(join(project, path, ".."), { recursive: true });
  writeFileSync(join(project, path), text);
}

/** Everything in the project but our own folder and the goal's, which stay, with its bytes. */
function everything(folder = project): Record<string, string> {
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
  const files = entries.filter((each) => each.isFile() || each.isSymbolicLink());
  const paths = files.map((each) => join(each.parentPath, each.name).slice(folder.length + 1)).sort();
  return Object.fromEntries(
    paths
      .filter((path) => !/^\.(holdfast|planning)\b/.test(path))
      .map((path) => [path, readFileSync(join(folder, path), "latin1")]),
  );
}

test(
  "agents with settings are wired, checked, and restored byte for byte",
  async () => {
    put(".claude/settings.json", SETTINGS);
    put(".codex/config.toml", CONFIG);
    put(".cursor/mcp.json", '{"mcpServers":{"github":{"command":"gh"}}}');
    put("AGENTS.md", "# Mine\n");
    put("opencode.json", '{ "plugin": ["./mine.js"] }');
    put("node_modules/holdfast/plugins/opencode/holdfast.js", "");
    chmodSync(join(project, ".claude/settings.json"), 0o600);
    const before = everything();
    const command = ["--command", `${process.execPath} ${line.cli}`];
    const planned = await runInside(project, ["init", "--agent", "all", "--dry-run", ...command]);
    expect(planned.out).toContain("+++ .claude/settings.json");
    expect(planned.out).toContain('+\t"hooks": {"Stop": [');
    expect(everything(), "a dry run changes nothing").toEqual(before);
    expect(existsSync(join(project, ".holdfast"))).toBe(false);

    expect((await line.run(["init", "--agent", "all", ...command], { cwd: project })).code).toBe(0);
    await runInside(project, ["goal", "new", "checkout", "Ship the checkout"]);
    const after = everything();
    expect(Object.keys(after)).toEqual(
      expect.arrayContaining([".gemini/settings.json", ".mcp.json", ".codex/hooks.json"]),
    );
    expect(after[".claude/settings.json"]).toContain(
      '\t// mine\r\n\t"permissions": {"allow": ["Bash(ls)"]}, // and this\r\n',
    );
    expect(after[".codex/config.toml"]?.startsWith(CONFIG)).toBe(true);
    expect(statSync(join(project, ".claude/settings.json")).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(project, ".holdfast/.gitignore"), "utf8")).toBe("*\n");

    const checked = await line.run(["init", "--check", "--json", ...command], { cwd: project });
    const { data } = JSON.parse(checked.out);
    expect(
      data.proofs.filter(({ ok }: { ok: boolean }) => !ok),
      "every hook answers, every server lists its tools",
    ).toEqual([]);
    expect(checked.code).toBe(0);
    const agents = data.proofs.map(({ agent }: { agent: string }) => agent);
    expect([...new Set(agents)]).toEqual(["claude", "codex", "cursor", "gemini", "copilot", "opencode"]);
    expect(data.proofs.filter(({ what }: { what: string }) => what.endsWith(" mcp"))).toHaveLength(6);
    const history = await runInside(project, ["goal", "show", "--json"]);
    expect(JSON.parse(history.out).data.history, "a rehearsal is not recorded").toEqual([]);

    await runInside(project, ["init", "--remove", ...command]);
    expect(everything()).toEqual(before);
    expect(existsSync(join(project, ".gemini")), "folders that were not there are gone again").toBe(false);
    expect(existsSync(join(project, ".holdfast/store.db")), "the store is not ours to remove").toBe(true);
  },
  LONG_MS,
);

test("the check finds a hook that fails, one with useless output, and a server that is none", async () => {
  await runInside(project, ["init", "--agent", "claude", "--command", "false"]);
  const check = (agent: string, command: string) =>
    runInside(project, ["init", "--check", "--agent", agent, "--command", command]);
  const failing = await check("claude", "false");
  expect(failing.code).toBe(5);
  expect(failing.out).toContain("NO  .claude/settings.json session-start: ended with 1");
  expect(failing.out).toMatch(/NO {2}\.mcp\.json mcp: it ended with 1 before it answered/);
  await runInside(project, ["init", "--agent", "claude", "--command", "echo"]);
  const silly = await check("claude,codex", "echo");
  expect(silly.out).toContain("session-start: it printed something that is not JSON");
  expect(silly.out).toContain("NO  .codex/hooks.json: is not there: holdfast init");
  await runInside(project, ["init", "--agent", "claude", "--command", "true"]);
  const silent = await check("claude", "true");
  expect(silent.out, "silence is no briefing").toContain("NO  .claude/settings.json session-start");
});

describe("without a terminal, init wires only the agents that are there", () => {
  const NONE = "no coding agent was found. To wire one:";
  const cases: Readonly<Record<string, readonly [path: string | null, agents: readonly string[]]>> = {
    "none of them": [null, []],
    "one by its settings in the project": [".cursor/rules/mine.md", ["cursor"]],
    "one by its memory in the project": ["GEMINI.md", ["gemini"]],
    "one by its folder in the home": ["home/.codex/auth.json", ["codex"]],
    "one by its program": ["bin/claude", ["claude"]],
  };
  test.each(Object.entries(cases))("%s", async (_, [path, agents]) => {
    if (path !== null) put(path, "");
    const env = { HOME: join(project, "home"), PATH: `${join(project, "bin")}:/usr/bin:/bin` };
    const { out, code } = await runInside(project, ["init", "--json", "--command", "holdfast"], env);
    expect(code).toBe(0);
    const { data } = JSON.parse(out);
    expect(data.agents).toEqual(agents);
    expect(data.notes.some((each: string) => each.startsWith(NONE))).toBe(agents.length === 0);
    const again = await runInside(project, ["init", "--json", "--command", "holdfast"]);
    expect(JSON.parse(again.out).data.agents, "a wired agent stays wired").toEqual(
      expect.arrayContaining([...agents]),
    );
  });
});

test("in a subfolder, files are named relative to it", async () => {
  rmSync(join(project, ".git"), { recursive: true });
  execFileSync("git", ["init", "-q"], { cwd: project });
  const below = join(project, "deep/er");
  mkdirSync(below, { recursive: true });
  put(".mcp.json", '{"mcpServers": {"holdfast": {"command": "mine"}}}');
  const made = await runInside(below, ["init", "--agent", "claude", "--command", "false"]);
  expect(made.out).toContain("created ../../.claude/settings.json\n");
  expect(made.out).toContain("- ../../.mcp.json: has an MCP server");
  const again = await runInside(below, ["init", "--agent", "claude", "--command", "true", "--json"]);
  expect(JSON.parse(again.out).data, "JSON says from where").toMatchObject({
    root: project,
    files: expect.arrayContaining([expect.objectContaining({ path: ".claude/settings.json" })]),
  });
  const checked = await runInside(below, ["init", "--check", "--command", "true"]);
  expect(checked.out, checked.err).toContain("../../.claude/settings.json session-start");
  const removed = await runInside(below, ["init", "--remove"]);
  expect(removed.out).toContain("removed ../../.claude/settings.json\n");
  expect(removed.out).toContain("- the store is kept: ../../.holdfast\n");
});

test("a note says when Holdfast is wired by its place on this machine", async () => {
  const bin = join(project, "elsewhere/node_modules/.bin");
  put("elsewhere/node_modules/.bin/holdfast", "");
  const { out } = await runInside(project, ["init", "--agent", "all"], {
    PATH: `${bin}:${process.env["PATH"]}`,
  });
  expect(out).toContain("neither in this project's node_modules nor on the PATH that an agent has");
});

test("one malformed file stops everything, and no store is made", async () => {
  put(".claude/settings.json", SETTINGS);
  put(".gemini/settings.json", '{\n  "a": 1,\n  oops\n}\n');
  const before = everything();
  const { code, err } = await runInside(project, ["init"]);
  expect(code).toBe(2);
  expect(err).toContain(".gemini/settings.json:3:3: this is not JSON");
  expect(err).toContain("No file was changed");
  expect(everything()).toEqual(before);
  expect(existsSync(join(project, ".holdfast"))).toBe(false);
});

test("a file that is not UTF-8, and a folder in its place, are refused", async () => {
  mkdirSync(join(project, ".cursor"));
  writeFileSync(join(project, ".cursor/mcp.json"), Buffer.from([0x7b, 0xff, 0x7d]));
  expect((await runInside(project, ["init"])).err).toContain(".cursor/mcp.json cannot be read");
  rmSync(join(project, ".cursor/mcp.json"));
  mkdirSync(join(project, ".mcp.json"));
  expect((await runInside(project, ["init"])).err).toContain(".mcp.json cannot be read (EISDIR)");
});

test("settings behind a link stay there, and the link stays a link", async () => {
  put("dotfiles/claude.json", '{"model": "x"}\n');
  mkdirSync(join(project, ".claude"));
  symlinkSync("../dotfiles/claude.json", join(project, ".claude/settings.json"));
  await runInside(project, ["init", "--agent", "claude"]);
  expect(lstatSync(join(project, ".claude/settings.json")).isSymbolicLink()).toBe(true);
  expect(readFileSync(join(project, "dotfiles/claude.json"), "utf8")).toContain("hook claude session-start");
  await runInside(project, ["init", "--remove", "--agent", "claude"]);
  expect(readFileSync(join(project, "dotfiles/claude.json"), "utf8")).toBe('{"model": "x"}\n');
});

test.each([
  ["a file", "AGENTS.md", "bashrc"],
  ["a folder with the file", ".claude", "settings"],
  ["a folder without it", ".codex", "empty"],
])("a link to %s outside the project is refused, and followed if the user says so", async (_, path, name) => {
  const outside = line.newProject();
  writeFileSync(join(outside, "bashrc"), "alias ll='ls -l'\n");
  mkdirSync(join(outside, "settings"));
  mkdirSync(join(outside, "empty"));
  writeFileSync(join(outside, "settings/settings.json"), "{}");
  const before = everything(outside);
  symlinkSync(join(outside, name), join(project, path));
  for (const more of [[], ["--dry-run"]]) {
    const { code, err } = await runInside(project, ["init", "--agent", "all", ...more]);
    expect(code).toBe(4);
    expect(err).toContain(`leads out of the project, to ${outside}`);
    expect(err).toContain("--follow-links");
  }
  expect(everything(outside), "nothing was written there").toEqual(before);
  expect(existsSync(join(project, ".holdfast")), "nor here").toBe(false);
  const followed = await runInside(project, ["init", "--agent", "all", "--follow-links"]);
  expect(followed.out).toMatch(new RegExp(`: leads to ${outside}/\\S+, which was changed`));
  expect(everything(outside)).not.toEqual(before);
});

test("if the last file cannot be placed, those before it are restored", () => {
  put("a.json", "old");
  put("made/there.json", "x");
  const plan = (path: string, before: string | null, after: string) => {
    return { path, agent: null, before, after, record: null, notes: [] };
  };
  const files = [
    plan("a.json", "old", "new"),
    plan("deep/b.json", null, "b"),
    plan("made/there.json", "not this", "y"),
  ];
  expect(() => placeAll(project, files)).toThrow("made/there.json was changed while it was being wired");
  expect(everything()).toEqual({ "a.json": "old", "made/there.json": "x" });
  expect(existsSync(join(project, "deep"))).toBe(false);
});

test("without the store folder, --remove still removes what init made, and creates nothing", async () => {
  put("AGENTS.md", "# Mine\n");
  put(".cursor/mcp.json", '{"mcpServers":{"github":{"command":"gh"}}}');
  put(".gemini/settings.json", "{}");
  const before = everything();
  await runInside(project, ["init", "--agent", "claude,codex,cursor"]);
  rmSync(join(project, ".holdfast"), { recursive: true });
  const { code } = await runInside(project, ["init", "--remove", "--command", "another"]);
  expect(code).toBe(0);
  expect(everything()).toEqual(before);
  expect(readdirSync(project).sort()).toEqual([".cursor", ".gemini", ".git", "AGENTS.md"]);
});

test("without the record, additions of the user stay in the file", async () => {
  await runInside(project, ["init", "--agent", "all"]);
  rmSync(join(project, ".holdfast"), { recursive: true });
  const path = join(project, ".gemini/settings.json");
  writeFileSync(path, readFileSync(path, "utf8").replace("{", '{\n  "theme": "dark",'));
  await runInside(project, ["init", "--remove"]);
  expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ theme: "dark" });
  expect(existsSync(join(project, ".cursor"))).toBe(false);
});
