/**
 * How agents start us, and how messages name our commands. A command that is installed in the project is
 * named by its path there, since npx would take longer than a hook may.
 */

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { AgentName, Launch } from "./agents.ts";

const LOCAL = "node_modules/.bin/holdfast";

/** The project's root for each agent; a hook may run in any folder below. */
const PROJECT: Readonly<Record<AgentName, string>> = {
  claude: `"\${CLAUDE_PROJECT_DIR:-.}"`,
  codex: `"$(git rev-parse --show-toplevel 2>/dev/null || pwd)"`,
  cursor: `"\${CURSOR_PROJECT_DIR:-.}"`,
  gemini: `"\${GEMINI_PROJECT_DIR:-.}"`,
};

const NOT_INSTALLED =
  "holdfast is neither in this project's node_modules nor on the PATH that an agent has, so it is wired by " +
  "its place on this machine; after npm install holdfast run init again";

export interface Launching extends Launch {
  readonly typed: string;
  readonly note: string | null;
}

export function findLaunch(
  root: string,
  named: string | undefined,
  self: string,
  env: NodeJS.ProcessEnv = process.env,
): Launching {
  if (named !== undefined) {
    const [command = "", ...args] = named.split(/\s+/).filter(Boolean);
    return { shell: () => named, mcp: { command, args: [...args, "mcp"] }, typed: named, note: null };
  }
  if (existsSync(join(root, LOCAL))) {
    // A fresh clone has the wiring before npm install: then nothing runs, and nothing fails.
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
    note: NOT_INSTALLED,
  };
}

export const ON_A_STORE = [
  "(?:goal|task|block|session) [a-z]+|status|watch|brief|next|doctor|decide|decisions|facts?|forget",
  "remember|blockers|move|resume|handoff|calls|resolve|init|check|rebuild|migrate|prune|supervise",
  "export|import",
].join("|");

const WORD = `(?:${ON_A_STORE}|copy|schema new|mcp|hook|completion|demo|torture|--help)(?![\\w-])`;

/** `holdfast status` in a message, also in colour. The next word tells a command from prose. */
const COMMAND = new RegExp(
  String.raw`(?<=^|[\s(\`"':]|\x1b\[\d+m)(?<!npx (?:--no-install )?)holdfast (?=${WORD})`,
  "gm",
);

/** The program as npx, npm run and the agents start it; not a link on the PATH that leads there. */
const IN_PROJECT = /[\\/]node_modules[\\/](?:\.bin[\\/]holdfast|holdfast[\\/])/;

interface Started {
  readonly program: string;
  readonly env: NodeJS.ProcessEnv;
}

const started = (): Started => ({ program: process.argv[1] ?? "", env: process.env });

/** How a person starts a command: `npx holdfast` if Holdfast is only installed in the project. */
export function typedName({ program, env }: Started = started()): "holdfast" | "npx holdfast" {
  const isNpx = IN_PROJECT.test(program) && (env["npm_command"] === "exec" || !isOnPath(env));
  return isNpx ? "npx holdfast" : "holdfast";
}

export function withTypedCommands(text: string, how: Started = started()): string {
  const name = typedName(how);
  return name === "holdfast" ? text : text.replace(COMMAND, `${name} `);
}

function isOnPath(env: NodeJS.ProcessEnv): boolean {
  const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  // npx and npm add the project's own folder while they run; an agent does not have it.
  return folders.some((folder) => !folder.includes("node_modules") && existsSync(join(folder, "holdfast")));
}
