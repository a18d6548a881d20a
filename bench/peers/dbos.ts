/**
 * One durable step against DBOS's, in one run, on one server: a function that returns about 4 KB, run once, ever. Ours is
 * a call of the ledger, which makes the intent durable before the function starts and the result after it: two commits. A
 * DBOS step makes the result durable: one commit; a step that stands alone is a workflow of its own, with two more.
 * Measured with one session (one workflow) and with sixteen at once, by turns, with as many connections each.
 *
 *     npm run bench -- bench/peers/dbos.ts [--steps 200] [--rounds 5] [--json]
 *
 * With `HOLDFAST_PEERS=<folder>` the peer is installed there once and used again.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { type Holdfast, open, openPostgres, type Session, tool } from "../../src/index.ts";
import { PostgresServer } from "../../test/postgres/server.ts";
import { anything } from "../schema.ts";
import { Scratch } from "../scratch.ts";
import { median } from "../statistics.ts";
import { prose, random } from "../turns.ts";

const PEER = "@dbos-inc/dbos-sdk";
const VERSION = "5.3.0";
const BARS: Readonly<Record<number, number>> = { 1: 2, 16: 3 };
const RESULT_BYTES = 4_096;
const CONNECTIONS = 20;
/** So many steps of each kind on either side before any is measured: V8 compiles for that long, and the server fills its caches. */
const WARM_STEPS = 2_000;

/** As much of the peer as is used here. */
interface Dbos {
  setConfig(config: Readonly<Record<string, unknown>>): void;
  registerWorkflow<Args extends unknown[], Result>(
    workflow: (...args: Args) => Promise<Result>,
    options: { name: string },
  ): (...args: Args) => Promise<Result>;
  runStep<Result>(step: () => Promise<Result>, options: { name: string }): Promise<Result>;
  launch(): Promise<void>;
  shutdown(): Promise<void>;
}

/** Runs so many steps in each of so many sessions at once. */
type Steps = (sessions: number, steps: number) => Promise<void>;

const result = prose(random(1), RESULT_BYTES);

async function ours(holdfast: Holdfast): Promise<Steps> {
  const fetched = tool({
    name: "fetch",
    description: "Returns about 4 KB",
    input: anything,
    effect: "mutate",
    execute: () => result,
  });
  const sessions: Session[] = [];
  let calls = 0;
  return async (count, steps) => {
    while (sessions.length < count) sessions.push(await holdfast.session(`session-${sessions.length}`));
    await Promise.all(
      sessions.slice(0, count).map(async (session) => {
        for (let step = 0; step < steps; step++) {
          calls += 1;
          const call = { id: `call-${calls}`, tool: fetched, args: { page: calls } };
          const { status } = await session.call(call);
          if (status !== "completed") throw new Error(`a step of ours is ${status}`);
        }
      }),
    );
  };
}

interface Peer {
  readonly inOneWorkflow: Steps;
  readonly aWorkflowEach: Steps;
  stop(): Promise<void>;
}

async function theirs(folder: string, server: PostgresServer): Promise<Peer> {
  const require = createRequire(join(folder, "package.json"));
  const module = (await import(pathToFileURL(require.resolve(PEER)).href)) as { DBOS: Dbos };
  const { DBOS } = module;
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: server.tcpUrl().replace(/postgres$/, "dbos_bench"),
    systemDatabasePoolSize: CONNECTIONS,
    runAdminServer: false,
    logLevel: "error",
  });
  const workflow = DBOS.registerWorkflow(
    async (steps: number) => {
      let bytes = 0;
      for (let step = 0; step < steps; step++) {
        bytes += (await DBOS.runStep(async () => result, { name: "fetch" })).length;
      }
      return bytes;
    },
    { name: "steps" },
  );
  await DBOS.launch();
  return {
    inOneWorkflow: async (count, steps) => {
      await Promise.all(Array.from({ length: count }, () => workflow(steps)));
    },
    aWorkflowEach: async (count, steps) => {
      await Promise.all(
        Array.from({ length: count }, async () => {
          for (let step = 0; step < steps; step++) await workflow(1);
        }),
      );
    },
    stop: () => DBOS.shutdown(),
  };
}

function peerFolder(scratch: Scratch): string {
  const folder = resolve(process.env["HOLDFAST_PEERS"] ?? join(scratch.path, "peers"));
  if (existsSync(join(folder, "node_modules", PEER, "package.json"))) return folder;
  mkdirSync(folder, { recursive: true });
  if (!existsSync(join(folder, "package.json"))) {
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
  }
  console.error(`installing ${PEER}@${VERSION} into ${folder}`);
  const wanted = ["install", "--no-audit", "--no-fund", "--prefix", folder, `${PEER}@${VERSION}`];
  execFileSync("npm", wanted, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  return folder;
}

interface Compared {
  readonly what: string;
  readonly sessions: number;
  readonly oursPerSecond: number;
  readonly theirsPerSecond: number;
  readonly ratio: number;
  readonly bar: number | null;
}

async function perSecond(run: Steps, sessions: number, steps: number): Promise<number> {
  const begun = performance.now();
  await run(sessions, steps);
  return (1_000 * sessions * steps) / (performance.now() - begun);
}

/** By turns, so that whatever else the machine does falls on both. */
async function compare(
  what: string,
  bar: number | null,
  mine: Steps,
  peer: Steps,
  sessions: number,
  steps: number,
  rounds: number,
): Promise<Compared> {
  const found = { ours: [] as number[], theirs: [] as number[] };
  // The first round is for what the other comparison has left behind.
  for (let round = 0; round <= rounds; round++) {
    const pair = [await perSecond(mine, sessions, steps), await perSecond(peer, sessions, steps)] as const;
    if (round === 0) continue;
    found.ours.push(pair[0]);
    found.theirs.push(pair[1]);
  }
  const [oursPerSecond, theirsPerSecond] = [median(found.ours), median(found.theirs)];
  const ratio = oursPerSecond / theirsPerSecond;
  return { what, sessions, oursPerSecond, theirsPerSecond, ratio, bar };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      steps: { type: "string", default: "200" },
      rounds: { type: "string", default: "5" },
      json: { type: "boolean" },
    },
  });
  const scratch = new Scratch();
  const server = await PostgresServer.start();
  try {
    const store = await openPostgres({ url: server.tcpUrl(), maxConnections: CONNECTIONS });
    const holdfast = await open(undefined, { store });
    const peer = await theirs(peerFolder(scratch), server);
    const mine = await ours(holdfast);
    const found: Compared[] = [];
    for (const run of [mine, peer.inOneWorkflow, peer.aWorkflowEach]) {
      for (const sessions of [1, 16]) await run(sessions, WARM_STEPS / sessions);
    }
    for (const sessions of [1, 16]) {
      const steps = Math.max(1, Math.round(Number(values.steps) / Math.sqrt(sessions)));
      const rounds = Number(values.rounds);
      const bar = BARS[sessions] ?? null;
      found.push(await compare("a step", bar, mine, peer.inOneWorkflow, sessions, steps, rounds));
      found.push(
        await compare("a step alone", null, mine, peer.aWorkflowEach, sessions, Math.ceil(steps / 2), rounds),
      );
    }
    await holdfast.close();
    await peer.stop();
    report(found, values.json === true);
  } finally {
    await server.stop();
    await scratch.remove();
  }
}

function report(found: readonly Compared[], asJson: boolean): void {
  if (asJson) {
    console.log(JSON.stringify(found));
    return;
  }
  for (const { what, sessions, oursPerSecond, theirsPerSecond, ratio, bar } of found) {
    const judged = bar === null ? "" : ` (bar ${bar} ×${ratio >= bar ? "" : ", MISSED"})`;
    const figures = `ours ${oursPerSecond.toFixed(0)} a second, DBOS ${theirsPerSecond.toFixed(0)}`;
    console.log(`${what}, ${sessions} at once: ${figures}, ${ratio.toFixed(2)} ×${judged}`);
  }
}

await main();
// The peer leaves timers behind.
process.exit(0);
