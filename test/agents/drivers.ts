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

export interface Command {
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
  /** By a tool of its own for patches. */
  patch?(path: string, content: string): Step;
  /** Settings that a person would confirm in a dialog: folders that are trusted. */
  trust(home: string, folders: readonly string[]): void;
  command(setting: Setting, session: string, how: How): Command;
  /**
   * An agent that sends its first request without the tools of a server that takes longer to start. A busy machine
   * may need longer.
   */
  readonly serverWaitMs?: number;
  /** Its wiring names a file of the package: a new worktree needs an installation of its own. */
  readonly isInstalledPerWorktree?: true;
  /** Two first starts at once break a database of its own. */
  readonly isFirstStartAlone?: true;
  /** The name of a tool of the plugin's server, if it differs. */
  pluginMcp?(tool: string): string;
  /** Checks the plugin by the agent's own commands, and installs it for the user. */
  plugin?(setting: Setting, holdfast: string): readonly Command[];
}

export interface How {
  readonly isResumed: boolean;
  /**
   * For Codex: a model that it knows gets the tool apply_patch, and one that searches for the tools of servers. A
   * model that it does not know gets all tools at once, and patches by a shell command.
   */
  readonly isKnownModel: boolean;
  /** Commands of the agent may write in the project alone. */
  readonly isSandboxed: boolean;
  /** For Codex: it waits for our server however long that takes. As wired, it does without a server that fails. */
  readonly isServerRequired: boolean;
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
  command(setting, session, { isResumed }) {
    const which = isResumed ? "--resume" : "--session-id";
    return claudeRun(setting, ["-p", "go on", "--dangerously-skip-permissions", which, session]);
  },
  pluginMcp: (tool) => `mcp__plugin_holdfast_holdfast__${tool}`,
  plugin: (setting, holdfast) => [
    claudeRun(setting, ["plugin", "validate", holdfast]),
    claudeRun(setting, ["plugin", "validate", join(holdfast, "plugins/claude-code")]),
    claudeRun(setting, ["plugin", "marketplace", "add", holdfast]),
    claudeRun(setting, ["plugin", "install", "holdfast@holdfast"]),
  ],
};

const claudeRun = ({ packages, home, model }: Setting, args: readonly string[]): Command => ({
  program: join(packages, `@anthropic-ai/claude-code-${PLATFORM}/claude`),
  args,
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
});

const addFile = (path: string, content: string): string =>
  `*** Begin Patch\n*** Add File: ${path}\n+${content}\n*** End Patch`;

const codex: Driver = {
  title: "Codex",
  package: "@openai/codex",
  version: "0.169.0",
  wire: "openai",
  mcp: (tool) => `mcp__holdfast__${tool}`,
  shell: (command) => ({ tool: "exec_command", input: { cmd: command } }),
  write: (path, content) => ({
    tool: "exec_command",
    input: { cmd: `apply_patch <<'END'\n${addFile(path, content)}\nEND` },
  }),
  patch: (path, content) => ({ tool: "apply_patch", input: addFile(path, content) }),
  trust(home, folders) {
    const projects = folders.map((folder) => `[projects."${folder}"]\ntrust_level = "trusted"\n`);
    writeFile(join(home, ".codex/config.toml"), projects.join("\n"));
  },
  serverWaitMs: 1_000,
  command(setting, _session, { isResumed, isKnownModel, isSandboxed, isServerRequired }) {
    const { model } = setting;
    const provider = `{name="loopback",base_url="${model}/v1",wire_api="responses",env_key="LOOPBACK_KEY"}`;
    // Projects of the test lie in /tmp, which commands may write unless that is excluded.
    const noTmp = ["slash_tmp", "tmpdir_env_var"].flatMap((each) => [
      "-c",
      `sandbox_workspace_write.exclude_${each}=true`,
    ]);
    const sandbox = isSandboxed
      ? ["--sandbox", "workspace-write", ...noTmp]
      : ["--dangerously-bypass-approvals-and-sandbox"];
    const options = [
      ...sandbox,
      "--dangerously-bypass-hook-trust",
      ...["-c", `model_providers.loopback=${provider}`, "-c", "model_provider=loopback"],
      ...["-m", isKnownModel ? "gpt-5.5" : "unknown"],
      ...(isServerRequired ? ["-c", "mcp_servers.holdfast.required=true"] : []),
    ];
    const what = isResumed ? ["exec", "resume", "--last"] : ["exec"];
    return codexRun(setting, [...what, ...options, "go on"]);
  },
  plugin: (setting, holdfast) => [
    codexRun(setting, ["plugin", "marketplace", "add", holdfast]),
    codexRun(setting, ["plugin", "add", "holdfast@holdfast"]),
  ],
};

const codexRun = ({ packages, home }: Setting, args: readonly string[]): Command => ({
  program: join(packages, `@openai/codex-${PLATFORM}/vendor`, CODEX_TARGET, "bin/codex"),
  args,
  env: { LOOPBACK_KEY: "none", CODEX_HOME: join(home, ".codex") },
});

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
  command(setting, session, { isResumed }) {
    const which = isResumed ? ["--resume", "latest"] : ["--session-id", session];
    return geminiRun(setting, ["-p", "go on", "--yolo", "-m", "gemini-2.5-flash", ...which]);
  },
  plugin: (setting, holdfast) => [
    geminiRun(setting, ["extensions", "validate", join(holdfast, "plugins/gemini")]),
    geminiRun(setting, ["extensions", "link", "--consent", join(holdfast, "plugins/gemini")]),
  ],
};

const geminiRun = ({ packages, model }: Setting, args: readonly string[]): Command => ({
  program: process.execPath,
  args: [join(packages, "@google/gemini-cli/bundle/gemini.js"), ...args],
  // Without a second process, which would survive the kill of the first.
  env: { GEMINI_API_KEY: "none", GOOGLE_GEMINI_BASE_URL: model, GEMINI_CLI_NO_RELAUNCH: "true" },
});

const copilot: Driver = {
  title: "Copilot CLI",
  package: "@github/copilot",
  version: "1.0.102",
  wire: "anthropic",
  mcp: (tool) => `holdfast-${tool}`,
  shell: (command) => ({ tool: "bash", input: { command, description: "Runs a command" } }),
  write: (path, content) => ({ tool: "create", input: { path, file_text: content } }),
  trust: () => undefined,
  command({ packages, home, model }, session, { isResumed }) {
    const which = isResumed ? [`--resume=${session}`] : [`--session-id=${session}`];
    return {
      program: join(packages, `@github/copilot-${PLATFORM}/copilot`),
      args: ["-p", "go on", "--allow-all-tools", "--allow-all-paths", ...which],
      env: {
        COPILOT_HOME: join(home, ".copilot"),
        COPILOT_PROVIDER_BASE_URL: model,
        COPILOT_PROVIDER_TYPE: "anthropic",
        COPILOT_PROVIDER_API_KEY: "none",
        COPILOT_MODEL: "claude-sonnet-4",
        COPILOT_OFFLINE: "true",
        // Also trusts the folder.
        COPILOT_ALLOW_ALL: "true",
        COPILOT_AUTO_UPDATE: "false",
      },
    };
  },
};

const opencode: Driver = {
  title: "opencode",
  isInstalledPerWorktree: true,
  isFirstStartAlone: true,
  package: "opencode-ai",
  version: "1.18.33",
  wire: "anthropic",
  mcp: (tool) => `holdfast_${tool}`,
  shell: (command) => ({ tool: "bash", input: { command, description: "Runs a command" } }),
  write: (path, content) => ({ tool: "write", input: { filePath: path, content } }),
  trust: () => undefined,
  command({ packages, home, model }, _session, { isResumed }) {
    const which = isResumed ? ["--continue"] : [];
    const anthropic = { options: { baseURL: `${model}/v1`, apiKey: "none" } };
    return {
      program: join(packages, `opencode-${PLATFORM}/bin/opencode`),
      args: ["run", "--auto", "-m", "anthropic/claude-sonnet-4-5", ...which, "go on"],
      env: {
        OPENCODE_CONFIG_CONTENT: JSON.stringify({
          provider: { anthropic },
          autoupdate: false,
          share: "disabled",
        }),
        OPENCODE_DISABLE_MODELS_FETCH: "true",
        XDG_CONFIG_HOME: join(home, ".config"),
        XDG_DATA_HOME: join(home, ".local/share"),
      },
    };
  },
};

export const DRIVERS: Readonly<Record<string, Driver>> = { claude, codex, gemini, copilot, opencode };
