/**
 * How agents start us, and how messages name our commands. A command that is installed in the project is
 * named by its path there, since npx would take longer than a hook may.
 */

import { existsSync, realpathSync } from "node:fs";
import { delimiter, dirname, join, sep } from "node:path";
import type { AgentName, Launch } from "./agents.ts";

const LOCAL = "node_modules/.bin/holdfast";

/** The project's root for each agent; a hook may run in any folder below. */
const PROJECT: Readonly<Record<AgentName, string>> = {
  claude: `"\${CLAUDE_PROJECT_DIR:-.}"`,
  codex: `"$(git rev-parse --show-toplevel 2>/dev/null || pwd)"`,
  cursor: `"\${CURSOR_PROJECT_DIR:-.}"`,
  gemini: `"\${GEMINI_PROJECT_DIR:-.}"`,
  copilot: `"$(git rev-parse --show-toplevel 2>/dev/null || pwd)"`,
  opencode: `"$(git rev-parse --show-toplevel 2>/dev/null || pwd)"`,
};

/** A new worktree has no `node_modules`: it uses those of the checkout that has the git directory. */
const MAIN_CHECKOUT = `"$(dirname "$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null)")"`;

/**
 * Starts the server as the agent's own child. npx would put two processes between them and take a second, in
 * which an agent sends its first request without our tools.
 */
const SERVER =
  `h="$(git rev-parse --show-toplevel 2>/dev/null || pwd)"/${LOCAL}; ` +
  `test -x "$h" || h=${MAIN_CHECKOUT}/${LOCAL}; exec "$h" mcp`;

const NOT_INSTALLED =
  "holdfast is neither in this project's node_modules nor on the PATH that an agent has, so it is wired by " +
  "its place on this machine; after npm install holdfast run init again";

export interface Launching extends Launch {
  readonly typed: string;
  readonly note: string | null;
  /** Why this command must not be run by a check: the repository brings the program. Null: it may. */
  readonly untrusted: string | null;
}

const OF_THE_REPOSITORY =
  `was not run: ${LOCAL} came with this repository and is not the program that checks. ` +
  "If you trust the repository: npx holdfast init --check";

export function findLaunch(
  root: string,
  named: string | undefined,
  self: string,
  env: NodeJS.ProcessEnv = process.env,
): Launching {
  const own = { package: dirname(dirname(self)) };
  if (named !== undefined) {
    const [command = "", ...args] = named.split(/\s+/).filter(Boolean);
    const mcp = { command, args: [...args, "mcp"] };
    const installed = existsSync(join(root, "node_modules/holdfast")) ? {} : own;
    return { shell: () => named, mcp, typed: named, note: null, untrusted: null, ...installed };
  }
  if (existsSync(join(root, LOCAL))) {
    // A fresh clone has the wiring before npm install: then nothing runs, and nothing fails.
    const shell = (agent: AgentName): string =>
      `h=${PROJECT[agent]}/${LOCAL}; test -x "$h" || h=${MAIN_CHECKOUT}/${LOCAL}; ` +
      `test ! -x "$h" || exec "$h"`;
    const mcp = { command: "sh", args: ["-c", SERVER] };
    const untrusted = isOfProject(root, self) ? null : OF_THE_REPOSITORY;
    return { shell, mcp, typed: "npx holdfast", note: null, untrusted };
  }
  if (isOnPath(env)) {
    const mcp = { command: "holdfast", args: ["mcp"] };
    return { shell: () => "holdfast", mcp, typed: "holdfast", note: null, untrusted: null, ...own };
  }
  const quoted = /^[\w./-]+$/.test(self) ? self : `"${self}"`;
  return {
    shell: () => `node ${quoted}`,
    mcp: { command: "node", args: [self, "mcp"] },
    typed: `node ${quoted}`,
    note: NOT_INSTALLED,
    untrusted: null,
    ...own,
  };
}

/**
 * Whether the running program is the project's own installation. Git can bring `node_modules` too: a check
 * by another program would be the first to run that code. pnpm has a script where npm has a link.
 */
function isOfProject(root: string, self: string): boolean {
  const modules = join(root, "node_modules");
  const isInside = self.startsWith(realpathSync(modules) + sep) || process.argv[1]?.startsWith(modules + sep);
  return isInside === true || self === realpathSync(join(root, LOCAL));
}

export const ON_A_STORE = [
  "(?:goal|phase|plan|task|block|session) [a-z]+|status|inbox|ledger|fleet|watch|brief|next|doctor|decide",
  "decisions|built|ask|answer|questions|error|note|finish|facts?|forget|remember|blockers|resume|handoff",
  "calls|resolve|approve|deny|init|trust|check|rebuild|migrate|prune|supervise|export|import|backup|restore",
  "postgres rls|events|retract|review|verify|vacuum|rekey|sign|assume|confirm|refute|assumptions",
  "(?:signer|approver) (?:add|remove|list)",
].join("|");

const WITHOUT_STORE = "move|new|explain|schema new|mcp|hook|completion|demo|torture|--help";

const WORD = `(?:${ON_A_STORE}|${WITHOUT_STORE})(?![\\w-])`;

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
