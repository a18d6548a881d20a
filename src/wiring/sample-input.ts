/** Sample events of the agents, to test the wiring. */

import { REHEARSAL } from "../model/names.ts";
import type { AgentName } from "./agents.ts";

export function sampleInput(agent: AgentName, event: string, root: string): object {
  const place = { cwd: root, transcript_path: null };
  const ids = {
    cursor: { conversation_id: REHEARSAL, workspace_roots: [root] },
    copilot: { sessionId: REHEARSAL },
  };
  const id = agent === "cursor" || agent === "copilot" ? ids[agent] : { session_id: REHEARSAL };
  return { ...place, ...id, ...ABOUT[event], hook_event_name: event };
}

const ABOUT: Readonly<Record<string, object>> = {
  "session-start": { source: "startup" },
  "subagent-start": { agent_id: "a1", agent_type: "general-purpose" },
  "tool-start": { tool_name: "Bash", tool_input: { command: "true" } },
  touched: { tool_name: "Bash", tool_input: { command: "true" } },
  checkpoint: { trigger: "auto" },
  stop: { stop_hook_active: false },
  "stop-failure": { error: "overloaded" },
  "session-end": { reason: "other" },
};

const MOST_CHARACTERS = 10_000;

export function outputProblem(agent: AgentName, event: string, output: string): string | null {
  const isSilent = output.trim() === "";
  if (isSilent && event === "session-start") return "it gave no context";
  if (isSilent)
    return agent === "gemini" || agent === "cursor" ? "it printed nothing, but JSON is expected" : null;
  let answer: Record<string, unknown>;
  try {
    answer = JSON.parse(output) as Record<string, unknown>;
  } catch (error) {
    return `it printed something that is not JSON (${(error as Error).message})`;
  }
  if (typeof answer !== "object" || answer === null || Array.isArray(answer))
    return "it printed no JSON object";
  if (event !== "session-start") return null;
  const { hookEventName, additionalContext } = (answer["hookSpecificOutput"] ?? {}) as Record<
    string,
    unknown
  >;
  const isPlain = agent === "cursor" || agent === "copilot";
  const context = isPlain ? (answer["additional_context"] ?? answer["additionalContext"]) : additionalContext;
  if (typeof context !== "string" || context === "") return "it gave no context";
  if (context.length > MOST_CHARACTERS)
    return `its context has ${context.length} characters, limit ${MOST_CHARACTERS}`;
  if (!isPlain && hookEventName !== "SessionStart") return "it did not say for which event it answers";
  return null;
}
