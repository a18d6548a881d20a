import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { Holder } from "../store.ts";
import { timeNamespace } from "../time-namespace.ts";

/**
 * Facts about this process from which a neighbour can later prove that it is dead. A process is provably dead
 * when it lived in this boot and this pid namespace and no process with its pid and start time is left. In another time
 * namespace the same process has another start time, and only its pid counts. Where a fact cannot be read (no more files may
 * be opened, /proc hides the processes of others) the answer is "cannot tell", and the lease has to run out.
 */

function readFact(read: () => string): string | null {
  try {
    return read().trim() || null;
  } catch {
    // Not this kind of system, or not allowed to look: one fact fewer.
    return null;
  }
}

function bootId(): string | null {
  if (process.platform === "linux")
    return readFact(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8"));
  if (process.platform === "darwin") {
    // Asked for here: nowhere else does opening a store need what starts a process.
    const { execFileSync } = process.getBuiltinModule("node:child_process");
    return readFact(() => execFileSync("sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }));
  }
  return null;
}

/**
 * Field 22 of /proc/pid/stat; the second field may hold spaces and brackets, so count from its last bracket. A
 * process that is dead but not yet reaped has none: where nobody reaps, as in many containers, it would stay. Throws where
 * that cannot be read.
 */
function startTime(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const [state = "", ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // While other threads of it still run, only its first thread is dead.
  if ("ZX".includes(state) && readdirSync(`/proc/${pid}/task`).length <= 1) return "";
  return fields[18] ?? "";
}

/** The system itself says that there is no such process. Others it may hide, but never deny. */
function isNoProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as { code?: unknown }).code === "ESRCH";
  }
}

let facts: Omit<Holder, "owner" | "label"> | undefined;

function processFacts(): Omit<Holder, "owner" | "label"> {
  facts ??= {
    host: hostname(),
    pid: process.pid,
    started: readFact(() => startTime(process.pid)),
    boot: bootId(),
    pidNamespace: readFact(() => readlinkSync("/proc/self/ns/pid")),
    timeNamespace: readFact(timeNamespace),
  };
  return facts;
}

/** `owner` is the handle's own id: two handles of one process are two owners. */
export function holderFor(owner: string, label: string): Holder {
  return { owner, label, ...processFacts() };
}

export function isProvablyDead(holder: Holder): boolean {
  if (!holder.boot || !holder.pidNamespace || !holder.started) return false;
  const here = processFacts();
  if (holder.boot !== here.boot || holder.pidNamespace !== here.pidNamespace) return false;
  if (isNoProcess(holder.pid)) return true;
  const isComparable = Boolean(holder.timeNamespace) && holder.timeNamespace === here.timeNamespace;
  try {
    const started = startTime(holder.pid);
    return started === "" || (isComparable && started !== holder.started);
  } catch {
    return false;
  }
}
