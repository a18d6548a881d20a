/** Adds our hooks and our MCP server to the configuration of coding agents. */

export { AGENT_TABLE, AGENTS, type AgentName, agentsNamed, agentsThere } from "./agents.ts";
export { findLaunch, ON_A_STORE, typedName, withTypedCommands } from "./launch.ts";
export {
  leadsOut,
  loadPlanner,
  loadProver,
  placeAll,
  Records,
  readWhole,
  refuseLinksOut,
} from "./placing.ts";
export type { PlannedFile } from "./plan.ts";
export type { Finding } from "./proof.ts";
