/**
 * The holder of a lease as facts, from which a neighbour can later prove that its process is dead.
 *
 * A process is provably dead if it lived in this boot and this pid namespace, and no process with its pid and
 * start time is left. In another time namespace the same process has another start time, so only its pid
 * counts. If a fact cannot be read (too many open files, /proc hides other processes), nothing is proven and
 * the lease must expire.
 */

import { hostname } from "node:os";
import { bootId, pidNamespace, startTime, timeNamespace } from "../process-facts.ts";
import type { Holder } from "../store.ts";

let facts: Omit<Holder, "owner" | "label"> | undefined;

function processFacts(): Omit<Holder, "owner" | "label"> {
  facts ??= {
    host: hostname(),
    pid: process.pid,
    started: factOrNull(() => startTime(process.pid)),
    boot: factOrNull(bootId),
    pidNamespace: factOrNull(pidNamespace),
    timeNamespace: factOrNull(timeNamespace),
  };
  return facts;
}

function factOrNull(read: () => string): string | null {
  try {
    return read() || null;
  } catch {
    // Another kind of system, or no permission: one fact fewer.
    return null;
  }
}

/** `owner` is the id of a handle: two handles of one process are two owners. */
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

/** The system itself denies that there is such a process. It may hide others, but never denies them. */
function isNoProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as { code?: unknown }).code === "ESRCH";
  }
}
