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

/** One for each of those who run at once: it counts what it was asked. */
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

async function runAgent(server: WireServer, jobs: readonly Job[], failpoint?: string): Promise<Ended> {
  const program = programFile(new URL("./programs/agent.ts", import.meta.url));
  const args = [program, server.url, JSON.stringify(jobs)];
  const env = { ...process.env, ...(failpoint !== undefined && { HOLDFAST_FAILPOINT: failpoint }) };
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"], env });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  return { code, signal, lines: output.trim().split("\n") };
}

function job(name: string, rest: Pick<Job, "how" | "api" | "stream">): Job {
  const folder = join(scratch, name);
  mkdirSync(folder, { recursive: true });
  return { ...rest, store: join(folder, "store.db"), world: join(folder, "world.log") };
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

/** Each kill over one of the wires; all of them over all with HOLDFAST_FULL=1. */
const CASES = KILLS.flatMap((kill, index) =>
  WIRES.filter((_wire, other) => process.env["HOLDFAST_FULL"] || other === index).map((wire) => ({
    ...kill,
    ...wire,
  })),
);

test.concurrent("killed at any of these points, and resumed: one charge, and no response is sampled twice", async () => {
  const killed = CASES.map(async ({ at, api, stream, charged, asked }) => {
    const made = job(`${at}-${api}-${stream}`, { how: "durable", api, stream });
    const mine = api === "responses" && stream ? { ...made, id: "pay" } : made;
    const server = await wireServer();
    expect(await runAgent(server, [mine], at)).toMatchObject({ signal: "SIGKILL" });
    expect([charges(mine), server.asked.length], `killed at ${at}`).toEqual([charged, asked]);
    expect(server.asked.at(-1)).toMatchObject({ stream });
    return mine;
  });
  const jobs = await Promise.all(killed);
  const server = await wireServer();
  const resumed = await runAgent(server, jobs);
  expect(resumed.code).toBe(0);
  // The user's words, the call, its result, the answer: each once.
  for (const line of resumed.lines) expect(line).toMatch(/^4 items: Paid, in the words /);
  expect(jobs.map(charges)).toEqual(jobs.map(() => 1));
  const left = CASES.reduce((sum, { asked }) => sum + 2 - asked, 0);
  expect(server.asked).toHaveLength(left);
  // And once more, now that all is done: what has an id comes from the record.
  const named = jobs.filter(({ id }) => id !== undefined);
  expect(named.length).toBeGreaterThan(0);
  const again = await runAgent(server, named);
  expect(again.lines).toEqual(resumed.lines.filter((_line, index) => jobs[index]?.id !== undefined));
  expect(server.asked).toHaveLength(left);
}, 240_000);

test.concurrent("without us the same program charges twice", async () => {
  const bare = job("bare", { how: "bare", api: "responses", stream: false });
  const server = await wireServer();
  expect(await runAgent(server, [{ ...bare, kill: "inside the tool" }])).toMatchObject({ signal: "SIGKILL" });
  expect(await runAgent(server, [bare])).toMatchObject({ code: 0 });
  expect(charges(bare)).toBe(2);
}, 120_000);
