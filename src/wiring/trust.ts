/**
 * Whether a coding agent would run our hooks and our server in a project, by the settings that it keeps for
 * its user. An agent skips the hooks of a folder that no person has trusted, and says nothing.
 *
 * | agent | the folder | the hooks | the server |
 * |---|---|---|---|
 * | Claude Code | `projects` in `.claude.json` | with the folder | `enabledMcpjsonServers` |
 * | Codex | `projects` in `config.toml` | `hooks.state` there, by position and hash | with the folder |
 * | Gemini CLI | `trustedFolders.json` | with the folder | with the folder |
 * | Copilot CLI | `trusted_folders` in `config.json` | with the folder | with the folder |
 *
 * These files belong to the agents. A missing or unreadable file counts as "not trusted": the check only
 * tells a person where to look.
 */

import { readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { parse } from "smol-toml";
import { AGENT_TABLE, type AgentName, ourCommand } from "./agents.ts";
import { jsonValue } from "./json-file.ts";

interface Untrusted {
  readonly agent: AgentName;
  /** For example: `Codex: not trusted yet. Start codex in this folder …`. */
  readonly detail: string;
}

type Fields = Readonly<Record<string, unknown>>;

interface Folders {
  readonly home: string;
  readonly root: string;
  /** The checkout that has the git directory of a worktree; else `root`. */
  readonly main: string;
}

export function untrustedAgents(
  { root, main }: Omit<Folders, "home">,
  agents: readonly AgentName[],
  env: NodeJS.ProcessEnv = process.env,
): Untrusted[] {
  const home = env["HOME"] || homedir();
  const folders = { home, root: realpathSync(root), main: realpathSync(main) };
  return agents.flatMap((agent) => {
    const missing = MISSING[agent]?.(folders, env) ?? null;
    const { title } = AGENT_TABLE[agent];
    return missing === null ? [] : [{ agent, detail: `${title}: not trusted yet. ${missing}` }];
  });
}

const MISSING: Partial<Record<AgentName, (folders: Folders, env: NodeJS.ProcessEnv) => string | null>> = {
  claude({ home, root, main }, env) {
    const config = env["CLAUDE_CONFIG_DIR"];
    const known = fieldsOf(readJson(join(config ?? home, ".claude.json"))["projects"]);
    const folder = [...parentsOf(root), ...parentsOf(main)].find(
      (each) => fieldsOf(known[each])["hasTrustDialogAccepted"] === true,
    );
    if (folder === undefined) return "Start claude in this folder, and accept the folder and the MCP server.";
    const settings = [
      ...[root, main].map((each) => fieldsOf(known[each])),
      ...[root, main].map((each) => readJson(join(each, ".claude/settings.local.json"))),
      readJson(join(config ?? join(home, ".claude"), "settings.json")),
    ];
    const isEnabled = settings.some(
      (each) => each["enableAllProjectMcpServers"] === true || has(each["enabledMcpjsonServers"], "holdfast"),
    );
    return isEnabled ? null : "Start claude in this folder, and accept the MCP server holdfast.";
  },
  codex({ home, root, main }, env) {
    const config = readToml(join(env["CODEX_HOME"] ?? join(home, ".codex"), "config.toml"));
    const known = fieldsOf(config["projects"]);
    const isTrusted = [root, main].some((each) => fieldsOf(known[each])["trust_level"] === "trusted");
    if (!isTrusted) return "Start codex in this folder and trust it, then approve the hooks with /hooks.";
    const states = fieldsOf(fieldsOf(config["hooks"])["state"]);
    const file = join(root, ".codex/hooks.json");
    const isApproved = ourPositions(readJson(file)).every(
      (position) => typeof fieldsOf(states[`${file}:${position}`])["trusted_hash"] === "string",
    );
    return isApproved ? null : "Codex skips the hooks until you approve them: start codex, then /hooks.";
  },
  gemini({ home, root }) {
    const folder = join(home, ".gemini");
    const { security } = readJson(join(folder, "settings.json"));
    if (fieldsOf(fieldsOf(security)["folderTrust"])["enabled"] === false) return null;
    const rules = readJson(join(folder, "trustedFolders.json"));
    // The longest rule decides.
    const rule = Object.keys(rules)
      .filter((each) => parentsOf(root).includes(rules[each] === "TRUST_PARENT" ? dirname(each) : each))
      .sort((a, b) => a.length - b.length)
      .at(-1);
    const isTrusted = rule !== undefined && rules[rule] !== "DO_NOT_TRUST";
    return isTrusted ? null : "Start gemini in this folder, and trust it: it loads no hook and no server.";
  },
  copilot({ home, root, main }, env) {
    const folder = env["COPILOT_HOME"] ?? join(home, ".copilot");
    const config = readJson(join(folder, "config.json"));
    const trusted = config["trusted_folders"] ?? config["trustedFolders"];
    const isTrusted = [...parentsOf(root), ...parentsOf(main)].some((each) => has(trusted, each));
    return isTrusted ? null : "Start copilot in this folder, and trust it.";
  },
};

/** The places of our hooks as Codex names them: `session_start:0:0`, event, group and hook. */
function ourPositions(file: Fields): string[] {
  return Object.entries(fieldsOf(file["hooks"])).flatMap(([event, groups]) => {
    const name = event.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
    return listOf(groups).flatMap((group, at) =>
      listOf(fieldsOf(group)["hooks"]).flatMap((each, index) =>
        ourCommand(each) === null ? [] : [`${name}:${at}:${index}`],
      ),
    );
  });
}

/** `/a/b` has `/a/b`, `/a` and `/`. */
function parentsOf(folder: string): string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...parentsOf(above)];
}

const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const has = (list: unknown, wanted: string): boolean => listOf(list).includes(wanted);

function readJson(path: string): Fields {
  return tolerant(path, (text) => jsonValue(text, path));
}

function readToml(path: string): Fields {
  return tolerant(path, parse);
}

function tolerant(path: string, parsed: (text: string) => unknown): Fields {
  try {
    return fieldsOf(parsed(readFileSync(path, "utf8")));
  } catch {
    return {};
  }
}
