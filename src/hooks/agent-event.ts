/** What an agent tells a hook, brought from each agent's own words into ours. Nothing in it is trusted to be there. */

export const HOOK_AGENTS = ["claude", "codex", "cursor", "gemini"] as const;
export type HookAgent = (typeof HOOK_AGENTS)[number];

export const HOOK_EVENTS = [
  "session-start",
  "touched",
  "checkpoint",
  "stop",
  "stop-failure",
  "session-end",
] as const;
/** What no agent says: `hook take-in` is how a hook starts the process that takes in what hooks left. */
export const TAKE_IN = "take-in";

export type HookEvent = (typeof HOOK_EVENTS)[number];

export interface AgentEvent {
  readonly agent: HookAgent;
  readonly event: HookEvent;
  /** The agent's name for the conversation. */
  readonly conversation: string;
  /** The folder that the agent works in, where it says so. */
  readonly cwd: string | null;
  /** Why a session starts: startup, resume, clear, compact. */
  readonly source: string;
  /** Paths of files that a tool changed, as the agent wrote them. */
  readonly files: readonly string[];
  /** Why it ended, or what went wrong. */
  readonly reason: string | null;
  /** Share of the context window, 0 to 1. */
  readonly contextUsage: number | null;
}

type Input = Readonly<Record<string, unknown>>;

export function readAgentEvent(
  agent: HookAgent,
  event: HookEvent,
  text: string,
  env: NodeJS.ProcessEnv = process.env,
): AgentEvent {
  const input = parsed(text);
  // Cursor also runs the hooks of Claude Code; the conversation is Cursor's nevertheless.
  const isCursor = "cursor_version" in input || env["CURSOR_VERSION"] !== undefined;
  const roots = input["workspace_roots"];
  const usage = input["context_usage_percent"];
  return {
    agent: isCursor ? "cursor" : agent,
    event,
    conversation: textOf(input["conversation_id"]) ?? textOf(input["session_id"]) ?? "unnamed",
    cwd: textOf(input["cwd"]) ?? (Array.isArray(roots) ? textOf(roots[0]) : null),
    source: textOf(input["source"]) ?? textOf(input["trigger"]) ?? "startup",
    files: event === "touched" ? filesOf(input) : [],
    reason: textOf(input["reason"]) ?? textOf(input["error"]) ?? textOf(input["trigger"]),
    contextUsage: typeof usage === "number" && usage >= 0 && usage <= 100 ? usage / 100 : null,
  };
}

function parsed(text: string): Input {
  if (text.trim() === "") return {};
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Input) : {};
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** Tools that only look name files too; those are not touched. */
const LOOKS = /^(Read|Grep|Glob|LS|NotebookRead|read_file|list_directory|glob)$/i;

function filesOf(input: Input): string[] {
  if (LOOKS.test(textOf(input["tool_name"]) ?? "")) return [];
  const given = input["tool_input"];
  const about = typeof given === "object" && given !== null ? (given as Input) : {};
  const named = [about["file_path"], about["notebook_path"], about["absolute_path"], input["file_path"]];
  const patches = [
    about["command"],
    about["input"],
    about["patch"],
    typeof given === "string" ? given : null,
  ];
  const patched = patches.flatMap((each) => (typeof each === "string" ? patchedFiles(each) : []));
  return [...new Set([...named.flatMap((each) => textOf(each) ?? []), ...patched])];
}

/** The files that a patch in Codex's own form names. */
function patchedFiles(patch: string): string[] {
  if (!patch.includes("*** Begin Patch")) return [];
  const lines = patch.matchAll(/^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\r?$/gm);
  return [...lines].map(([, path = ""]) => path);
}
