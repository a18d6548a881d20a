/**
 * The agent's own process, as far as a hook can see it: whoever started the hook, past the shell that came between. With
 * its start time and the boot it lived in, a later hook can tell for certain that it is gone.
 */

import { readFileSync, readlinkSync } from "node:fs";

export interface ProcessAbove {
  readonly pid: number;
  readonly started: string;
  readonly boot: string;
  readonly pidNamespace: string;
}

const SHELLS = /^(sh|bash|dash|zsh|fish|ash|ksh|env|npm|npx)$/;

/** Null where the system does not tell. */
export function processAbove(): ProcessAbove | null {
  if (process.platform !== "linux") return null;
  try {
    let pid = process.ppid;
    for (let steps = 0; steps < 4 && SHELLS.test(nameOf(pid)); steps++) pid = Number(fieldsOf(pid)[1]);
    if (pid <= 1) return null;
    return { pid, started: fieldsOf(pid)[19] ?? "", boot: bootId(), pidNamespace: pidNamespace() };
  } catch {
    // Gone already, or not ours to see: then the time since its last sign of life has to do.
    return null;
  }
}

/** True only when it is certain. */
export function isGone({ pid, started, boot, pidNamespace: space }: ProcessAbove): boolean {
  if (process.platform !== "linux") return false;
  try {
    if (boot !== bootId()) return true;
    if (space !== pidNamespace()) return false;
  } catch {
    return false;
  }
  try {
    return fieldsOf(pid)[19] !== started || fieldsOf(pid)[0] === "Z";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}

function nameOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}

/** From the third field of /proc/pid/stat on: the second may hold spaces and brackets. */
function fieldsOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

function pidNamespace(): string {
  return readlinkSync("/proc/self/ns/pid");
}
