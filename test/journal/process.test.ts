/** Whether the holder of a lease is dead. If that cannot be proven, it is not. */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, describe, expect, test, vi } from "vitest";
import { holderFor, isProvablyDead } from "../../src/journal/index.ts";
import type { Holder } from "../../src/store.ts";
import { programFile } from "../program.ts";
import { canLeaveTime, IN_OTHER_TIME, needs } from "../stores/sqlite/processes.ts";

const LINUX = process.platform === "linux";
const ASKING = programFile(new URL("programs/is-dead.ts", import.meta.url));

afterEach(() => vi.restoreAllMocks());

/** The answer of a process that can open no more files. `wrapper` is a command to run it under. */
function askedWithoutFiles(holder: object, wrapper: readonly string[] = []): string {
  const limited = `ulimit -n 64; exec "$@"`;
  const args = ["-c", limited, "sh", ...wrapper, process.execPath, ASKING, JSON.stringify(holder)];
  return execFileSync("sh", args, { encoding: "utf8" }).trim();
}

async function endedChild(): Promise<Holder> {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
  await once(child, "spawn");
  child.kill("SIGKILL");
  await once(child, "exit");
  return { ...holderFor("o", "child"), pid: child.pid as number };
}

test.runIf(LINUX)("a living process is not dead for a neighbour that can open no more files", () => {
  expect(askedWithoutFiles(holderFor("o", "living"))).toBe("with files: false, without: false");
});

test.runIf(LINUX)("an ended process is dead even for that neighbour", async () => {
  const holder = await endedChild();
  expect(isProvablyDead(holder)).toBe(true);
  expect(askedWithoutFiles(holder)).toBe("with files: true, without: true");
});

test.runIf(LINUX)("a process whose pid was reused is dead", () => {
  expect(isProvablyDead({ ...holderFor("o", "before"), started: "1" })).toBe(true);
});

test.runIf(LINUX)("a process that may not be signalled is not dead", () => {
  vi.spyOn(process, "kill").mockImplementation(() => {
    throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
  });
  expect(isProvablyDead(holderFor("o", "of another user"))).toBe(false);
});

test.runIf(LINUX)(
  "one that does not say what its start time counts from is not dead while its number is in use",
  () => {
    const { timeNamespace: _, ...holder } = holderFor("o", "before");
    expect(isProvablyDead({ ...holder, started: "1" })).toBe(false);
    expect(isProvablyDead({ ...holder, started: "1", timeNamespace: null })).toBe(false);
  },
);

describe.skipIf(!canLeaveTime)(
  needs("for one in another time namespace", "a time namespace", canLeaveTime),
  () => {
    test("a living process is not dead, although its start time differs", () => {
      expect(askedWithoutFiles(holderFor("o", "living"), IN_OTHER_TIME)).toBe(
        "with files: false, without: false",
      );
    });

    test("an ended process is dead", async () => {
      expect(askedWithoutFiles(await endedChild(), IN_OTHER_TIME)).toBe("with files: true, without: true");
    });
  },
);
