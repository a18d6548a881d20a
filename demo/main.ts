/**
 * `npm run demo`: kills an agent at the worst moments and runs it again until its work is done. Then it
 * compares the world's own log with the ledger. Exit code 0 only if nothing was lost and nothing was done
 * twice.
 *
 *     --keep   keeps the folder with the store, the world's log and the report
 *     --ui     shows it on a page while it happens, until you press Ctrl-C
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DemoPage, serveDemo } from "../src/cli/demo-page.ts";
import { type Holdfast, isHoldfastError, open, type RunResult, type SessionDetail } from "../src/index.ts";
import type { AgentMessage } from "./agent.ts";
import { audit, readWorld } from "./audit.ts";
import { KILLS, type Kill } from "./kills.ts";
import { endAll, liveOnce, World } from "./processes.ts";
import { buildPrograms } from "./programs.ts";
import { callsText, recoveryText, textOf } from "./recovery.ts";
import { Screen } from "./screen.ts";

const SESSION = "closing";
const MOST_RUNS = KILLS.length + 6;

const keep = process.argv.includes("--keep");
const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
// The record of its last writes goes with the demo's store.
process.env["XDG_STATE_HOME"] = folder;
const programs = join(folder, "programs");
const log = join(folder, "world.jsonl");
const screen = new Screen(process.stdout);
let leaving = false;

/** Ends all processes, and deletes all files unless `--keep` is set. */
async function leave(code: number): Promise<never> {
  leaving = true;
  await endAll();
  rmSync(keep ? programs : folder, { recursive: true, force: true, maxRetries: 5 });
  process.exit(code);
}

for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const) {
  process.once(signal, () => void leave(code));
}
// The reader of our output is gone, for example `head`.
process.stdout.on("error", () => void leave(1));

async function look(holdfast: Holdfast): Promise<SessionDetail | null> {
  try {
    return await holdfast.sessions.get(SESSION);
  } catch (error) {
    if (isHoldfastError(error, "STREAM_NOT_FOUND")) return null;
    throw error;
  }
}

/** Shows one life of the agent as it happens. Returns the agent's last message, if it got that far. */
async function show(world: World, before: SessionDetail | null, kill: Kill | null) {
  const told: AgentMessage[] = [];
  let result: RunResult | null = null;
  let recovered = before === null;
  const recover = (): void => {
    if (!recovered && before) screen.recovered(recoveryText(before, told));
    recovered = true;
  };
  const ended = await liveOnce(join(programs, "agent.mjs"), folder, world, kill, (each) => {
    told.push(each);
    if (each.type === "ended") result = each.result;
    if (each.type !== "progress") return;
    const { progress } = each;
    if (progress.type === "model.asked") recover();
    if (progress.type === "message") {
      screen.step(textOf(progress.message), callsText(progress.message));
    }
    if (progress.type === "call.repeated") {
      screen.replayed(`replayed: done before as ${progress.of}, not run again, and the model is told so`);
    }
  });
  if (leaving) throw new Error("interrupted");
  recover();
  if (ended.error !== null) screen.trouble(`the agent ended by itself: ${ended.error}`);
  if (ended.killed && kill) screen.killed(kill.when);
  await screen.pause();
  return { result: result as RunResult | null, fired: ended.killed };
}

/** Ada plays the person. She reads the desk's channel, which no tool can. */
async function askAda(holdfast: Holdfast): Promise<void> {
  const { calls } = await holdfast.calls.list();
  for (const call of calls) {
    const session = await holdfast.sessions.get(call.session);
    const key = session.calls.find((each) => each.callId === call.callId)?.vendorKey;
    const there = readWorld(log).effects.some((effect) => effect.key === key);
    const why = there ? "it is in the desk's channel" : "it is not in the desk's channel";
    await holdfast.calls.resolve(call, { outcome: there ? "landed" : "retry", by: "Ada", why });
    screen.person(
      `Ada looks and answers: ${there ? "landed" : "retry"}, ${why}. It is recorded with her name`,
    );
    await screen.pause();
  }
}

async function play(
  holdfast: Holdfast,
  world: World,
  page: DemoPage | null,
): Promise<{ runs: number; problems: string[] }> {
  const problems: string[] = [];
  const kills = [...KILLS];
  for (let runs = 1; runs <= MOST_RUNS; runs++) {
    const before = await look(holdfast);
    screen.run(runs);
    const kill = kills[0] ?? null;
    const { result, fired } = await show(world, before, kill);
    if (fired) kills.shift();
    await page?.rest();
    if (result?.status === "waiting") await askAda(holdfast);
    if (result?.status === "done") {
      if (kills.length > 0) problems.push(`the kill "${kills[0]?.when}" never came`);
      return { runs, problems };
    }
  }
  problems.push(`the agent was not done after ${MOST_RUNS} runs`);
  return { runs: MOST_RUNS, problems };
}

async function main(): Promise<number> {
  const startedAt = performance.now();
  screen.opening(KILLS.length);
  const holdfast = await open(join(folder, "store.db"));
  await buildPrograms(programs);
  const world = await World.start(join(programs, "world.mjs"), log);
  const page = process.argv.includes("--ui") ? await serveDemo(join(folder, "store.db")) : null;
  const { runs, problems } = await play(holdfast, world, page);
  const session = await holdfast.sessions.get(SESSION);
  const found = audit(session, log, folder);
  for (const each of await holdfast.check()) problems.push(`the store is damaged: ${JSON.stringify(each)}`);
  await holdfast.close();
  problems.push(...found.problems);
  const ok = problems.length === 0 && found.world === found.ledger && found.doubled + found.lost === 0;
  screen.result(found, ok);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const answers = `${found.answers} model answers${ok ? ", each kept word for word" : ""}`;
  screen.note(`${KILLS.length} kills · ${runs} runs · ${answers} · ${seconds} s`);
  for (const problem of problems) screen.problem(problem);
  const query = "select call_id, tool_name, status, completed_at from tool_calls";
  screen.next(
    keep
      ? [
          ["the agent's memory", join(folder, "store.db")],
          ["read it", `sqlite3 ${join(folder, "store.db")} "${query}"`],
          ["the world's log", log],
        ]
      : [
          ["look inside", "npm run demo -- --keep"],
          ["the killed program", "demo/agent.ts, demo/tools.ts, demo/kills.ts"],
          ["your own agent", "README.md, examples/quickstart.ts"],
        ],
  );
  await page?.untilStopped();
  return ok ? 0 : 1;
}

let code = 1;
try {
  code = await main();
} catch (error) {
  if (!leaving) console.error(error);
} finally {
  if (!leaving) await leave(code);
}
