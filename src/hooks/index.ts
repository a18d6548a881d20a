/** Hooks that coding agents run. This file names only what starts fast. */

export { runHook } from "./run-hook.ts";
export { watchedPart } from "./watched-calls.ts";
