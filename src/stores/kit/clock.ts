/**
 * The clock that leases run by: how long this machine has been up.
 *
 * The uptime cannot be set back, counts while the machine sleeps, and is the same for all its processes.
 * Two kinds of containers are exceptions: a time namespace has a clock of its own, and where LXCFS shows
 * another uptime, the time that the machine was awake counts.
 *
 * A timeline names the boot and the clock. Times compare only within one:
 *
 *     same timeline                 the times say how long a lease has left
 *     other boot                    expired: its holder cannot have survived
 *     same boot by another clock,   cannot be compared: the lease lasts its whole TTL, counted from when this
 *     or a boot that is unknown     process first saw it, and again from every renewal
 *
 * If neither boot is known, the times are compared. A lease that would outlast its TTL is from another boot.
 */

import { readFileSync, readlinkSync, statSync } from "node:fs";
import { uptime } from "node:os";

export interface Clock {
  readonly boot: string;
  /** Names the clock within the boot, where a boot has several. */
  readonly zone?: string;
  /** `boot` and `zone` joined. Made once, because every write compares it. */
  readonly timeline?: string;
  nowMs(): number;
}

/** When a lease expires, as some process stored it by its own clock. */
export interface LeaseExpiry {
  /** Called only where times cannot be compared. */
  readonly name: () => string;
  readonly timeline: string;
  readonly expiresAt: number;
  readonly ttlMs: number;
}

export const UNKNOWN_BOOT = "unknown";
const SLACK_MS = 60_000;
const MAX_SIGHTINGS = 10_000;

type Sighting = Pick<LeaseExpiry, "timeline" | "expiresAt"> & { readonly seenAt: number };

const sightings = new WeakMap<Clock, Map<string, Sighting>>();

export function timelineOf({ boot, zone, timeline }: Clock): string {
  return timeline ?? (zone ? `${boot} ${zone}` : boot);
}

/** How long the lease has left by this clock; 0 or less once it has expired. */
export function remainingMs(clock: Clock, lease: LeaseExpiry): number {
  const { timeline, expiresAt, ttlMs } = lease;
  // The lease came from another store and was not taken here since.
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

function sinceSeen(clock: Clock, lease: LeaseExpiry): number {
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
  const { isSimulated, ...here } = machineClock();
  return {
    ...here,
    timeline: timelineOf({ ...here, nowMs: () => 0 }),
    nowMs: isSimulated ? () => Math.round(awakeMs()) : cachedUptimeMs(),
  };
}

const ANCHOR_MS = 250;

/**
 * Reads the uptime at most every 250 ms, as one read costs as much as three SQL statements. In between the
 * process's own clock counts, unless a jump of the wall clock shows that the machine has slept.
 */
function cachedUptimeMs(): () => number {
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

/** How long the machine has been awake since its boot: CLOCK_MONOTONIC, shared within one time namespace. */
function awakeMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1_000_000;
}

/** `isSimulated`: LXCFS shows this container an uptime that is not the machine's. */
type MachineClock = Pick<Clock, "boot" | "zone"> & { readonly isSimulated: boolean };

let known: MachineClock | undefined;

function machineClock(): MachineClock {
  if (known) return known;
  const isSimulated = isUptimeSimulated();
  const zone = [timeNamespace(), isSimulated && "awake"].filter(Boolean).join("/");
  const found = { boot: bootId(), ...(zone !== "" && { zone }), isSimulated };
  // Not cached if unknown: a process that has run out of descriptors may read it later.
  if (found.boot !== UNKNOWN_BOOT) known = found;
  return found;
}

const TOLERANCE_MS = 1_000;

/** LXCFS mounts a file of its own over /proc/uptime. Without a free descriptor Node reads the machine's. */
function isUptimeSimulated(): boolean {
  if (process.platform !== "linux") return false;
  // No machine has been awake for longer than it has been up.
  if (uptime() * 1_000 < awakeMs() - TOLERANCE_MS) return true;
  try {
    return statSync("/proc/uptime").dev !== statSync("/proc").dev;
  } catch (error) {
    // Without the file Node asks the kernel. Any other failure comes from a mount.
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

/** Null where the system has none, or hides it. */
function timeNamespace(): string | null {
  if (process.platform !== "linux") return null;
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/time"))?.[0] ?? null;
  } catch {
    return null;
  }
}
