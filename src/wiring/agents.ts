/** The agents that can be wired; `docs/start/coding-agents.md` compares their shapes, units and limits. */

import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import type { Ours, Wanted } from "./json-file.ts";

export const AGENTS = ["claude", "codex", "cursor", "gemini", "copilot", "opencode"] as const;
export type AgentName = (typeof AGENTS)[number];

export interface Launch {
  /** For hooks, which a shell runs: `holdfast`. Arguments follow it. */
  shell(agent: AgentName): string;
  readonly mcp: { readonly command: string; readonly args: readonly string[] };
  /** For people who type it in the project's folder. Default: `holdfast`. */
  readonly typed?: string;
  /** The folder of the package. Default: that of the project's installation, `./node_modules/holdfast`. */
  readonly package?: string;
}

export interface WiredFile {
  readonly path: string;
  readonly format: "json" | "toml";
  /** `there`: the value of the file without us. A setting of the user in our place stays. */
  wanted(launch: Launch, there?: unknown): { readonly [key: string]: Wanted };
}

export interface AgentRow {
  readonly title: string;
  readonly files: readonly WiredFile[];
  /** The setting that switches its hooks off, and the files that may have it; the first one decides. */
  readonly hooksOff?: { readonly key: string; readonly paths: readonly string[] };
  readonly afterwards: string;
  /** Its folder, in a project and in a user's home, its own files in a project, and its programs. */
  readonly traces: {
    readonly folder: string;
    readonly files: readonly string[];
    readonly programs: readonly string[];
  };
}

const hook = (launch: Launch, agent: AgentName, event: string): string =>
  `${launch.shell(agent)} hook ${agent} ${event}`;

interface HookOptions {
  readonly matcher?: string;
  readonly timeout: number;
  readonly async?: true;
  readonly name?: string;
}

/** The form of Claude Code, Codex and Gemini CLI: `{ matcher, hooks: [{ type, command, … }] }`. */
function group(launch: Launch, agent: AgentName, event: string, options: HookOptions): Wanted[] {
  const { matcher, timeout, name } = options;
  const entry = {
    ...(name !== undefined && { name }),
    type: "command",
    command: hook(launch, agent, event),
    timeout,
    ...(options.async && { async: true }),
  };
  return [{ ...(matcher !== undefined && { matcher }), hooks: [entry] }] as unknown as Wanted[];
}

function groups(agent: AgentName, rows: Readonly<Record<string, readonly [string, HookOptions]>>) {
  return (launch: Launch): { readonly hooks: Wanted } => ({
    hooks: Object.fromEntries(
      Object.entries(rows).map(([name, [event, options]]) => [name, group(launch, agent, event, options)]),
    ),
  });
}

function mcpServers(
  { mcp }: Launch,
  there: unknown,
  type?: "stdio" | "local",
): { readonly [key: string]: Wanted } {
  const { mcpServers: servers } = (there ?? {}) as { mcpServers?: Record<string, unknown> };
  if (servers && typeof servers === "object" && "holdfast" in servers) return {};
  // Copilot CLI offers only the tools that are named.
  const tools = type === "local" ? { tools: ["*"] } : {};
  return {
    mcpServers: { holdfast: { ...(type && { type }), command: mcp.command, args: mcp.args, ...tools } },
  };
}

/** Makes Gemini CLI read AGENTS.md, unless the user has named one context file. */
function contextFiles(there: unknown): { readonly [key: string]: Wanted } {
  const { context } = (there ?? {}) as { context?: { fileName?: unknown } };
  if (typeof context?.fileName === "string") return {};
  const fileName = Array.isArray(context?.fileName) ? ["AGENTS.md"] : ["AGENTS.md", "GEMINI.md"];
  return { context: { fileName } };
}

const CLAUDE_TOOLS = "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__.*";
const CODEX_TOOLS = "apply_patch|Edit|Write|Bash|mcp__.*";

const claude: AgentRow = {
  title: "Claude Code",
  files: [
    {
      path: ".claude/settings.json",
      format: "json",
      wanted: groups("claude", {
        SessionStart: ["session-start", { matcher: "startup|resume|clear|compact|fork", timeout: 10 }],
        SubagentStart: ["subagent-start", { timeout: 10 }],
        PreToolUse: ["tool-start", { matcher: CLAUDE_TOOLS, timeout: 5 }],
        PostToolUse: ["touched", { matcher: CLAUDE_TOOLS, timeout: 5, async: true }],
        PostToolUseFailure: ["touched", { matcher: "Bash|mcp__.*", timeout: 5, async: true }],
        PreCompact: ["checkpoint", { matcher: "manual|auto", timeout: 10 }],
        Stop: ["stop", { timeout: 10 }],
        StopFailure: ["stop-failure", { timeout: 5 }],
        SessionEnd: ["session-end", { timeout: 5 }],
      }),
    },
    { path: ".mcp.json", format: "json", wanted: (launch, there) => mcpServers(launch, there, "stdio") },
  ],
  hooksOff: { key: "disableAllHooks", paths: [".claude/settings.local.json", ".claude/settings.json"] },
  traces: { folder: ".claude", files: ["CLAUDE.md", ".mcp.json"], programs: ["claude"] },
  afterwards: "Claude Code asks once whether the project's hooks and the MCP server may run.",
};

const codex: AgentRow = {
  title: "Codex",
  files: [
    {
      path: ".codex/hooks.json",
      format: "json",
      wanted: groups("codex", {
        SessionStart: ["session-start", { matcher: "startup|resume|clear|compact", timeout: 10 }],
        SubagentStart: ["subagent-start", { timeout: 10 }],
        PreToolUse: ["tool-start", { matcher: CODEX_TOOLS, timeout: 5 }],
        PostToolUse: ["touched", { matcher: CODEX_TOOLS, timeout: 5 }],
        PreCompact: ["checkpoint", { matcher: "manual|auto", timeout: 10 }],
        Stop: ["stop", { timeout: 10 }],
        SessionEnd: ["session-end", { timeout: 3 }],
      }),
    },
    {
      path: ".codex/config.toml",
      format: "toml",
      wanted: ({ mcp }) => ({ mcp_servers: { holdfast: { command: mcp.command, args: mcp.args } } }),
    },
  ],
  traces: { folder: ".codex", files: [], programs: ["codex"] },
  afterwards: "Codex skips the hooks until you trust the project and approve them with /hooks.",
};

const cursor: AgentRow = {
  title: "Cursor",
  files: [
    {
      path: ".cursor/hooks.json",
      format: "json",
      wanted: (launch) => {
        const on = (event: string, more = {}) => [{ command: hook(launch, "cursor", event), ...more }];
        return {
          version: 1,
          hooks: {
            sessionStart: on("session-start"),
            afterFileEdit: on("touched"),
            afterShellExecution: on("touched"),
            preCompact: on("checkpoint"),
            stop: on("stop", { loop_limit: 3 }),
            sessionEnd: on("session-end"),
          },
        };
      },
    },
    { path: ".cursor/mcp.json", format: "json", wanted: (launch, there) => mcpServers(launch, there) },
  ],
  traces: { folder: ".cursor", files: [".cursorrules"], programs: ["cursor", "cursor-agent"] },
  afterwards: "Cursor asks once whether the MCP server may run.",
};

const gemini: AgentRow = {
  title: "Gemini CLI",
  files: [
    {
      path: ".gemini/settings.json",
      format: "json",
      wanted: (launch, there) => {
        const on = (event: string, timeout: number, matcher = "*") =>
          group(launch, "gemini", event, { matcher, timeout, name: "holdfast" });
        return {
          hooks: {
            SessionStart: on("session-start", 10_000),
            BeforeTool: on("tool-start", 5_000, "write_file|replace|run_shell_command|mcp_.*"),
            AfterTool: on("touched", 5_000, "write_file|replace|run_shell_command|mcp_.*"),
            PreCompress: on("checkpoint", 10_000),
            AfterAgent: on("stop", 10_000),
            SessionEnd: on("session-end", 5_000),
          },
          ...mcpServers(launch, there),
          ...contextFiles(there),
        };
      },
    },
  ],
  traces: { folder: ".gemini", files: ["GEMINI.md"], programs: ["gemini"] },
  afterwards: "Gemini CLI asks again whenever the project's hooks change.",
};

const copilot: AgentRow = {
  title: "Copilot CLI",
  files: [
    {
      path: ".github/hooks/holdfast.json",
      format: "json",
      wanted: (launch) => {
        const on = (event: string, timeoutSec: number) => [
          { type: "command", command: hook(launch, "copilot", event), timeoutSec },
        ];
        return {
          version: 1,
          hooks: {
            sessionStart: on("session-start", 10),
            postToolUse: on("touched", 5),
            preCompact: on("checkpoint", 10),
            agentStop: on("stop", 10),
            sessionEnd: on("session-end", 5),
          },
        };
      },
    },
    {
      path: ".github/mcp.json",
      format: "json",
      wanted: (launch, there) => mcpServers(launch, there, "local"),
    },
  ],
  traces: { folder: ".copilot", files: [".github/copilot-instructions.md"], programs: ["copilot"] },
  afterwards: "Copilot CLI runs the hooks and the MCP server once you trust the folder.",
};

const OPENCODE_PLUGIN = "/plugins/opencode/holdfast.js";

/** opencode has no hooks of its own: its plugin, which the package brings, calls ours and adds the server. */
const opencode: AgentRow = {
  title: "opencode",
  files: [
    {
      path: "opencode.json",
      format: "json",
      wanted: (launch) => ({
        // opencode adds it to a file without it, and git would show a change of a tracked file.
        $schema: "https://opencode.ai/config.json",
        plugin: [(launch.package ?? "./node_modules/holdfast") + OPENCODE_PLUGIN],
      }),
    },
  ],
  traces: { folder: ".opencode", files: ["opencode.json"], programs: ["opencode"] },
  afterwards: "opencode loads the plugin at its next start.",
};

export const AGENT_TABLE: Readonly<Record<AgentName, AgentRow>> = {
  claude,
  codex,
  cursor,
  gemini,
  copilot,
  opencode,
};

/**
 * The agents that this project or this user has: a folder or a file of theirs, or their program on the PATH.
 * Settings of an agent that is not there would only be in the way.
 */
export function agentsThere(root: string): readonly AgentName[] {
  const home = process.env["HOME"] || homedir();
  const paths = (process.env["PATH"] ?? "").split(delimiter).filter((each) => each !== "");
  const isIn = (folders: readonly string[], names: readonly string[]): boolean =>
    folders.some((folder) => names.some((name) => existsSync(join(folder, name))));
  return AGENTS.filter((agent) => {
    const { folder, files, programs } = AGENT_TABLE[agent].traces;
    return isIn([root, home], [folder]) || isIn([root], files) || isIn(paths, programs);
  });
}

const COMMAND = /\shook (claude|codex|cursor|gemini|copilot|opencode) [a-z-]+$/;

export function ourCommand(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return null;
  const { command } = value as { command?: unknown };
  return typeof command === "string" && COMMAND.test(command) ? command : null;
}

/** A group is ours if all its commands are. From a group with other commands, only ours is removed. */
export const OURS: Ours = {
  element(value) {
    if (ourCommand(value) !== null || isOurPlugin(value)) return true;
    const { hooks } = (value ?? {}) as { hooks?: unknown };
    return Array.isArray(hooks) && hooks.length > 0 && hooks.every((each) => ourCommand(each) !== null);
  },
  member(path, value) {
    return path.length === 2 && path[0] === "mcpServers" && path[1] === "holdfast" && isOurServer(value);
  },
};

/** Containers that are removed when our last entry leaves them. */
export const DROPPED_WHEN_EMPTY = ["hooks", "mcpServers", "plugin"];

export function isOurPlugin(value: unknown): boolean {
  return typeof value === "string" && value.endsWith(OPENCODE_PLUGIN);
}

export function isOurServer(value: unknown): boolean {
  const { args } = (value ?? {}) as { args?: unknown };
  return Array.isArray(args) && /(^|" )mcp$/.test(String(args.at(-1)));
}

/** `claude,codex`, `all` or `none`. */
export function agentsNamed(said: string | undefined): readonly AgentName[] {
  if (said === undefined || said === "all") return AGENTS;
  if (said === "none") return [];
  const names = said.split(",").map((each) => each.trim().toLowerCase());
  const unknown = names.find((each) => !(AGENTS as readonly string[]).includes(each));
  if (unknown === undefined) return AGENTS.filter((each) => names.includes(each));
  throw new HoldfastError("INPUT_INVALID", `there is no agent ${JSON.stringify(unknown)} that can be wired`, {
    hint: `Name some of: ${AGENTS.join(", ")}; or all, or none.`,
    data: { agent: unknown },
  });
}
