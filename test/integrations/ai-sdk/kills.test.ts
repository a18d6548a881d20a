// An AI SDK program in a process of its own, killed with SIGKILL at the worst places and started again. What happened in
// the world is read from the world's own log.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { programFile } from "../../program.ts";
import { quickFolder } from "../../quick-folder.ts";

// Each start of Node is a second, and ten on a busy machine.
vi.setConfig({ testTimeout: 300_000 });

const PROGRAM = programFile(new URL("programs/agent.ts", import.meta.url));
const folders: string[] = [];
afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

interface Kill {
  /** A failpoint of ours, passed for the n-th time in that process. */
  readonly at?: string;
  /** A place in the program's own tools. */
  readonly tool?: "inside" | "between";
}

interface Ended {
  readonly status: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

function place(how: "durable" | "bare", call: "generate" | "stream") {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-ai-sdk-"));
  folders.push(folder);
  const world = join(folder, "world.log");
  const start = async ({ at, tool }: Kill = {}): Promise<Ended> => {
    const args = [PROGRAM, join(folder, "store.db"), world, how, call, ...(tool ? [tool] : [])];
    const env = { ...process.env, ...(at !== undefined && { HOLDFAST_FAILPOINT: at }) };
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => {
        said[name] += text;
      });
    }
    const [status, signal] = (await once(child, "close")) as [number | null, string | null];
    return { status, signal, ...said };
  };
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

// Each in a place of its own, so all at once.
describe.concurrent("an AI SDK program that is killed", () => {
  test.each([
    { call: "generate", kills: GENERATE_KILLS },
    { call: "stream", kills: STREAM_KILLS },
  ] as const)("$call: one charge and one mail, wherever the program is killed", async ({ call, kills }) => {
    const { start, seen } = place("durable", call);
    for (const kill of kills) {
      const { signal } = await start(kill);
      expect({ kill, signal }).toEqual({ kill, signal: "SIGKILL" });
    }
    const { stdout, stderr, status } = await start();
    expect({ status, stderr, stdout }).toEqual({ status: 0, stderr: "", stdout: "paid 3\n" });
    expect(seen()).toEqual(["charge 4711", "mail ann"]);
  });

  test("and without it the same kill charges twice, so this test can fail", async () => {
    const { start, seen } = place("bare", "generate");
    expect((await start({ tool: "inside" })).signal).toBe("SIGKILL");
    expect((await start()).stdout).toBe("paid 3\n");
    expect(seen()).toEqual(["charge 4711", "charge 4711", "mail ann"]);
  });
});
