// An AI SDK program as a process, killed with SIGKILL at the worst points and started again. Its effects are
// read from the world's own log.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { programFile } from "../../program.ts";
import { quickFolder } from "../../quick-folder.ts";
import { IS_SDK_7 } from "./paying-model.ts";
import type { Job } from "./programs/agent.ts";

// Each start of Node takes a second, and ten on a busy machine.
vi.setConfig({ testTimeout: 300_000 });

const PROGRAM = programFile(new URL("programs/agent.ts", import.meta.url), IS_SDK_7 ? "ai-sdk-7" : "agents");
const folders: string[] = [];
afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

interface Kill {
  /** A failpoint of the library, passed for the n-th time in that process. */
  readonly at?: string;
  /** A point in the program's own tools. */
  readonly tool?: "inside" | "between";
}

interface Ended {
  readonly status: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

function makeJob(how: Job["how"], call: Job["call"]): Job {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-ai-sdk-"));
  folders.push(folder);
  return { how, call, store: join(folder, "store.db"), world: join(folder, "world.log") };
}

async function start(jobs: readonly Job[], at?: string): Promise<Ended> {
  const env = { ...process.env, ...(at !== undefined && { HOLDFAST_FAILPOINT: at }) };
  const args = [PROGRAM, JSON.stringify(jobs)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      said[name] += text;
    });
  }
  const [status, signal] = (await once(child, "close")) as [number | null, string | null];
  return { status, signal, ...said };
}

async function kill(job: Job, { at, tool }: Kill): Promise<void> {
  const { signal } = await start([{ ...job, ...(tool && { kill: tool }) }], at);
  expect({ at, tool, signal }).toEqual({ at, tool, signal: "SIGKILL" });
}

function seen({ world }: Job): string[] {
  const text = existsSync(world) ? readFileSync(world, "utf8") : "";
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split(" ").slice(0, 2).join(" "));
}

/** In the order of a run, each in a new process that resumes the killed one. `in`: the run that is killed. */
const KILLS: readonly (Kill & { readonly in?: Job["call"] })[] = [
  { at: "model.answered:1" }, // The model has answered, and nothing is recorded.
  { at: "message.appended:1", in: "generate" }, // The answer is recorded, its tool has not started.
  { at: "results.appended:1" }, // The step is over, the next question is not asked.
  { at: "message.appended:1" }, // The second answer is recorded: two parallel calls.
  { at: "wave.issued:1" }, // The intent of the charge is durable, the charge is not made.
  { tool: "inside", in: "stream" }, // The charge is made, its outcome is not recorded.
  { tool: "between", in: "generate" }, // The charge is settled, the mail is issued.
  { at: "model.answered:1" }, // Both are done, the last answer is not recorded.
];

/** Each costs a start of Node. HOLDFAST_FULL=1 tries all of them in both runs. */
const FULL = process.env["HOLDFAST_FULL"] === "1";

async function killedJob(call: Job["call"]): Promise<Job> {
  const job = makeJob("durable", call);
  for (const each of KILLS) if (FULL || each.in === call) await kill(job, each);
  return job;
}

async function killedBareJob(): Promise<Job> {
  const job = makeJob("bare", "generate");
  await kill(job, { tool: "inside" });
  return job;
}

// One process finishes the runs of all killed ones, each in its own folder, because loading the framework
// takes longer than the work.
test("a kill at any point leaves one charge and one mail; without durable() it charges twice", async () => {
  const killed = [killedJob("generate"), killedJob("stream"), killedBareJob()];
  const [generating, streaming, bare] = (await Promise.all(killed)) as [Job, Job, Job];
  const { stdout, stderr, status } = await start([generating, streaming, bare]);
  expect({ status, stderr, stdout }).toEqual({ status: 0, stderr: "", stdout: "paid 3\n".repeat(3) });
  expect(seen(generating)).toEqual(["charge 4711", "mail ann"]);
  expect(seen(streaming)).toEqual(["charge 4711", "mail ann"]);
  expect(seen(bare)).toEqual(["charge 4711", "charge 4711", "mail ann"]);
});
