/** Whether the process that holds a lease is dead: where that cannot be found out, it is not. */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, expect, test, vi } from "vitest";
import { holderFor, provablyDead } from "../../src/journal/index.ts";
import { programFile } from "../program.ts";

const LINUX = process.platform === "linux";
const ASKING = programFile(new URL("programs/is-dead.ts", import.meta.url));

afterEach(() => vi.restoreAllMocks());

/** What a process says that may open no more files, of which it opens as many as it may. */
function askedWithoutFiles(holder: object): string {
  const limited = `ulimit -n 64; exec "$0" "$1" "$2"`;
  const args = ["-c", limited, process.execPath, ASKING, JSON.stringify(holder)];
  return execFileSync("sh", args, { encoding: "utf8" }).trim();
}

test.runIf(LINUX)("a living process is not dead for one that can open no more files", () => {
  expect(askedWithoutFiles(holderFor("o", "living"))).toBe("with files: false, without: false");
});

test.runIf(LINUX)("one that has ended is dead also for that one", async () => {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
  await once(child, "spawn");
  const holder = { ...holderFor("o", "child"), pid: child.pid as number };
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(provablyDead(holder)).toBe(true);
  expect(askedWithoutFiles(holder)).toBe("with files: true, without: true");
});

test.runIf(LINUX)("one whose number somebody else has by now is dead", () => {
  expect(provablyDead({ ...holderFor("o", "before"), started: "1" })).toBe(true);
});

test.runIf(LINUX)("one that may not be asked is not dead", () => {
  vi.spyOn(process, "kill").mockImplementation(() => {
    throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
  });
  expect(provablyDead(holderFor("o", "of another user"))).toBe(false);
});
