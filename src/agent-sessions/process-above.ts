/**
 * Finds the agent's process: the ancestor of the hook past shells and package runners. Its start time and
 * boot id let a later hook prove that it is gone.
 */

import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { basename } from "node:path";
import { bootId, parentOf, pidNamespace, startTime, timeNamespace } from "../process-facts.ts";

export interface ProcessAbove {
  readonly pid: number;
  readonly started: string;
  readonly boot: string;
  readonly pidNamespace: string;
  /** `started` is only comparable within one time namespace. */
  readonly timeNamespace?: string;
  /** Another machine that shares the folder has another boot id, which proves nothing. */
  readonly host: string;
}

const SHELLS = "sh|bash|dash|zsh|fish|ash|ksh|env|timeout|time|sudo";
const RUNNERS = "npm|npx|pnpm|pnpx|yarn|yarnpkg|bunx|corepack|volta|volta-shim";
/**
 * Programs that start the hook and exit with it. A title that a process set itself continues after a blank.
 */
const LAUNCHERS = new RegExp(`^(${SHELLS}|${RUNNERS})( |$)`);
/** Agents and launchers both run in these. */
const RUNTIMES = /^(node|bun|deno|MainThread|node-MainThread)$/;
/** Scripts that start others: `npx-cli.js`, `pnpm.cjs`. */
const STARTERS = /^(npm|npx|pnpm|pnpx|yarn|yarnpkg|corepack)(-cli)?(\.[cm]?js)?$/;
const MAX_LAUNCHERS = 8;

/** Returns null if the agent is not certain: a launcher taken for the agent would soon look like a crash. */
export function processAbove(): ProcessAbove | null {
  if (process.platform !== "linux") return null;
  try {
    let pid = process.ppid;
    for (let steps = 0; isLauncher(pid); steps++) {
      if (steps === MAX_LAUNCHERS) return null;
      pid = parentOf(pid);
    }
    if (pid <= 1 || isAmbiguous(pid)) return null;
    const started = startTime(pid);
    const spaces = { pidNamespace: pidNamespace(), timeNamespace: timeNamespace() };
    return { pid, started, boot: bootId(), ...spaces, host: hostname() };
  } catch {
    // The process is gone or not visible: the time since its last line decides instead.
    return null;
  }
}

/** The programs of coding agents, as process names and as scripts of a runtime. */
const AGENT_PROGRAMS = /^(claude|codex|cursor-agent|gemini|copilot|opencode)(\.[cm]?js|\.exe)?$/;
/** Variables that agents set for the commands that they run. */
const AGENT_VARIABLES = ["CLAUDECODE", "CODEX_SANDBOX", "CURSOR_AGENT", "GEMINI_CLI"];
const MAX_ANCESTORS = 64;

/**
 * The coding agent that started this process, at any distance; null if none is found. An agent must not
 * answer in a person's name, so surfaces for people are read-only below one.
 */
export function agentAbove(): string | null {
  const variable = AGENT_VARIABLES.find((name) => process.env[name]);
  if (variable !== undefined) return `a coding agent (${variable} is set)`;
  if (process.platform !== "linux") return null;
  try {
    let pid = process.ppid;
    for (let steps = 0; pid > 1 && steps < MAX_ANCESTORS; steps++) {
      const name = nameOf(pid);
      const program = RUNTIMES.test(name) ? scriptOf(pid) : name;
      if (AGENT_PROGRAMS.test(program)) return `${program} (pid ${pid})`;
      pid = parentOf(pid);
    }
  } catch {
    // A process above is gone or not visible: nothing more can be told.
  }
  return null;
}

/** `unknown`: the process belongs to another container or machine. */
export function processStatus(above: ProcessAbove): "alive" | "gone" | "unknown" {
  if (process.platform !== "linux" || above.host !== hostname()) return "unknown";
  const { pid, started, boot, pidNamespace: space } = above;
  try {
    if (boot !== bootId()) return "gone";
    if (space !== pidNamespace() || above.timeNamespace !== timeNamespace()) return "unknown";
  } catch {
    return "unknown";
  }
  try {
    return startTime(pid) === started ? "alive" : "gone";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "gone" : "unknown";
  }
}

function isLauncher(pid: number): boolean {
  if (pid <= 1) return false;
  const name = nameOf(pid);
  return LAUNCHERS.test(name) || (RUNTIMES.test(name) && STARTERS.test(scriptOf(pid)));
}

/** `bun run` and `deno task` start scripts and agents alike. */
function isAmbiguous(pid: number): boolean {
  return /^(bun|deno)$/.test(nameOf(pid)) && /^(x|run|exec|task)$/.test(scriptOf(pid));
}

/** The name of the first argument that is no option. */
function scriptOf(pid: number): string {
  const [, ...args] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  return basename(args.find((each) => !each.startsWith("-")) ?? "");
}

function nameOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}
