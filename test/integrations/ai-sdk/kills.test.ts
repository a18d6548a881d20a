// An AI SDK program in a process of its own, killed with SIGKILL at the worst places and started again. What happened in
// the world is read from the world's own log.

import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { programFile } from "../../program.ts";

// Each start of Node is a second, and ten on a busy machine.
vi.setConfig({ testTimeout: 300_000 });

const PROGRAM = programFile(new URL("programs/agent.ts", import.meta.url));
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

interface Kill {
  /** A failpoint of ours, passed for the n-th time in that process. */
  readonly at?: string;
  /** A place in the program's own tools. */
  readonly tool?: "inside" | "between";
}

function place(how: "durable" | "bare", call: "generate" | "stream") {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-ai-sdk-"));
  folders.push(folder);
  const world = join(folder, "world.log");
  const start = ({ at, tool }: Kill = {}): SpawnSyncReturns<string> =>
    spawnSync(
      process.execPath,
      [PROGRAM, join(folder, "store.db"), world, how, call, ...(tool ? [tool] : [])],
      { encoding: "utf8", env: { ...process.env, ...(at !== undefined && { HOLDFAST_FAILPOINT: at }) } },
    );
  const seen = (): string[] => {
    const text = existsSync(world) ? readFileSync(world, "utf8") : "";
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => line.split(" ").slice(0, 2).join(" "));
  };
  return { start, seen };
}

/** In the order in which a run meets them, each in a new process that resumes what the killed one left. */
const KILLS: readonly (Kill & { readonly always: boolean })[] = [
  { at: "model.answered:1", always: false }, // The model has answered, nobody knows.
  { at: "message.appended:1", always: true }, // The answer is recorded, its tool has not begun.
  { at: "results.appended:1", always: false }, // The step is over, the next question is not asked.
  { at: "message.appended:1", always: false }, // The second answer is recorded: two calls side by side.
  { at: "wave.issued:1", always: false }, // The intent of the charge is durable, the charge is not made.
  { tool: "inside", always: true }, // The charge is made, its outcome is not recorded.
  { tool: "between", always: true }, // The charge is settled, the mail is issued.
  { at: "model.answered:1", always: false }, // Both are done, the last answer is not recorded.
];

/** Each costs a start of Node. The full list is run with HOLDFAST_FULL=1. */
const FULL = process.env["HOLDFAST_FULL"] === "1";
const GENERATE_KILLS = KILLS.filter(({ always }) => FULL || always);
const STREAM_KILLS = KILLS.filter(({ tool }) => FULL || tool === "inside");

test.each([
  { call: "generate", kills: GENERATE_KILLS },
  { call: "stream", kills: STREAM_KILLS },
] as const)("$call: one charge and one mail, wherever the program is killed", ({ call, kills }) => {
  const { start, seen } = place("durable", call);
  for (const kill of kills) expect({ kill, signal: start(kill).signal }).toEqual({ kill, signal: "SIGKILL" });
  const { stdout, stderr, status } = start();
  expect({ status, stderr, stdout }).toEqual({ status: 0, stderr: "", stdout: "paid 3\n" });
  expect(seen()).toEqual(["charge 4711", "mail ann"]);
});

test("and without it the same kill charges twice, so this test can fail", () => {
  const { start, seen } = place("bare", "generate");
  expect(start({ tool: "inside" }).signal).toBe("SIGKILL");
  expect(start().stdout).toBe("paid 3\n");
  expect(seen()).toEqual(["charge 4711", "charge 4711", "mail ann"]);
});
