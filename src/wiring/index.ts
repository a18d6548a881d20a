/** Wiring coding agents: their configuration gets our hooks and our MCP server, and everything else in it stays as it is. */

export { AGENT_TABLE, AGENTS, type AgentName, agentsNamed } from "./agents.ts";
export { findLaunch } from "./launch.ts";
export { unifiedDiff } from "./line-diff.ts";
export { placeAll, Records, readWhole } from "./placing.ts";
export { type PlannedFile, planWiring } from "./plan.ts";
export { type Finding, proveWiring } from "./proof.ts";
export { REHEARSAL } from "./sample-input.ts";
export { ON_A_STORE, typedName, withTypedCommands } from "./typed-commands.ts";
