/**
 * Faults at system calls, by strace: the process dies before the Nth call, or the Nth call fails. Only
 * calls on the store's own files count, and only those of the main thread, where both stores do all their
 * work. Never with `--seccomp-bpf`, which silently disables injection.
 */

import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { acksFile } from "../acks.ts";
import { type IoStep, noAckAfterError } from "../checker/index.ts";
import type { Scenario } from "../scenario.ts";
import { chosenStore, storeFiles } from "../store-under-test.ts";
import type { Workshop } from "../workshop.ts";
import { agentConfig, type Fault, startAgent } from "./case.ts";

/** All calls by which a store changes a disk. */
export const DURABILITY_CALLS = [
  "openat",
  "pwrite64",
  "fsync",
  "fdatasync",
  "ftruncate",
  "unlink",
  "rename",
] as const;
export type DurabilityCall = (typeof DURABILITY_CALLS)[number];

/** Calls that can fail on a full or broken disk. */
export const FAILING_CALLS = ["pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "rename"] as const;

export function hasStrace(): boolean {
  return spawnSync("strace", ["-qq", "-e", "trace=none", "true"]).status === 0;
}

const traceFile = (dir: string): string => join(dir, "strace.log");

function strace(dir: string, calls: string, paths: readonly string[], inject?: string): string[] {
  const options = ["-qq", "-y", "-o", traceFile(dir), ...paths.flatMap((path) => ["-P", path])];
  return ["strace", ...options, "-e", `trace=${calls}`, ...(inject ? ["-e", `inject=${inject}`] : [])];
}

/** How many calls of each kind an undisturbed run makes. */
export function countCalls(
  workshop: Workshop,
  scenario: Scenario,
  prepare: (dir: string) => void,
): Promise<Record<DurabilityCall, number>> {
  return workshop.within(async (dir) => {
    prepare(dir);
    const before = strace(dir, DURABILITY_CALLS.join(","), storeFiles(dir));
    await startAgent(workshop, agentConfig(workshop, dir, scenario, {}), { before }).ended;
    const lines = readFileSync(traceFile(dir), "utf8").split("\n");
    const counts = DURABILITY_CALLS.map((call) => {
      return [call, lines.filter((line) => line.startsWith(`${call}(`)).length];
    });
    return Object.fromEntries(counts) as Record<DurabilityCall, number>;
  });
}

export function killBefore(call: DurabilityCall, number: number, prepare: (dir: string) => void): Fault {
  return {
    name: `kill before ${call} ${number}`,
    before: (dir) => {
      prepare(dir);
      return strace(dir, call, storeFiles(dir), `${call}:signal=SIGKILL:when=${number}`);
    },
    fired: (ended) => ended.signal === "SIGKILL" && !ended.hung,
  };
}

export type IoError = "EIO" | "ENOSPC";

/** `sticky`: this call and all later ones fail. */
export function failAt(
  call: DurabilityCall,
  number: number,
  error: IoError,
  sticky: boolean,
  prepare: (dir: string) => void,
): Fault {
  const when = `${number}${sticky ? "+" : ""}`;
  return {
    name: `${error} at ${call} ${when}`,
    before: (dir) => {
      prepare(dir);
      const paths = [...storeFiles(dir), acksFile(dir)];
      return strace(
        dir,
        `${FAILING_CALLS.join(",")},openat,write`,
        paths,
        `${call}:error=${error}:when=${when}`,
      );
    },
    fired: (_ended, dir) => readFileSync(traceFile(dir), "utf8").includes("(INJECTED)"),
    check: (dir) => {
      const steps = readSteps(readFileSync(traceFile(dir), "utf8"), dir);
      rmSync(traceFile(dir));
      return noAckAfterError(steps);
    },
  };
}

/** The trace in the form that the checker of I13 needs. */
function readSteps(trace: string, dir: string): IoStep[] {
  return trace.split("\n").flatMap((line): IoStep[] => {
    const call = line.slice(0, line.indexOf("("));
    const ok = !line.includes("(INJECTED)");
    if (call === "write")
      return line.includes('"{\\"t\\":\\"append') ? [{ act: "acknowledged", ok: true }] : [];
    if (call === "openat") {
      const isStore = line.includes(`"${join(dir, chosenStore().opened)}"`) && !line.includes("= -1");
      return isStore ? [{ act: "open", ok }] : [];
    }
    // SQLite ignores the result of a folder's sync; the power cut shows what that is worth.
    if (line.startsWith(`${call}(`) && line.includes(`<${dir}>)`)) return [];
    if (call === "pwrite64") return [{ act: "write", ok }];
    if (call === "fsync" || call === "fdatasync") return [{ act: "sync", ok }];
    return line.length > 0 ? [{ act: "other", ok }] : [];
  });
}
