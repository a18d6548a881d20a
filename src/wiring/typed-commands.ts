/**
 * Messages are worded wherever something happens, and name commands as `holdfast status`. Whoever has Holdfast in a project
 * only would paste that in vain, so what is printed for people says `npx holdfast status` there. The words that follow tell a
 * command from prose that speaks of Holdfast.
 */

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

const COMMAND =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a command may stand in colour.
  /(?<=^|[\s(`"':]|\x1b\[\d+m)(?<!npx (?:--no-install )?)holdfast (?=(?:(?:goal|task|block|session) [a-z]+|schema new|mcp proxy|status|watch|brief|next|doctor|decide|decisions|facts?|forget|remember|blockers|move|resume|handoff|calls|resolve|mcp|init|hook|completion|demo|torture|check|rebuild|migrate|prune|supervise|copy|export|import|--help)(?![\w-]))/gm;

/** Below a project, as npx, npm run and the agents start it. A link on the PATH that leads there is not. */
const IN_PROJECT = /[\\/]node_modules[\\/](?:\.bin[\\/]holdfast|holdfast[\\/])/;

export interface Started {
  /** The program, as it was started. */
  readonly program: string;
  readonly env: NodeJS.ProcessEnv;
}

const started = (): Started => ({ program: process.argv[1] ?? "", env: process.env });

/** What a person begins a command with: `holdfast`, or `npx holdfast`. */
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
