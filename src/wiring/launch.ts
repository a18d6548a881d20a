/**
 * How the agents start us. A command on the PATH is the same on every machine; one that is installed in the project is
 * named by its path there, since looking it up with npx would take longer than a hook may; anything else works on this
 * machine only, and whoever wires it is told so.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { AgentName, Launch } from "./agents.ts";
import { isOnPath } from "./typed-commands.ts";

const LOCAL = "node_modules/.bin/holdfast";

/** Where each agent says the project is; a hook may run in any folder of it. */
const PROJECT: Readonly<Record<AgentName, string>> = {
  claude: `"\${CLAUDE_PROJECT_DIR:-.}"`,
  codex: `"$(git rev-parse --show-toplevel 2>/dev/null || pwd)"`,
  cursor: `"\${CURSOR_PROJECT_DIR:-.}"`,
  gemini: `"\${GEMINI_PROJECT_DIR:-.}"`,
};

export interface Launching extends Launch {
  readonly typed: string;
  /** Something to tell whoever wires it; null when there is nothing. */
  readonly note: string | null;
}

export function findLaunch(
  root: string,
  said: string | undefined,
  self: string,
  env: NodeJS.ProcessEnv = process.env,
): Launching {
  if (said !== undefined) {
    const [command = "", ...args] = said.split(/\s+/).filter(Boolean);
    return { shell: () => said, mcp: { command, args: [...args, "mcp"] }, typed: said, note: null };
  }
  if (existsSync(join(root, LOCAL))) {
    // A worktree or a clone has the wiring before anybody has installed anything: nothing is run then, and nothing fails.
    const shell = (agent: AgentName): string => `h=${PROJECT[agent]}/${LOCAL}; test ! -x "$h" || exec "$h"`;
    const mcp = { command: "npx", args: ["--no-install", "holdfast", "mcp"] };
    return { shell, mcp, typed: "npx holdfast", note: null };
  }
  if (isOnPath(env)) {
    const mcp = { command: "holdfast", args: ["mcp"] };
    return { shell: () => "holdfast", mcp, typed: "holdfast", note: null };
  }
  const quoted = /^[\w./-]+$/.test(self) ? self : `"${self}"`;
  return {
    shell: () => `node ${quoted}`,
    mcp: { command: "node", args: [self, "mcp"] },
    typed: `node ${quoted}`,
    note: "holdfast is not in this project's node_modules, nor on the PATH that an agent has, so it is wired by its place on this machine; after npm install holdfast run init again",
  };
}
