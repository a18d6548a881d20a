/**
 * Tells whether a coding agent runs this command: by the variables that agents set in their shells, and by
 * the processes above this one. A person's answer must not come from there.
 *
 * This proves nothing: an agent can clear its variables and start a process that outlives its parent. It
 * stops the agent that answers because it can. `docs/guides/security.md` says what is proven.
 */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { parentOf } from "../process-facts.ts";

/** Roles that only agents have. A supervisor is a program that a person set up. */
const AGENT_ROLES: readonly string[] = ["worker", "architect", "orchestrator", "verifier"];

/** Variables that agents set in the shells that they start. */
const VARIABLES: Readonly<Record<string, string>> = {
  CLAUDECODE: "Claude Code",
  CODEX_SANDBOX: "Codex",
  CODEX_SANDBOX_NETWORK_DISABLED: "Codex",
  CURSOR_AGENT: "Cursor",
  GEMINI_CLI: "Gemini CLI",
  OPENCODE: "OpenCode",
};

/** Without `cursor`, `code` and `zed`: their terminals are a person's as well. */
const PROGRAMS = /^(claude|codex|gemini|cursor-agent|opencode|aider|goose|amp|crush)(\.[cm]?js|\.exe)?$/;
/** Packages whose program is started by its path: `node …/claude-code/cli.js`. */
const PACKAGES = /\/node_modules\/(@anthropic-ai\/claude-code|@openai\/codex|@google\/gemini-cli)\//;
/** The walk ends at a test runner: a test below an agent plays a person. */
const TEST_RUNNER = /\/node_modules\/(vitest|\.bin\/vitest)(\/|$)/;
const MAX_ANCESTORS = 64;

/** The evidence that an agent acts, for an error: `Claude Code (CLAUDECODE is set)`. Null for a person. */
export function agentAbove(role?: string): string | null {
  ancestor ??= { agent: agentAmongAncestors() };
  const agent = agentByVariable() ?? ancestor.agent;
  if (agent !== null) return agent;
  const stated = [role, process.env["HOLDFAST_ROLE"]].find((each) => each && AGENT_ROLES.includes(each));
  return stated === undefined ? null : `the role ${stated}`;
}

let ancestor: { readonly agent: string | null } | undefined;

function agentByVariable(): string | null {
  const name = Object.keys(VARIABLES).find((each) => process.env[each]);
  return name === undefined ? null : `${VARIABLES[name]} (${name} is set)`;
}

/** Only Linux tells without starting a program. */
function agentAmongAncestors(): string | null {
  if (process.platform !== "linux") return null;
  try {
    let pid = process.ppid;
    for (let steps = 0; pid > 1 && steps < MAX_ANCESTORS; steps++) {
      const [program = "", ...args] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      const script = args.find((each) => each !== "" && !each.startsWith("-")) ?? "";
      if (TEST_RUNNER.test(script)) return null;
      // A process may have set its title, which then is its whole command line.
      const names = [basename(program.split(" ", 1)[0] ?? ""), basename(script), nameOf(pid)];
      const name = names.find((each) => PROGRAMS.test(each)) ?? PACKAGES.exec(script)?.[1];
      if (name !== undefined) return `process ${pid} (${name})`;
      pid = parentOf(pid);
    }
  } catch {
    // The ancestor is gone or another user's: nothing shows an agent.
  }
  return null;
}

function nameOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}
