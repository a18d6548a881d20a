/**
 * The protocol between an agent and a hook: the JSON on stdin, read into one shape, and the text on stdout.
 * Every field of the input may be missing or of the wrong type.
 */

export const HOOK_AGENTS = ["claude", "codex", "cursor", "gemini", "copilot", "opencode"] as const;
export type HookAgent = (typeof HOOK_AGENTS)[number];

export const HOOK_EVENTS = [
  "session-start",
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
  readonly reason: string | null;
  readonly contextUsage: number | null;
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
    files: event === "touched" ? filesOf(input) : [],
    created: event === "touched" ? createdFiles(input) : [],
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

/** Claude Code answers `type: "create"`, Gemini CLI says it in words, a patch has a line for it. */
function createdFiles(input: Input): string[] {
  const { type, llmContent } = (input["tool_response"] ?? {}) as Input;
  const said = typeof llmContent === "string" && /^Successfully created/.test(llmContent);
  if (type === "create" || said) return filesOf(input);
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

/** `context` goes to the model. Any other output could stop the agent, so there is none. */
export function hookAnswer(agent: HookAgent, event: HookEvent, context: string | null): string {
  if (event === "session-start" && context !== null) {
    if (agent === "cursor") return line({ additional_context: context });
    if (agent === "copilot") return line({ additionalContext: context });
    return line({ hookSpecificOutput: { hookEventName: "SessionStart", additionalContext: context } });
  }
  // Claude Code and Codex accept empty output; Cursor and Gemini CLI always want JSON.
  return agent === "cursor" || agent === "gemini" ? "{}\n" : "";
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
