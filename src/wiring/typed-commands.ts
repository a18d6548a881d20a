/**
 * Messages name commands as `holdfast status`. Who has Holdfast in a project alone would paste that in vain, and is told
 * `npx holdfast status`. The word that follows tells a command from prose.
 */

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Commands that take a store, as an expression. */
export const ON_A_STORE =
  "(?:goal|task|block|session) [a-z]+|status|watch|brief|next|doctor|decide|decisions|facts?|forget|remember|blockers|move|resume|handoff|calls|resolve|init|check|rebuild|migrate|prune|supervise|export|import";

/** A command may stand in colour, and is not spelled twice. */
const COMMAND = new RegExp(
  String.raw`(?<=^|[\s(\`"':]|\x1b\[\d+m)(?<!npx (?:--no-install )?)holdfast (?=(?:${ON_A_STORE}|copy|schema new|mcp|hook|completion|demo|torture|--help)(?![\w-]))`,
  "gm",
);

/** As npx, npm run and the agents start it; a link on the PATH that leads there is not. */
const IN_PROJECT = /[\\/]node_modules[\\/](?:\.bin[\\/]holdfast|holdfast[\\/])/;

export interface Started {
  /** The program, as it was started. */
  readonly program: string;
  readonly env: NodeJS.ProcessEnv;
}

const started = (): Started => ({ program: process.argv[1] ?? "", env: process.env });

/** What a person begins a command with. */
export function typedName({ program, env }: Started = started()): "holdfast" | "npx holdfast" {
  const isNpx = IN_PROJECT.test(program) && (env["npm_command"] === "exec" || !isOnPath(env));
  return isNpx ? "npx holdfast" : "holdfast";
}

/** The text with its commands as they can be pasted. */
export function withTypedCommands(text: string, how: Started = started()): string {
  const name = typedName(how);
  return name === "holdfast" ? text : text.replace(COMMAND, `${name} `);
}

export function isOnPath(env: NodeJS.ProcessEnv): boolean {
  const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  // npx and npm put the project's own folder there while they run; an agent would not find it.
  return folders.some((folder) => !folder.includes("node_modules") && existsSync(join(folder, "holdfast")));
}
