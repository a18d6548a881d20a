/**
 * Facts that identify a process on this machine, read from /proc. The journal proves with them that the
 * holder of a lease is dead; hooks find the agent that started them. Each function throws where the system
 * does not tell.
 *
 * Hooks load this file at every start, so it imports nothing but `node:fs`.
 */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Identifies the current boot of this machine. */
export function bootId(): string {
  if (process.platform === "darwin") {
    const { execFileSync } = process.getBuiltinModule("node:child_process");
    return execFileSync("sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }).trim();
  }
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

/** The namespace in which pids of this process count. */
export function pidNamespace(): string {
  return readlinkSync("/proc/self/ns/pid");
}

/**
 * The namespace in which start times that this process reads count. `none` on a kernel without time
 * namespaces.
 */
export function timeNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/time");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "none";
    throw error;
  }
}

export function parentOf(pid: number): number {
  return Number(statFields(pid)[1]);
}

/**
 * The start time of a process in the kernel's own unit. Empty for a process that is dead but not reaped yet:
 * in a container without an init process it would stay for ever.
 */
export function startTime(pid: number): string {
  const [state = "", ...fields] = statFields(pid);
  // While other threads still run, only the first thread is dead.
  if ("ZX".includes(state) && readdirSync(`/proc/${pid}/task`).length <= 1) return "";
  return fields[18] ?? "";
}

/** /proc/PID/stat from its third field on. The second field, a name, may hold spaces and brackets. */
function statFields(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}
