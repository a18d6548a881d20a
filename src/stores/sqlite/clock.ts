/**
 * Time for leases: how long this machine has been up. Nobody can set it back, it goes on while the machine sleeps,
 * and all processes of the machine read the same, but for those whose container has a clock of its own (a time namespace), or is
 * shown an uptime of its own (LXCFS): the latter count the time that the machine was awake, which nobody shows otherwise. It
 * begins anew at every boot, so a time is only comparable with times of the same timeline, which is the boot and that clock:
 *
 *   the same timeline                        the times say how long a lease has left
 *   another boot                             it has run out: its holder cannot have survived
 *   the same boot by another clock, or       cannot be compared: it has as long as it was taken for, from when it was first seen
 *   one boot that cannot be told             here, and again from every renewal
 *
 * Where neither boot can be told, the times are compared, and a lease that would last longer than it was taken for is from
 * another boot.
 */

import { readFileSync, readlinkSync, statSync } from "node:fs";
import { uptime } from "node:os";

export interface Clock {
  readonly boot: string;
  /** Which of the boot's clocks this is, if there is more than one. */
  readonly zone?: string;
  /** The two together, made once: every write compares it. */
  readonly timeline?: string;
  nowMs(): number;
}

/** A lease as some process has written it down, by its own clock. */
export interface Timed {
  /** Asked for only where times cannot be compared. */
  readonly name: () => string;
  readonly timeline: string;
  readonly expiresAt: number;
  readonly ttlMs: number;
}

export const UNKNOWN_BOOT = "unknown";
const SLACK_MS = 60_000;
const MAX_SIGHTINGS = 10_000;

interface Sighting extends Pick<Timed, "timeline" | "expiresAt"> {
  readonly seenAt: number;
}

const sightings = new WeakMap<Clock, Map<string, Sighting>>();

export function timelineOf({ boot, zone, timeline }: Clock): string {
  return timeline ?? (zone ? `${boot} ${zone}` : boot);
}

/** How long the lease has by this clock; 0 or less when it has run out. */
export function remainingMs(clock: Clock, lease: Timed): number {
  const { timeline, expiresAt, ttlMs } = lease;
  // Nobody has held it since it came here from another store.
  if (expiresAt <= 0) return 0;
  const here = timelineOf(clock);
  if (timeline === here) {
    const leftMs = expiresAt - clock.nowMs();
    return leftMs > ttlMs + SLACK_MS ? 0 : leftMs;
  }
  const boots = [bootOf(timeline), bootOf(here)] as const;
  const isOther = boots[0] !== boots[1] && !boots.includes(UNKNOWN_BOOT);
  return isOther ? 0 : ttlMs - sinceSeen(clock, lease);
}

const bootOf = (timeline: string): string => timeline.split(" ")[0] as string;

/** How long ago this process first saw the lease as it is now. */
function sinceSeen(clock: Clock, lease: Timed): number {
  const seen = sightings.get(clock) ?? new Map<string, Sighting>();
  sightings.set(clock, seen);
  const { timeline, expiresAt } = lease;
  const name = lease.name();
  const before = seen.get(name);
  const isSame = before?.timeline === timeline && before.expiresAt === expiresAt;
  if (before && isSame) return clock.nowMs() - before.seenAt;
  if (seen.size >= MAX_SIGHTINGS) seen.clear();
  seen.set(name, { timeline, expiresAt, seenAt: clock.nowMs() });
  return 0;
}

export function bootClock(): Clock {
  const { isShown, ...here } = place();
  return {
    ...here,
    timeline: timelineOf({ ...here, nowMs: () => 0 }),
    nowMs: isShown ? () => Math.round(awakeMs()) : upMsFromAnchor(),
  };
}

const ANCHOR_MS = 250;

/**
 * Asking the system costs as much as three SQL statements, so between two askings the process's own clock counts. That one
 * stands still while the machine sleeps: the wall clock, which does not, tells that it has to be asked again.
 */
function upMsFromAnchor(): () => number {
  let anchor = Number.NEGATIVE_INFINITY;
  let wallAnchor = 0;
  let upMs = 0;
  return () => {
    const here = performance.now();
    const wall = Date.now();
    const passedMs = here - anchor;
    if (passedMs <= ANCHOR_MS && Math.abs(wall - wallAnchor - passedMs) <= ANCHOR_MS) {
      return Math.round(upMs + passedMs);
    }
    anchor = here;
    wallAnchor = wall;
    upMs = uptime() * 1_000;
    return Math.round(upMs);
  };
}

/** How long the machine has been awake since its boot: CLOCK_MONOTONIC, the same for all processes of one time namespace. */
function awakeMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1_000_000;
}

interface Place extends Pick<Clock, "boot" | "zone"> {
  /** The uptime is one that somebody shows to this container. */
  readonly isShown: boolean;
}

let known: Place | undefined;

function place(): Place {
  if (known) return known;
  const isShown = isUptimeShown();
  const zone = [timeNamespace(), isShown && "awake"].filter(Boolean).join("/");
  const found = { boot: bootId(), ...(zone !== "" && { zone }), isShown };
  // A process that could open no more files when it was first asked may be able to later.
  if (found.boot !== UNKNOWN_BOOT) known = found;
  return found;
}

const UNLIKE_MS = 1_000;

/**
 * LXCFS mounts a file of its own over /proc/uptime, in which every container finds another time. It cannot be relied on even
 * within one: while LXCFS is gone, or no more files may be opened, Node falls back to the machine's own.
 */
function isUptimeShown(): boolean {
  if (process.platform !== "linux") return false;
  // No machine has been awake for longer than it has been up.
  if (uptime() * 1_000 < awakeMs() - UNLIKE_MS) return true;
  try {
    return statSync("/proc/uptime").dev !== statSync("/proc").dev;
  } catch (error) {
    // Where there is none, Node asks the kernel itself. Any other failure is that of a mount.
    return (error as NodeJS.ErrnoException).code !== "ENOENT";
  }
}

function bootId(): string {
  try {
    if (process.platform === "linux") return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    if (process.platform === "darwin") {
      const { execFileSync } = process.getBuiltinModule("node:child_process");
      return execFileSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }).trim();
    }
  } catch {
    // A sandbox may hide it.
  }
  return UNKNOWN_BOOT;
}

/** Null where the system has none, or does not tell. */
function timeNamespace(): string | null {
  if (process.platform !== "linux") return null;
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/time"))?.[0] ?? null;
  } catch {
    return null;
  }
}
