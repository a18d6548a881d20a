/** `mcp` and `mcp proxy`. An agent waits for the first answers, so nothing else is loaded before them. */

import { runProxy, runProxyOverHttp, serveMcp, serveMcpOverHttp } from "../mcp/index.ts";
import type { Options } from "./command.ts";

/** Without `human`: an agent must not claim to be a person. */
const AGENT_ROLES = ["worker", "architect", "orchestrator", "verifier"] as const;

export async function serveAgents(options: Options): Promise<void> {
  const typed = setting(options, "role", "HOLDFAST_ROLE") ?? "worker";
  const role = AGENT_ROLES.find((each) => each === typed);
  if (role === undefined) {
    const { Misuse } = await import("./failure.ts");
    throw new Misuse(`--role: ${typed} is not a role for agents`, `Use one of: ${AGENT_ROLES.join(", ")}`);
  }
  const served = {
    store: setting(options, "store", "HOLDFAST_STORE"),
    namespace: setting(options, "namespace", "HOLDFAST_NAMESPACE"),
    goal: setting(options, "goal", "HOLDFAST_GOAL"),
    by: setting(options, "by", "HOLDFAST_BY"),
    role,
  };
  const http = options["http"];
  if (http === undefined) await serveMcp(served);
  else await serveMcpOverHttp(served, http === true ? true : String(http));
}

export async function proxyServer(command: readonly string[], options: Options): Promise<void> {
  const url = setting(options, "url");
  if ((url === undefined) === (command.length === 0)) {
    const problem = url === undefined ? "no server is named" : "a command and --url exclude each other";
    const { Misuse } = await import("./failure.ts");
    throw new Misuse(`mcp proxy: ${problem}`, "Give the command after --, or its address with --url");
  }
  const proxied = {
    command,
    url,
    token: process.env["HOLDFAST_PROXY_TOKEN"] || undefined,
    config: setting(options, "config"),
    session: setting(options, "session"),
    store: setting(options, "store", "HOLDFAST_STORE"),
    namespace: setting(options, "namespace", "HOLDFAST_NAMESPACE"),
    by: setting(options, "by", "HOLDFAST_BY") ?? "mcp-proxy",
  };
  const http = options["http"];
  if (http === undefined) await runProxy(proxied);
  else await runProxyOverHttp(proxied, http === true ? true : String(http));
}

function setting(options: Options, name: string, variable?: string): string | undefined {
  const value = options[name] ?? (variable === undefined ? undefined : process.env[variable]);
  return typeof value === "string" && value !== "" ? value : undefined;
}
