/** How each coding agent is installed, started, resumed and named; its own tools as steps of a script. */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Step, WireName } from "./scripted-model.ts";

export interface Setting {
  /** The folder with `node_modules` of the agents. */
  readonly packages: string;
  /** A home folder of the test: no setting of the user applies. */
  readonly home: string;
  readonly model: string;
}

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Driver {
  readonly title: string;
  readonly package: string;
  readonly version: string;
  readonly wire: WireName;
  /** The name of a tool of our server, as the model calls it. */
  mcp(tool: string): string;
  shell(command: string): Step;
  write(path: string, content: string): Step;
  /** Settings that a person would confirm in a dialog: folders that are trusted. */
  trust(home: string, folders: readonly string[]): void;
  command(setting: Setting, session: string, isResumed: boolean): Command;
}

const PLATFORM = `${process.platform}-${process.arch}`;

function writeFile(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

const claude: Driver = {
  title: "Claude Code",
  package: "@anthropic-ai/claude-code",
  version: "2.1.327",
  wire: "anthropic",
  mcp: (tool) => `mcp__holdfast__${tool}`,
  shell: (command) => ({ tool: "Bash", input: { command } }),
  write: (path, content) => ({ tool: "Write", input: { file_path: path, content } }),
  trust: () => undefined,
  command({ packages, home, model }, session, isResumed) {
    const which = isResumed ? "--resume" : "--session-id";
    return {
      program: join(packages, `@anthropic-ai/claude-code-${PLATFORM}/claude`),
      args: ["-p", "go on", "--dangerously-skip-permissions", which, session],
      env: {
        ANTHROPIC_BASE_URL: model,
        ANTHROPIC_API_KEY: "none",
        CLAUDE_CONFIG_DIR: join(home, ".claude"),
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        DISABLE_AUTOUPDATER: "1",
        // Else the tools of servers are only named, and the model loads them by a search.
        ENABLE_TOOL_SEARCH: "false",
        IS_SANDBOX: "1",
      },
    };
  },
};

const codex: Driver = {
  title: "Codex",
  package: "@openai/codex",
  version: "0.169.0",
  wire: "openai",
  mcp: (tool) => `mcp__holdfast__${tool}`,
  shell: (command) => ({ tool: "exec_command", input: { cmd: command } }),
  write: (path, content) => ({
    tool: "exec_command",
    input: {
      cmd: `apply_patch <<'END'\n*** Begin Patch\n*** Add File: ${path}\n+${content}\n*** End Patch\nEND`,
    },
  }),
  trust(home, folders) {
    const projects = folders.map((folder) => `[projects."${folder}"]\ntrust_level = "trusted"\n`);
    writeFile(join(home, ".codex/config.toml"), projects.join("\n"));
  },
  command({ packages, home, model }, _session, isResumed) {
    const provider = `{name="loopback",base_url="${model}/v1",wire_api="responses",env_key="LOOPBACK_KEY"}`;
    const options = [
      "--dangerously-bypass-approvals-and-sandbox",
      "--dangerously-bypass-hook-trust",
      ...["-c", `model_providers.loopback=${provider}`, "-c", "model_provider=loopback", "-m", "gpt-5.4"],
    ];
    const what = isResumed ? ["exec", "resume", "--last"] : ["exec"];
    return {
      program: join(packages, `@openai/codex-${PLATFORM}/vendor`, CODEX_TARGET, "bin/codex"),
      args: [...what, ...options, "go on"],
      env: { LOOPBACK_KEY: "none", CODEX_HOME: join(home, ".codex") },
    };
  },
};

const MACHINE = process.arch === "arm64" ? "aarch64" : "x86_64";
const CODEX_TARGET =
  process.platform === "darwin" ? `${MACHINE}-apple-darwin` : `${MACHINE}-unknown-linux-musl`;

const gemini: Driver = {
  title: "Gemini CLI",
  package: "@google/gemini-cli",
  version: "0.61.0",
  wire: "gemini",
  mcp: (tool) => `mcp_holdfast_${tool}`,
  shell: (command) => ({ tool: "run_shell_command", input: { command } }),
  write: (path, content) => ({ tool: "write_file", input: { file_path: path, content } }),
  trust(home, folders) {
    const trusted = Object.fromEntries(folders.map((folder) => [folder, "TRUST_FOLDER"]));
    writeFile(join(home, ".gemini/trustedFolders.json"), JSON.stringify(trusted));
    const security = { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: true } };
    const settings = { security, privacy: { usageStatisticsEnabled: false } };
    writeFile(join(home, ".gemini/settings.json"), JSON.stringify(settings));
  },
  command({ packages, model }, session, isResumed) {
    const which = isResumed ? ["--resume", "latest"] : ["--session-id", session];
    return {
      program: process.execPath,
      args: [
        join(packages, "@google/gemini-cli/bundle/gemini.js"),
        ...["-p", "go on", "--yolo", "-m", "gemini-2.5-flash", ...which],
      ],
      // Without a second process, which would survive the kill of the first.
      env: { GEMINI_API_KEY: "none", GOOGLE_GEMINI_BASE_URL: model, GEMINI_CLI_NO_RELAUNCH: "true" },
    };
  },
};

export const DRIVERS: Readonly<Record<string, Driver>> = { claude, codex, gemini };
