/**
 * The agent's own process, as far as a hook can see it: whoever started the hook, past the shell that came
 * between. With its start time and the boot it lived in, a later hook can tell for certain that it is gone.
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
  /** What `started` counts from: by another one the same process has another start time. */
  readonly timeNamespace?: string;
  /** Of the machine: another one that shares the folder has a boot of its own, which says nothing. */
  readonly host: string;
}

/**
 * What comes between an agent and its hook, and ends with the hook. A name that a process gave itself goes on
 * after a blank.
 */
const BETWEEN =
  /^(sh|bash|dash|zsh|fish|ash|ksh|env|timeout|time|sudo|npm|npx|pnpm|pnpx|yarn|yarnpkg|bunx|corepack|volta|volta-shim)( |$)/;
/** Both agents and what comes between run in these. */
const RUNTIMES = /^(node|bun|deno|MainThread|node-MainThread)$/;
/** Scripts that start others: `npx-cli.js`, `pnpm.cjs`. */
const STARTERS = /^(npm|npx|pnpm|pnpx|yarn|yarnpkg|corepack)(-cli)?(\.[cm]?js)?$/;
const MOST_BETWEEN = 8;

/**
 * Null where the system does not tell, and where one cannot be sure: to take a starter for the agent is to
 * see it die.
 */
export function processAbove(): ProcessAbove | null {
  if (process.platform !== "linux") return null;
  try {
    let pid = process.ppid;
    for (let steps = 0; isBetween(pid); steps++) {
      if (steps === MOST_BETWEEN) return null;
      pid = parentOf(pid);
    }
    if (pid <= 1 || isUnclear(pid)) return null;
    const started = startTime(pid);
    const spaces = { pidNamespace: pidNamespace(), timeNamespace: timeNamespace() };
    return { pid, started, boot: bootId(), ...spaces, host: hostname() };
  } catch {
    // Gone already, or not ours to see: then the time since its last sign of life has to do.
    return null;
  }
}

/** Unknown: it lives, or lived, where we cannot look, as in another container or on another machine. */
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

function isBetween(pid: number): boolean {
  if (pid <= 1) return false;
  const name = nameOf(pid);
  return BETWEEN.test(name) || (RUNTIMES.test(name) && STARTERS.test(scriptOf(pid)));
}

/** `bun run` and `deno task` start scripts and agents alike. */
function isUnclear(pid: number): boolean {
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
