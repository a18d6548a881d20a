/** `mcp` and `mcp proxy`: servers on stdin and stdout, until the client closes its end. The SDK is loaded only here. */

import type { Command as Parser } from "commander";
import type { Options } from "./command.ts";
import { Misuse } from "./failure.ts";

const STORE = ["--store <address>", "where the store is; also HOLDFAST_STORE"] as const;
const HEADING = "Sessions:";

/** Adds the verbs; returns the group, so that it behaves like the others. */
export function addMcp(program: Parser): Parser {
  const group = program
    .command("mcp")
    .description("a server for agents on stdin and stdout: goals, tasks, decisions, open calls")
    .helpGroup(HEADING)
    .option(...STORE)
    .option("--goal <goal>", "which goal; also HOLDFAST_GOAL")
    .option("--by <name>", "the agent's name; also HOLDFAST_BY, else after the client")
    .option("--role <role>", "in which role: worker unless set; also HOLDFAST_ROLE")
    .action(async () => serve(group.opts<Options>()));
  const proxy = group
    .command("proxy")
    .description("put the ledger around every tool of another MCP server")
    .argument("<command...>", "after --: how that server is started")
    .option("--config <file>", "what its tools do to the world; without it all of them count as mutating")
    .option(
      "--session <name>",
      "the session that keeps the calls; follows from configuration and project unless set",
    )
    .option(...STORE)
    .option("--by <name>", "who acts; also HOLDFAST_BY")
    .action(async () => putAround(proxy.processedArgs.flat() as string[], proxy.opts<Options>()));
  return group;
}

async function serve(options: Options): Promise<void> {
  const { serveMcp } = await import("../mcp/index.ts");
  const role = said(options, "role", "HOLDFAST_ROLE") ?? "worker";
  if (!AGENT_ROLES.includes(role as AgentRole)) {
    throw new Misuse(`${role} is no role for an agent`, `Say one of: ${AGENT_ROLES.join(", ")}`);
  }
  await serveMcp({
    store: said(options, "store", "HOLDFAST_STORE"),
    goal: said(options, "goal", "HOLDFAST_GOAL"),
    by: said(options, "by", "HOLDFAST_BY"),
    role: role as AgentRole,
  });
}

/** What people answer for is not to be had by saying that one is a person. */
const AGENT_ROLES = ["worker", "architect", "orchestrator", "verifier"] as const;
type AgentRole = (typeof AGENT_ROLES)[number];

async function putAround(command: readonly string[], options: Options): Promise<void> {
  const { runProxy } = await import("../mcp/index.ts");
  await runProxy({
    command,
    config: said(options, "config"),
    session: said(options, "session"),
    store: said(options, "store", "HOLDFAST_STORE"),
    by: said(options, "by", "HOLDFAST_BY") ?? "mcp-proxy",
  });
}

function said(options: Options, name: string, variable?: string): string | undefined {
  const value = options[name] ?? (variable === undefined ? undefined : process.env[variable]);
  return typeof value === "string" && value !== "" ? value : undefined;
}
