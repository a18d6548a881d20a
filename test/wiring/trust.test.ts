// `init --check` tells which agents would skip the wiring, because no person has trusted the project yet.

import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AgentName } from "../../src/wiring/index.ts";
import { loadProver } from "../../src/wiring/index.ts";
import { CommandLine } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";

let place: string;
let home: string;
let root: string;
beforeEach(() => {
  place = realpathSync(mkdtempSync(join(quickFolder(), "holdfast-trust-")));
  home = join(place, "home");
  root = join(place, "work/shop");
  for (const folder of [home, root]) mkdirSync(folder, { recursive: true });
});
afterEach(() => rmSync(place, { recursive: true, force: true }));

function put(path: string, content: string | object): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
}

async function missing(agent: AgentName, main = root): Promise<string | undefined> {
  const { untrustedAgents } = await loadProver();
  return untrustedAgents({ root, main }, [agent], { HOME: home })[0]?.detail;
}

test("Claude Code needs the folder, or one above it, and the server", async () => {
  expect(await missing("claude")).toBe(
    "Claude Code: not trusted yet. Start claude in this folder, and accept the folder and the MCP server.",
  );
  const known = { projects: { [dirname(root)]: { hasTrustDialogAccepted: true } } };
  put(join(home, ".claude.json"), known);
  expect(await missing("claude")).toContain("accept the MCP server holdfast");
  put(join(root, ".claude/settings.local.json"), { enabledMcpjsonServers: ["holdfast"] });
  expect(await missing("claude")).toBeUndefined();
});

test("Codex needs the project, and an approval of each of our hooks", async () => {
  const hooks = (command: string) => [{ hooks: [{ type: "command", command }] }];
  const ours = hooks("holdfast hook codex session-start");
  put(join(root, ".codex/hooks.json"), { hooks: { SessionStart: [...hooks("theirs"), ...ours] } });
  expect(await missing("codex")).toContain("trust it, then approve the hooks with /hooks");
  const config = join(home, ".codex/config.toml");
  const trusted = `[projects."${root}"]\ntrust_level = "trusted"\n`;
  put(config, trusted);
  expect(await missing("codex")).toContain("until you approve them");
  const state = (at: string) =>
    `[hooks.state."${root}/.codex/hooks.json:${at}"]\ntrusted_hash = "sha256:1"\n`;
  put(config, trusted + state("session_start:0:0"));
  expect(await missing("codex"), "the hook of another").toContain("until you approve them");
  put(config, trusted + state("session_start:1:0"));
  expect(await missing("codex")).toBeUndefined();
});

test("Gemini CLI follows the longest rule, unless trust is switched off", async () => {
  expect(await missing("gemini")).toContain("it loads no hook and no server");
  const rules = join(home, ".gemini/trustedFolders.json");
  put(rules, { [join(root, "below")]: "TRUST_PARENT" });
  expect(await missing("gemini")).toBeUndefined();
  put(rules, { [dirname(root)]: "TRUST_FOLDER", [root]: "DO_NOT_TRUST" });
  expect(await missing("gemini")).toContain("not trusted yet");
  put(join(home, ".gemini/settings.json"), { security: { folderTrust: { enabled: false } } });
  expect(await missing("gemini")).toBeUndefined();
});

test("Copilot CLI counts the main checkout for a worktree; a damaged file counts as no trust", async () => {
  const config = join(home, ".copilot/config.json");
  const main = join(place, "work/main");
  mkdirSync(main);
  put(config, { trusted_folders: [main] });
  expect(await missing("copilot", main)).toBeUndefined();
  expect(await missing("copilot")).toContain("not trusted yet");
  put(config, "{");
  expect(await missing("copilot", main)).toContain("not trusted yet");
});

test("the check says so, and does not call the wiring incomplete", async () => {
  const line = await CommandLine.build();
  const before = process.env["HOME"];
  process.env["HOME"] = home;
  try {
    const project = line.newProject();
    const command = ["--command", `${process.execPath} ${line.cli}`];
    await runInside(project, ["init", "--agent", "claude", ...command]);
    await runInside(project, ["goal", "new", "g", "G"]);
    const { code, out } = await runInside(project, ["init", "--check", ...command]);
    expect(code).toBe(0);
    expect(out).toContain("--  Claude Code: not trusted yet.");
    expect(out).toContain("the wiring is complete");
    expect(out).not.toContain("the agents reach Holdfast");
  } finally {
    process.env["HOME"] = before;
    line.remove();
  }
});
