/** Hooks that coding agents run. This file names only what starts fast. */

export { HOOK_AGENTS, HOOK_EVENTS, readAgentEvent } from "./agent-event.ts";
export { runHook } from "./run-hook.ts";
export { watchedPart } from "./watched-calls.ts";
