/** Hooks that coding agents run. This file names only what starts fast. */

export { agentAbove } from "./process-above.ts";
export { runHook } from "./run-hook.ts";
