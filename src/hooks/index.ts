/**
 * Hooks: what coding agents run when they start, use a tool and stop. This file names only what starts fast.
 */

export { runHook } from "./run-hook.ts";
