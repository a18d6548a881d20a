// A program on OpenAI Agents' run(), killed with SIGKILL and started again: the world is charged once.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { programFile } from "../../program.ts";
import { quickFolder } from "../../quick-folder.ts";
import type { Job } from "./programs/agent.ts";
import { startWireServer, type WireServer } from "./wire-server.ts";

const scratch = mkdtempSync(join(quickFolder(), "holdfast-openai-"));
const servers: WireServer[] = [];
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
  rmSync(scratch, { recursive: true, force: true });
});

/** One server per parallel run, because each counts its questions. */
async function wireServer(): Promise<WireServer> {
  const server = await startWireServer();
  servers.push(server);
  return server;
}

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly lines: string[];
}

async function runAgent(jobs: readonly Job[], failpoint?: string): Promise<Ended> {
  const program = programFile(new URL("./programs/agent.ts", import.meta.url));
  const args = [program, JSON.stringify(jobs)];
  const env = { ...process.env, ...(failpoint !== undefined && { HOLDFAST_FAILPOINT: failpoint }) };
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"], env });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  return { code, signal, lines: output.trim().split("\n") };
}

function job(name: string, { url }: WireServer, rest: Pick<Job, "how" | "api" | "stream">): Job {
  const folder = join(scratch, name);
  mkdirSync(folder, { recursive: true });
  return { ...rest, url, store: join(folder, "store.db"), world: join(folder, "world.log") };
}

function charges({ world }: Job): number {
  try {
    return readFileSync(world, "utf8").trim().split("\n").length;
  } catch {
    return 0;
  }
}

const KILLS = [
  { at: "message.appended:2", what: "after the response was recorded", charged: 0, asked: 1 },
  { at: "call.executed", what: "inside the tool, after the effect", charged: 1, asked: 1 },
  { at: "results.appended", what: "after the tool's result", charged: 1, asked: 1 },
  { at: "message.appended:3", what: "after the final response was recorded", charged: 1, asked: 2 },
] as const;
const WIRES = [
  { api: "responses", stream: false },
  { api: "responses", stream: true },
  { api: "chat", stream: false },
  { api: "chat", stream: true },
] as const;

/** Each kill uses one wire format. HOLDFAST_FULL=1 tries all kills on all formats. */
const CASES = KILLS.flatMap((kill, index) =>
  WIRES.filter((_wire, other) => process.env["HOLDFAST_FULL"] || other === index).map((wire) => ({
    ...kill,
    ...wire,
  })),
);

/** The killed job, repeated with another server's model. */
async function killedAt({ at, api, stream, charged, asked }: (typeof CASES)[number]): Promise<Job> {
  const server = await wireServer();
  const made = job(`${at}-${api}-${stream}`, server, { how: "durable", api, stream });
  const mine = api === "responses" && stream ? { ...made, id: "pay" } : made;
  expect(await runAgent([mine], at)).toMatchObject({ signal: "SIGKILL" });
  expect([charges(mine), server.asked.length], `killed at ${at}`).toEqual([charged, asked]);
  expect(server.asked.at(-1)).toMatchObject({ stream });
  return mine;
}

async function killedWithoutUs(): Promise<Job> {
  const bare = job("bare", await wireServer(), { how: "bare", api: "responses", stream: false });
  expect(await runAgent([{ ...bare, kill: "inside the tool" }])).toMatchObject({ signal: "SIGKILL" });
  expect(charges(bare)).toBe(1);
  return bare;
}

// One process repeats all killed jobs, because loading the framework takes longer than the jobs.
test("a run killed at any point and resumed charges once; without durable() it charges twice", async () => {
  const [bare, ...jobs] = await Promise.all([killedWithoutUs(), ...CASES.map(killedAt)]);
  const [server, later] = [await wireServer(), await wireServer()];
  const left = jobs.map((each) => ({ ...each, url: server.url }));
  // Once more, now that everything is done: jobs with an id come from the record.
  const named = left.filter(({ id }) => id !== undefined).map((each) => ({ ...each, url: later.url }));
  expect(named.length).toBeGreaterThan(0);
  const { code, lines } = await runAgent([...left, ...named, bare]);
  expect(code).toBe(0);
  const resumed = lines.slice(0, left.length);
  // The user's text, the call, its result, the answer: each once.
  for (const line of resumed) expect(line).toMatch(/^4 items: Paid, in the words /);
  expect(jobs.map(charges)).toEqual(jobs.map(() => 1));
  expect(server.asked).toHaveLength(CASES.reduce((sum, { asked }) => sum + 2 - asked, 0));
  expect(lines.slice(left.length, -1)).toEqual(
    resumed.filter((_line, index) => left[index]?.id !== undefined),
  );
  expect(later.asked).toEqual([]);
  expect(charges(bare)).toBe(2);
}, 240_000);
