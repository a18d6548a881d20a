/**
 * One durable step against a step of DBOS, in one run, on one server: a function that returns about 4 KB,
 * run once, ever. Ours is a call of the ledger: the intent is durable before the function starts, the
 * result after it. Two commits. A DBOS step makes only the result durable: one commit. A step that
 * stands alone is a workflow of its own, with two more.
 *
 * Measured with one session (one workflow) and with sixteen at once, by turns, with as many connections
 * each. Each side has a process of its own, as users have, so that neither pays for the other's garbage. A
 * third process is the floor for everyone who wants an intent on disk before the effect: two commits of one
 * bare row each.
 *
 *     npm run bench -- bench/peers/dbos.ts [--steps 200] [--rounds 5] [--json]
 *
 * With `HOLDFAST_PEERS=<folder>` the peer is installed there once and used again.
 */

import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import pg from "pg";
import { type Holdfast, open, openPostgres, type Session, tool } from "../../src/index.ts";
import { PostgresServer } from "../../test/stores/postgres/server.ts";
import { anything } from "../schema.ts";
import { Scratch } from "../scratch.ts";
import { median } from "../statistics.ts";
import { prose, random } from "../turns.ts";

const PEER = "@dbos-inc/dbos-sdk";
const VERSION = "5.3.0";
const BARS: Readonly<Record<number, number>> = { 1: 2, 16: 3 };
const RESULT_BYTES = 4_096;
const CONNECTIONS = 20;
/** Steps of each kind before the first measured one: V8 compiles, and the server fills its caches. */
const WARM_STEPS = 2_000;

/** The part of the peer's API that is used here. */
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

/** Runs this many steps in each of this many sessions at once. */
type Steps = (sessions: number, steps: number) => Promise<void>;

type Way = "a call" | "a step" | "a step alone" | "two bare commits";

interface Side {
  readonly ways: Readonly<Partial<Record<Way, Steps>>>;
  stop(): Promise<void>;
}

/** An order to the process of one side. It answers with the milliseconds that the order took. */
interface Order {
  readonly way: Way;
  readonly sessions: number;
  readonly steps: number;
}

const result = prose(random(1), RESULT_BYTES);

async function ours(url: string): Promise<Side> {
  const store = await openPostgres({ url, maxConnections: CONNECTIONS });
  const holdfast = await open(undefined, { store });
  return { ways: { "a call": calls(holdfast) }, stop: () => holdfast.close() };
}

function calls(holdfast: Holdfast): Steps {
  const fetched = tool({
    name: "fetch",
    description: "Returns about 4 KB",
    input: anything,
    effect: "mutate",
    execute: () => result,
  });
  const sessions: Session[] = [];
  let made = 0;
  return async (count, steps) => {
    while (sessions.length < count) sessions.push(await holdfast.session(`session-${sessions.length}`));
    await Promise.all(
      sessions.slice(0, count).map(async (session) => {
        for (let step = 0; step < steps; step++) {
          made += 1;
          const call = { id: `call-${made}`, tool: fetched, args: { page: made } };
          const { status } = await session.call(call);
          if (status !== "completed") throw new Error(`a step of ours is ${status}`);
        }
      }),
    );
  };
}

async function theirs(url: string, folder: string): Promise<Side> {
  const require = createRequire(join(folder, "package.json"));
  const module = (await import(pathToFileURL(require.resolve(PEER)).href)) as { DBOS: Dbos };
  const { DBOS } = module;
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: url.replace(/postgres$/, "dbos_bench"),
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
  const inOneWorkflow: Steps = async (count, steps) => {
    await Promise.all(Array.from({ length: count }, () => workflow(steps)));
  };
  const aWorkflowEach: Steps = async (count, steps) => {
    await Promise.all(
      Array.from({ length: count }, async () => {
        for (let step = 0; step < steps; step++) await workflow(1);
      }),
    );
  };
  return {
    ways: { "a step": inOneWorkflow, "a step alone": aWorkflowEach },
    stop: () => DBOS.shutdown(),
  };
}

async function floor(url: string): Promise<Side> {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  const table = (name: string) => `CREATE TABLE floor.${name} (id integer PRIMARY KEY, value text NOT NULL)`;
  await pool.query(`CREATE SCHEMA floor; ${table("intents")}; ${table("outcomes")}`);
  const insert = (client: pg.PoolClient, name: string, id: number, value: string) =>
    client.query({ name, text: `INSERT INTO floor.${name} VALUES ($1, $2)`, values: [id, value] });
  let made = 0;
  const twoBareCommits: Steps = async (count, steps) => {
    await Promise.all(
      Array.from({ length: count }, async () => {
        const client = await pool.connect();
        for (let step = 0; step < steps; step++) {
          const id = made++;
          await insert(client, "intents", id, JSON.stringify({ page: id }));
          await insert(client, "outcomes", id, JSON.stringify(result));
        }
        client.release();
      }),
    );
  };
  return { ways: { "two bare commits": twoBareCommits }, stop: () => pool.end() };
}

const SIDES: Readonly<Record<string, (url: string, folder: string) => Promise<Side>>> = {
  ours,
  theirs,
  floor,
};

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
  readonly floorPerSecond: number;
  readonly ratio: number;
  readonly bar: number | null;
}

/** The process of one side: carries out orders until the channel closes. */
async function beSide(name: string, url: string, folder: string): Promise<void> {
  const make = SIDES[name];
  if (!make) throw new Error(`there is no side ${name}`);
  const { ways, stop } = await make(url, folder);
  process.on("message", async ({ way, sessions, steps }: Order) => {
    const begun = performance.now();
    await ways[way]?.(sessions, steps);
    process.send?.(performance.now() - begun);
  });
  process.once("disconnect", async () => {
    await stop();
    // The peer leaves timers behind.
    process.exit(0);
  });
  process.send?.("ready");
}

async function startSide(name: string, url: string, folder: string): Promise<ChildProcess> {
  const child = fork(fileURLToPath(import.meta.url), [name, url, folder]);
  await answerOf(child);
  return child;
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  const answered = new AbortController();
  const { signal } = answered;
  const ended = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`the process of one side ended with ${code}`);
  });
  ended.catch(() => undefined);
  try {
    const [answer] = await Promise.race([once(child, "message", { signal }), ended]);
    return answer;
  } finally {
    answered.abort();
  }
}

async function endSide(child: ChildProcess): Promise<void> {
  child.disconnect();
  await once(child, "exit");
}

async function perSecond(side: ChildProcess, order: Order): Promise<number> {
  side.send(order);
  return (1_000 * order.sessions * order.steps) / ((await answerOf(side)) as number);
}

interface Running {
  readonly mine: ChildProcess;
  readonly peer: ChildProcess;
  readonly bare: ChildProcess;
}

/** By turns, so that other load on the machine affects all sides. */
async function compare(
  { mine, peer, bare }: Running,
  { way, sessions, steps }: Order,
  rounds: number,
): Promise<Compared> {
  const found = { ours: [] as number[], theirs: [] as number[], floor: [] as number[] };
  // The first round absorbs the after-effects of the other comparison.
  for (let round = 0; round <= rounds; round++) {
    const own = await perSecond(mine, { way: "a call", sessions, steps });
    const other = await perSecond(peer, { way, sessions, steps });
    const least = await perSecond(bare, { way: "two bare commits", sessions, steps });
    if (round === 0) continue;
    found.ours.push(own);
    found.theirs.push(other);
    found.floor.push(least);
  }
  const [oursPerSecond, theirsPerSecond] = [median(found.ours), median(found.theirs)];
  return {
    what: way,
    sessions,
    oursPerSecond,
    theirsPerSecond,
    floorPerSecond: median(found.floor),
    ratio: oursPerSecond / theirsPerSecond,
    bar: way === "a step" ? (BARS[sessions] ?? null) : null,
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      steps: { type: "string", default: "200" },
      rounds: { type: "string", default: "5" },
      json: { type: "boolean" },
    },
  });
  const rounds = Number(values.rounds);
  const scratch = new Scratch();
  const server = await PostgresServer.start();
  try {
    const folder = peerFolder(scratch);
    const start = (name: string) => startSide(name, server.tcpUrl(), folder);
    const running = { mine: await start("ours"), peer: await start("theirs"), bare: await start("floor") };
    const { mine, peer, bare } = running;
    for (const sessions of [1, 16]) {
      const steps = WARM_STEPS / sessions;
      await perSecond(mine, { way: "a call", sessions, steps });
      for (const way of ["a step", "a step alone"] as const) await perSecond(peer, { way, sessions, steps });
      await perSecond(bare, { way: "two bare commits", sessions, steps });
    }
    const found: Compared[] = [];
    for (const sessions of [1, 16]) {
      const steps = Math.max(1, Math.round(Number(values.steps) / Math.sqrt(sessions)));
      found.push(await compare(running, { way: "a step", sessions, steps }, rounds));
      const fewer = Math.ceil(steps / 2);
      found.push(await compare(running, { way: "a step alone", sessions, steps: fewer }, rounds));
    }
    await Promise.all([mine, peer, bare].map(endSide));
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
  for (const { what, sessions, oursPerSecond, theirsPerSecond, floorPerSecond, ratio, bar } of found) {
    const judged = bar === null ? "" : ` (bar ${bar} ×${ratio >= bar ? "" : ", MISSED"})`;
    const figures = `ours ${oursPerSecond.toFixed(0)} a second, DBOS ${theirsPerSecond.toFixed(0)}`;
    const floorRatio = (floorPerSecond / theirsPerSecond).toFixed(2);
    const floor = `two bare commits ${floorPerSecond.toFixed(0)}, ${floorRatio} ×`;
    console.log(`${what}, ${sessions} at once: ${figures}, ${ratio.toFixed(2)} ×${judged}; ${floor}`);
  }
}

const [side, url, folder] = process.argv.slice(2);
if (process.send && side && url && folder) await beSide(side, url, folder);
else await main();
