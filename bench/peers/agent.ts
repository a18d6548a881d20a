/**
 * The same scripted agent on Holdfast and on its peers, in one run, by turns.
 *
 *     request   a chat server's: open the session, one prompt, one answer of 2 KB, close
 *     turn      an answer of 2 KB, one mutating tool with a result of 4 KB, the checkpoint
 *
 *     holdfast sqlite, holdfast postgres   `holdfast.run`; turns by `session.run`. The intent is durable
 *                                          before the tool starts
 *     dbos                                 a workflow; a step for the model, a step for the tool. No intent
 *     langgraph sqlite, langgraph postgres a checkpoint after the model and one after the tool
 *     raw sqlite, raw postgres             the floor: two synced commits of the same bytes, one row each
 *
 * Each side has a process of its own. Sides take turns, so that other load affects all of them.
 *
 *     npm run bench -- bench/peers/agent.ts [--rounds 5] [--turns 50] [--requests 50] [--json]
 *
 * With `HOLDFAST_PEERS=<folder>` the peers are installed there once and used again. `--only` names sides.
 */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { type BaseCheckpointSaver, uuid6 } from "@langchain/langgraph-checkpoint";
import pg from "pg";
import { type Holdfast, type Model, open, openPostgres, type Session, tool } from "../../src/index.ts";
import { PostgresServer } from "../../test/stores/postgres/server.ts";
import { openBare } from "../raw-database.ts";
import { anything } from "../schema.ts";
import { Scratch } from "../scratch.ts";
import { median } from "../statistics.ts";
import { prose, random } from "../turns.ts";
import { dbosIn, installPeers, openPeerSaver } from "./peer-folder.ts";

const CONNECTIONS = 20;
const ANSWER = prose(random(1), 2_048);
const RESULT = prose(random(2), 4_096);
/** Turns before `turn 1000` that are not measured. A peer that stores them again each time gets them at once. */
const EARLIER = 950;

interface Order {
  readonly what: "request" | "turn" | "seed";
  readonly sessions: number;
  readonly count: number;
  /** Which group of sessions: turns of one group follow each other. */
  readonly group: string;
}

interface Answer {
  readonly ms: number;
  readonly cpuMs: number;
}

/** Runs `count` of them in the session of this name. */
type Act = (session: string, count: number) => Promise<void>;
type Side = Partial<Record<Order["what"], Act>> & { stop(): Promise<unknown> | void };

// ---- Holdfast

async function ours(holdfast: Holdfast): Promise<Side> {
  let made = 0;
  const charge = tool({
    name: "charge",
    description: "Returns about 4 KB",
    input: anything,
    effect: "mutate",
    execute: () => RESULT,
  });
  const answers: Model = async () => ({ message: { text: ANSWER }, usage: { usd: 0.01 } });
  const calls: Model = async () => {
    made += 1;
    const call = { kind: "tool_call", id: `c${made}`, name: "charge", args: { made } } as const;
    return { message: { blocks: [{ kind: "text", text: ANSWER }, call] }, usage: { usd: 0.01 } };
  };
  const open = new Map<string, Session>();
  const turns: Act = async (id, count) => {
    const session = open.get(id) ?? (await holdfast.session(id));
    const prompt = open.has(id) ? {} : { prompt: "Go." };
    open.set(id, session);
    await session.run({ model: calls, tools: [charge], maxTurns: count, ...prompt });
  };
  return {
    turn: turns,
    seed: turns,
    request: async (id, count) => {
      for (let index = 0; index < count; index++) {
        made += 1;
        await holdfast.run(id, { model: answers, prompt: { id: `p${made}`, text: "Where is it?" } });
      }
    },
    stop: () => holdfast.close(),
  };
}

// ---- DBOS

async function dbos(url: string, folder: string): Promise<Side> {
  const { DBOS } = await dbosIn(folder);
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: url.replace(/postgres$/, "dbos_bench"),
    systemDatabasePoolSize: CONNECTIONS,
    runAdminServer: false,
    logLevel: "error",
  });
  const turns = DBOS.registerWorkflow(
    async (count: number) => {
      for (let index = 0; index < count; index++) {
        await DBOS.runStep(async () => ANSWER, { name: "model" });
        await DBOS.runStep(async () => RESULT, { name: "tool" });
      }
    },
    { name: "turns" },
  );
  const request = DBOS.registerWorkflow(
    async (_prompt: string) => DBOS.runStep(async () => ANSWER, { name: "model" }),
    { name: "request" },
  );
  await DBOS.launch();
  return {
    turn: (_session, count) => turns(count),
    request: async (_session, count) => {
      for (let index = 0; index < count; index++) await request("Where is it?");
    },
    stop: () => DBOS.shutdown(),
  };
}

// ---- LangGraph

function langgraph(saver: BaseCheckpointSaver, stop: () => unknown): Side {
  type Thread = { messages: BaseMessage[]; config: { configurable?: Record<string, unknown> }; step: number };
  const threads = new Map<string, Thread>();
  const threadOf = (id: string): Thread => {
    const config = { configurable: { thread_id: id, checkpoint_ns: "" } };
    const thread = threads.get(id) ?? { messages: [], config, step: 0 };
    threads.set(id, thread);
    return thread;
  };
  const called = (step: number) => {
    const call = { id: `call_${step}`, name: "charge", args: { step } };
    return new AIMessage({ id: `a${step}`, content: ANSWER, tool_calls: [call] });
  };
  const result = (step: number) =>
    new ToolMessage({ id: `t${step}`, content: RESULT, tool_call_id: `call_${step}` });
  const put = async (thread: Thread, message: BaseMessage): Promise<void> => {
    thread.messages = [...thread.messages, message];
    thread.step += 1;
    const { messages, step } = thread;
    const checkpoint = {
      v: 4,
      id: uuid6(0),
      ts: new Date().toISOString(),
      channel_values: { messages },
      channel_versions: { messages: step },
      versions_seen: { agent: { messages: step } },
    };
    const metadata = { source: "loop", step, parents: {} } as const;
    thread.config = await saver.put(thread.config, checkpoint, metadata, { messages: step });
  };
  return {
    turn: async (id, count) => {
      const thread = threadOf(id);
      for (let index = 0; index < count; index++) {
        await put(thread, called(thread.step));
        await put(thread, result(thread.step));
      }
    },
    // All at once: saving each of them would take hours, because every save stores all messages.
    seed: async (id, count) => {
      const thread = threadOf(id);
      for (let index = 0; index < count; index++) thread.messages.push(called(index), result(index));
    },
    stop: async () => {
      await stop();
    },
  };
}

// ---- The floor: two synced commits of the same bytes

async function rawSqlite(path: string): Promise<Side> {
  const database = await openBare(path);
  database.exec("CREATE TABLE turns (id INTEGER PRIMARY KEY, value TEXT NOT NULL)");
  const insert = database.prepare("INSERT INTO turns (value) VALUES (?)");
  const act: Act = async (_session, count) => {
    for (let index = 0; index < count; index++) {
      insert.run(JSON.stringify({ text: ANSWER }));
      insert.run(JSON.stringify({ text: RESULT }));
    }
  };
  return { turn: act, request: act, stop: () => database.close() };
}

async function rawPostgres(url: string): Promise<Side> {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  await pool.query(
    "CREATE SCHEMA floor; CREATE TABLE floor.turns (id serial PRIMARY KEY, value text NOT NULL)",
  );
  const text = "INSERT INTO floor.turns (value) VALUES ($1)";
  const act: Act = async (_session, count) => {
    const client = await pool.connect();
    for (let index = 0; index < count; index++) {
      await client.query({ name: "answer", text, values: [JSON.stringify({ text: ANSWER })] });
      await client.query({ name: "answer", text, values: [JSON.stringify({ text: RESULT })] });
    }
    client.release();
  };
  return { turn: act, request: act, stop: () => pool.end() };
}

const SIDES: Readonly<Record<string, (url: string, folder: string, scratch: string) => Promise<Side>>> = {
  "holdfast sqlite": async (_url, _folder, scratch) => ours(await open(join(scratch, "ours.db"))),
  "holdfast postgres": async (url) =>
    ours(await open(undefined, { store: await openPostgres({ url, maxConnections: CONNECTIONS }) })),
  dbos: (url, folder) => dbos(url, folder),
  "langgraph sqlite": async (_url, folder, scratch) => {
    const { saver, close } = await openPeerSaver(folder, "sqlite", join(scratch, "langgraph.db"));
    return langgraph(saver, close);
  },
  "langgraph postgres": async (url, folder) => {
    const { saver, close } = await openPeerSaver(folder, "postgres", url);
    return langgraph(saver, close);
  },
  "raw sqlite": (_url, _folder, scratch) => rawSqlite(join(scratch, "raw.db")),
  "raw postgres": (url) => rawPostgres(url),
};

// ---- Processes

async function beSide(name: string, url: string, folder: string, scratch: string): Promise<void> {
  const side = await (SIDES[name] as (typeof SIDES)[string])(url, folder, scratch);
  process.on("message", async ({ what, sessions, count, group }: Order) => {
    const begun = performance.now();
    const used = process.cpuUsage();
    const act = side[what];
    const names = Array.from({ length: sessions }, (_, index) => `${group}-${index}`);
    await Promise.all(names.map((each) => act?.(each, count)));
    const { user, system } = process.cpuUsage(used);
    process.send?.({ ms: act ? performance.now() - begun : Number.NaN, cpuMs: (user + system) / 1_000 });
  });
  process.once("disconnect", async () => {
    await side.stop();
    // A peer leaves timers behind.
    process.exit(0);
  });
  process.send?.("ready");
}

async function ask(child: ChildProcess, order?: Order): Promise<Answer> {
  const ended = new AbortController();
  const exit = once(child, "exit", { signal: ended.signal }).then(([code]) => {
    throw new Error(`the process of one side ended with ${code}`);
  });
  exit.catch(() => undefined);
  if (order) child.send(order);
  try {
    const [answer] = await Promise.race([once(child, "message"), exit]);
    return answer as Answer;
  } finally {
    ended.abort();
  }
}

interface Row {
  readonly side: string;
  readonly what: string;
  readonly perSecond: number;
  readonly cpuMs: number;
}

type Sides = ReadonlyMap<string, ChildProcess>;

/** One kind of order on all sides, by turns. The first round is not counted. */
async function measure(sides: Sides, what: string, order: Order, rounds: number): Promise<Row[]> {
  const found = new Map<string, Answer[]>([...sides.keys()].map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const [name, child] of sides) {
      const answer = await ask(child, order);
      if (round > 0 && !Number.isNaN(answer.ms)) found.get(name)?.push(answer);
    }
  }
  const total = order.sessions * order.count;
  return [...found].flatMap(([side, answers]) => {
    if (answers.length === 0) return [];
    const perSecond = (1_000 * total) / median(answers.map(({ ms }) => ms));
    return [{ side, what, perSecond, cpuMs: median(answers.map(({ cpuMs }) => cpuMs)) / total }];
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: "string", default: "5" },
      turns: { type: "string", default: "50" },
      requests: { type: "string", default: "50" },
      only: { type: "string", multiple: true },
      json: { type: "boolean" },
    },
  });
  const [rounds, turns, requests] = [values.rounds, values.turns, values.requests].map(Number) as [
    number,
    number,
    number,
  ];
  const scratch = new Scratch();
  const server = await PostgresServer.start();
  const sides = new Map<string, ChildProcess>();
  try {
    const names = Object.keys(SIDES).filter((name) => values.only?.includes(name) ?? true);
    const folder = installPeers(scratch, names);
    for (const name of names) {
      const child = fork(fileURLToPath(import.meta.url), [name, server.tcpUrl(), folder, scratch.path]);
      sides.set(name, child);
      await ask(child);
    }
    const growing = new Map([...sides].filter(([name]) => !name.startsWith("raw") && name !== "dbos"));
    const found: Row[] = [];
    for (const sessions of [1, 16]) {
      const at = sessions === 1 ? "one" : "sixteen at once";
      const few = Math.ceil(requests / Math.sqrt(sessions));
      const request: Order = { what: "request", sessions, count: few, group: `r${sessions}` };
      found.push(...(await measure(sides, `request, ${at}`, request, rounds)));
      const order: Order = {
        what: "turn",
        sessions,
        count: Math.ceil(turns / sessions),
        group: `t${sessions}`,
      };
      found.push(...(await measure(sides, `turn, ${at}`, order, rounds)));
    }
    for (const child of growing.values())
      await ask(child, { what: "seed", sessions: 1, count: EARLIER, group: "long" });
    const late: Order = { what: "turn", sessions: 1, count: 10, group: "long" };
    found.push(...(await measure(growing, "turn 1,000", late, rounds)));
    report(found, values.json === true);
  } finally {
    for (const child of sides.values()) {
      child.disconnect();
      await once(child, "exit");
    }
    await server.stop();
    await scratch.remove();
  }
}

function report(found: readonly Row[], asJson: boolean): void {
  if (asJson) {
    console.log(JSON.stringify(found));
    return;
  }
  console.log("| what | side | per second | CPU ms each |\n|---|---|--:|--:|");
  for (const { what, side, perSecond, cpuMs } of found)
    console.log(`| ${what} | ${side} | ${perSecond.toFixed(0)} | ${cpuMs.toFixed(2)} |`);
}

const [side, url, folder, scratch] = process.argv.slice(2);
if (process.send && side && url && folder && scratch) await beSide(side, url, folder, scratch);
else await main();
