/**
 * The agent's own process: the one that started the hook, past the shell between them. With its start time
 * and its boot, a later hook can tell for certain that it is gone.
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
  /** Start times of two time namespaces cannot be compared. */
  readonly timeNamespace?: string;
  /** Another machine that shares the folder has another boot, which proves nothing. */
  readonly host: string;
}

/** Programs between an agent and its hook. A title that a process gave itself may follow a blank. */
const BETWEEN =
  /^(sh|bash|dash|zsh|fish|ash|ksh|env|timeout|time|sudo|npm|npx|pnpm|pnpx|yarn|yarnpkg|bunx|corepack|volta|volta-shim)( |$)/;
/** Both agents and programs between run in these. */
const RUNTIMES = /^(node|bun|deno|MainThread|node-MainThread)$/;
/** Scripts that start others: `npx-cli.js`, `pnpm.cjs`. */
const STARTERS = /^(npm|npx|pnpm|pnpx|yarn|yarnpkg|corepack)(-cli)?(\.[cm]?js)?$/;
const MOST_BETWEEN = 8;

/** Null if unsure: a starter that is taken for the agent would be seen to die. */
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
    // It is gone or hidden: the time since its last line decides then.
    return null;
  }
}

/** Unknown: it runs in another container or on another machine. */
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

function scriptOf(pid: number): string {
  const [, ...args] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  return basename(args.find((each) => !each.startsWith("-")) ?? "");
}

function nameOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}
