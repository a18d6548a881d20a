/**
 * The protocol between an agent and a hook: the JSON on stdin, read into one shape, and the text on stdout.
 * Every field of the input may be missing or of the wrong type.
 */

import type { CallOutcome } from "../agent-sessions/index.ts";

export const HOOK_AGENTS = ["claude", "codex", "cursor", "gemini", "copilot", "opencode"] as const;
export type HookAgent = (typeof HOOK_AGENTS)[number];

export const HOOK_EVENTS = [
  "session-start",
  "subagent-start",
  "tool-start",
  "touched",
  "checkpoint",
  "stop",
  "stop-failure",
  "session-end",
] as const;
export type HookEvent = (typeof HOOK_EVENTS)[number];

/** `holdfast hook ingest` is started by a hook, not by an agent. */
export const INGEST = "ingest";

export interface AgentEvent {
  readonly agent: HookAgent;
  readonly event: HookEvent;
  readonly conversation: string;
  readonly cwd: string | null;
  /** Reason of a session start: startup, resume, clear, compact. */
  readonly source: string;
  readonly files: readonly string[];
  /** Those of `files` that the tool made. */
  readonly created: readonly string[];
  /** A shell command or a call of an MCP server, before it starts or after it ended. */
  readonly call: ToolCall | null;
  readonly reason: string | null;
  readonly contextUsage: number | null;
}

export interface ToolCall {
  readonly tool: string;
  readonly command: string;
  /** Null for an agent without ids of calls. */
  readonly id: string | null;
  /** Null while it runs, and for a command that goes on in the background. */
  readonly outcome: CallOutcome | null;
}

type Input = Readonly<Record<string, unknown>>;

export function readAgentEvent(
  agent: HookAgent,
  event: HookEvent,
  text: string,
  env: NodeJS.ProcessEnv = process.env,
): AgentEvent {
  const input = parseInput(text);
  // Cursor also runs the hooks that are configured for Claude Code. The conversation is still Cursor's.
  const isCursor = "cursor_version" in input || env["CURSOR_VERSION"] !== undefined;
  const roots = input["workspace_roots"];
  const usage = input["context_usage_percent"];
  return {
    agent: isCursor ? "cursor" : agent,
    event,
    conversation:
      textOf(input["conversation_id"]) ??
      textOf(input["session_id"]) ??
      // Copilot CLI writes its fields in camel case.
      textOf(input["sessionId"]) ??
      "unnamed",
    cwd: textOf(input["cwd"]) ?? (Array.isArray(roots) ? textOf(roots[0]) : null),
    source: sourceOf(input),
    files: event === "touched" || event === "tool-start" ? filesOf(input) : [],
    created: event === "touched" ? createdFiles(input) : [],
    call: event === "touched" || event === "tool-start" ? callOf(input, event) : null,
    reason: textOf(input["reason"]) ?? textOf(input["error"]) ?? textOf(input["trigger"]),
    contextUsage: typeof usage === "number" && usage >= 0 && usage <= 100 ? usage / 100 : null,
  };
}

/** Copilot CLI calls a startup `new`. */
function sourceOf(input: Input): string {
  const source = textOf(input["source"]) ?? textOf(input["trigger"]) ?? "startup";
  return source === "new" ? "startup" : source;
}

function parseInput(text: string): Input {
  if (text.trim() === "") return {};
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Input) : {};
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** Tools that only read also name a file, but do not touch it. */
const READ_TOOLS = /^(Read|Grep|Glob|LS|NotebookRead|read_file|list_directory|glob|view)$/i;

function filesOf(input: Input): string[] {
  if (READ_TOOLS.test(textOf(input["tool_name"]) ?? textOf(input["toolName"]) ?? "")) return [];
  const toolInput = input["tool_input"] ?? input["toolArgs"];
  const fields = typeof toolInput === "object" && toolInput !== null ? (toolInput as Input) : {};
  const named = [
    fields["file_path"],
    fields["notebook_path"],
    fields["absolute_path"],
    "toolArgs" in input ? fields["path"] : null,
    input["file_path"],
  ];
  const patches = [
    fields["command"],
    fields["input"],
    fields["patch"],
    typeof toolInput === "string" ? toolInput : null,
  ];
  const patched = patches.flatMap((each) => (typeof each === "string" ? patchedFiles(each) : []));
  return [...new Set([...named.flatMap((each) => textOf(each) ?? []), ...patched])];
}

const SHELLS = /^(Bash|shell|exec_command|local_shell|run_shell_command|unified_exec)$/i;

function callOf(input: Input, event: HookEvent): ToolCall | null {
  const tool = textOf(input["tool_name"]) ?? textOf(input["toolName"]) ?? "";
  const fields = (input["tool_input"] ?? input["toolArgs"] ?? {}) as Input;
  const id = textOf(input["tool_use_id"]);
  const outcome = event === "tool-start" ? null : outcomeOf(input);
  if (tool.startsWith("mcp_")) return { tool, command: JSON.stringify(fields), id, outcome };
  // Cursor's hook after a shell command names no tool.
  const said = SHELLS.test(tool) ? (fields["command"] ?? fields["cmd"]) : input["command"];
  const command = Array.isArray(said) ? said.join(" ") : textOf(said);
  return command === null ? null : { tool, command, id, outcome };
}

/**
 * Claude Code has an event of its own for a failure, and Gemini CLI tells the exit code in words. Codex gives
 * the output of a shell command alone.
 */
function outcomeOf(input: Input): ToolCall["outcome"] {
  if (input["hook_event_name"] === "PostToolUseFailure") return "failed";
  const response = input["tool_response"] ?? resultOf(input);
  const fields = (typeof response === "object" && response !== null ? response : {}) as Input;
  if (fields["backgroundTaskId"] !== undefined && fields["backgroundTaskId"] !== null) return null;
  if (fields["interrupted"] === true) return null;
  const words = textOf(response) ?? textOf(fields["llmContent"]) ?? textOf(fields["output"]) ?? "";
  const [, said] = /exit(?:ed with)? code:? (-?\d{1,5})/i.exec(words.slice(0, 2_000)) ?? [];
  if (typeof response === "string" && said === undefined) return "ended";
  const code = fields["exit_code"] ?? said ?? 0;
  return Number(code) !== 0 || fields["error"] || fields["isError"] === true ? "failed" : "done";
}

/** Copilot CLI: `{ resultType, textResultForLlm }`. */
function resultOf(input: Input): string | undefined {
  const { textResultForLlm: said } = (input["toolResult"] ?? {}) as Input;
  return textOf(said) ?? undefined;
}

/** Claude Code answers `type: "create"`, Gemini and Copilot CLI say it in words, a patch has a line. */
function createdFiles(input: Input): string[] {
  const { type, llmContent } = (input["tool_response"] ?? {}) as Input;
  const said = textOf(llmContent) ?? resultOf(input) ?? "";
  if (type === "create" || /^(Successfully created|Created file)/.test(said)) return filesOf(input);
  const patch = JSON.stringify(input["tool_input"] ?? "");
  return [...patch.matchAll(/\*\*\* Add File: (.+?)(?:\\r)?\\n/g)].map(([, path = ""]) => path);
}

/** The files in a patch of Codex's format, such as `*** Update File: src/a.ts`. */
function patchedFiles(patch: string): string[] {
  if (!patch.includes("*** Begin Patch")) return [];
  const lines = patch.matchAll(/^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\r?$/gm);
  return [...lines].map(([, path = ""]) => path);
}

/** Claude Code moves a longer text into a file and shows a preview. The other agents accept more. */
export const MAX_CONTEXT_CHARS = 9_500;

const CONTEXT_OF: Readonly<Partial<Record<HookEvent, string>>> = {
  "session-start": "SessionStart",
  "subagent-start": "SubagentStart",
  "tool-start": "PreToolUse",
};

/** `context` goes to the model. Any other output could stop the agent, so there is none. */
export function hookAnswer(agent: HookAgent, event: HookEvent, context: string | null): string {
  const name = CONTEXT_OF[event];
  if (name !== undefined && context !== null) {
    if (agent === "cursor") return line({ additional_context: context });
    if (agent === "copilot") return line({ additionalContext: context });
    return line({ hookSpecificOutput: { hookEventName: name, additionalContext: context } });
  }
  // Claude Code and Codex accept empty output; Cursor and Gemini CLI always want JSON.
  return agent === "cursor" || agent === "gemini" ? "{}\n" : "";
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
