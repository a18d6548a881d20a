/** What a hook prints, as each agent understands it. Anything else could stop the agent, so there is nothing else. */

import type { HookAgent, HookEvent } from "./agent-event.ts";

/** Claude Code puts longer texts into a file and shows a preview; the others are more patient. */
export const MOST_CHARACTERS = 9_500;

/** `context` is for the model; null when there is nothing to say. */
export function answer(agent: HookAgent, event: HookEvent, context: string | null): string {
  if (event === "session-start" && context !== null) {
    if (agent === "cursor") return line({ additional_context: context });
    return line({ hookSpecificOutput: { hookEventName: "SessionStart", additionalContext: context } });
  }
  // Claude Code and Codex take silence for consent; the other two want JSON in any case.
  return agent === "cursor" || agent === "gemini" ? "{}\n" : "";
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
