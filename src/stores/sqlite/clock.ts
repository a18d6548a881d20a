/**
 * Time for leases: how long this machine has been up. Nobody can set it back, it goes on while the machine sleeps,
 * and all processes of the machine read the same. It begins anew at every boot, so a time is only comparable with
 * times of the same `boot`; a lease of another boot has run out, since its holder cannot have survived.
 */

import { readFileSync } from "node:fs";
import { uptime } from "node:os";

export interface Clock {
  readonly boot: string;
  nowMs(): number;
}

const ANCHOR_MS = 250;

/** Asking the system costs as much as three SQL statements, so between two askings the process's own clock counts. */
export function bootClock(): Clock {
  let anchor = Number.NEGATIVE_INFINITY;
  let upMs = 0;
  return {
    boot: bootId(),
    nowMs() {
      const here = performance.now();
      if (here - anchor > ANCHOR_MS) {
        anchor = here;
        upMs = uptime() * 1_000;
      }
      return Math.round(upMs + here - anchor);
    },
  };
}

let knownBoot: string | undefined;

function bootId(): string {
  knownBoot ??= readBootId();
  return knownBoot;
}

function readBootId(): string {
  try {
    if (process.platform === "linux") return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    if (process.platform === "darwin") {
      const { execFileSync } = process.getBuiltinModule("node:child_process");
      return execFileSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }).trim();
    }
  } catch {
    // A sandbox may hide it. Leases then look at the uptime alone, and `leases.ts`
    // notices a lease that would last longer than it was taken for.
  }
  return "unknown";
}
