/**
 * HoldfastSaver against LangGraph's own savers, in one run, on one disk. Turns of about 4 KB in a
 * `messages` channel, a checkpoint after every turn, then the latest is loaded by a new saver.
 *
 *     npm run bench -- bench/peers/langgraph.ts [--turns 1000] [--delta-turns 499] [--json]
 *         [--only sqlite|postgres]
 *
 * With `HOLDFAST_PEERS=<folder>` the peers are installed there once and used again. Two floors are printed
 * beside the results. LangChain's own time to load as many messages: no saver with its loader can be
 * faster. And the smallest commits of as many turns, one synced row each: no saver on SQLite that stores
 * its input can be faster. SqliteSaver commits without syncing (`synchronous=NORMAL`); ours syncs every
 * put.
 */

import { parseArgs } from "node:util";
import { PostgresServer } from "../../test/stores/postgres/server.ts";
import { openBare } from "../raw-database.ts";
import { Scratch } from "../scratch.ts";
import { median } from "../statistics.ts";
import { makeTurns } from "../turns.ts";
import {
  ourPostgres,
  ourSqlite,
  peerPostgres,
  peerSqlite,
  peersFolder,
  type Subject,
} from "./langgraph-savers.ts";
import { type Figures, loaderFloor, measureDelta, measureTurns, warmCode } from "./langgraph-turns.ts";

interface Comparison {
  readonly what: string;
  readonly unit: string;
  readonly ours: number;
  readonly peer: number;
  readonly bar: number | null;
}

const BARS = { sqlite: { save: 100, disk: 300 }, postgres: { save: 50, disk: 200 }, load: 2, delta: 10 };

/** The two sides of a comparison, on new stores each time. */
interface Sides {
  ours(): Promise<Subject>;
  peer(): Promise<Subject>;
}

type Say = (found: Comparison) => void;

/** Milliseconds for all saves. */
interface Pair {
  readonly ours: number;
  readonly peer: number;
}

/**
 * Ours takes a second where the peer takes a minute. So ours is measured before and after, and the median
 * counts.
 */
async function compareTurns(
  on: "sqlite" | "postgres",
  sides: Sides,
  turns: number,
  say: Say,
  beside: () => Promise<void> = async () => undefined,
): Promise<Pair> {
  for (const each of [await sides.ours(), await sides.peer()]) await warmCode(each);
  const rounds: Figures[] = [];
  const oneRound = async () => {
    rounds.push(await measureTurns(await sides.ours(), turns));
    await beside();
  };
  await oneRound();
  const subject = await sides.peer();
  const peer = await measureTurns(subject, turns);
  for (let round = 0; round < 2; round++) await oneRound();
  const line = (what: string, unit: string, of: (figures: Figures) => number, bar: number | null) =>
    say({ what: `${subject.name}: ${what}`, unit, ours: median(rounds.map(of)), peer: of(peer), bar });
  line(`save ${turns} turns`, "ms", ({ saveMs }) => saveMs, BARS[on].save);
  line("the same, on the processor", "ms", ({ saveCpuMs }) => saveCpuMs, null);
  line("disk", "MB", ({ bytes }) => bytes / 1e6, BARS[on].disk);
  line("load the latest, cold", "ms", ({ loadMs }) => loadMs, BARS.load);
  return { ours: median(rounds.map(({ saveMs }) => saveMs)), peer: peer.saveMs };
}

/**
 * Returns the time of the smallest commits, measured after each round of ours, because the disk's speed
 * changes.
 */
async function onSqlite(
  scratch: Scratch,
  folder: string,
  turns: number,
  say: Say,
): Promise<Pair & { floor: number }> {
  const sides = { ours: async () => ourSqlite(scratch), peer: () => peerSqlite(folder, scratch) };
  const floors: number[] = [];
  const saved = await compareTurns("sqlite", sides, turns, say, async () => {
    floors.push(await smallestCommits(scratch, turns));
  });
  return { ...saved, floor: median(floors) };
}

/** The same number as a saver is warmed up with, so that the log's file has grown as far. */
const FLOOR_WARM_UP = 100;

/** Milliseconds for the same number of turns by the bare driver: one row and one synced commit each. */
async function smallestCommits(scratch: Scratch, turns: number): Promise<number> {
  const database = await openBare(scratch.file("smallest"));
  database.exec("CREATE TABLE turns (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)");
  const insert = database.prepare("INSERT INTO turns (payload) VALUES (?)");
  const made = makeTurns(FLOOR_WARM_UP + turns).map(({ json }) => json);
  for (const json of made.slice(0, FLOOR_WARM_UP)) insert.get(json);
  const begun = performance.now();
  for (const json of made.slice(FLOOR_WARM_UP)) insert.get(json);
  const spent = performance.now() - begun;
  database.close();
  return spent;
}

async function onPostgres(folder: string, turns: number, deltaTurns: number, say: Say): Promise<void> {
  const server = await PostgresServer.start();
  let databases = 0;
  const sides = {
    ours: () => ourPostgres(server, `ours_${databases++}`),
    peer: () => peerPostgres(folder, server, `peer_${databases++}`),
  };
  try {
    if (turns > 0) await compareTurns("postgres", sides, turns, say);
    const [ours, peer] = [await sides.ours(), await sides.peer()];
    const delta = [await measureDelta(ours, deltaTurns), await measureDelta(peer, deltaTurns)] as const;
    const line = (what: string, of: "runMs" | "readMs", bar: number | null) =>
      say({ what: `${peer.name}: ${what}`, unit: "ms", ours: delta[0][of], peer: delta[1][of], bar });
    line(`a graph with a delta channel, ${deltaTurns} turns`, "runMs", null);
    line("its state read, cold", "readMs", BARS.delta);
  } finally {
    await server.stop();
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      turns: { type: "string", default: "1000" },
      "delta-turns": { type: "string", default: "499" },
      only: { type: "string" },
      json: { type: "boolean" },
    },
  });
  const turns = Number(values.turns);
  const scratch = new Scratch();
  try {
    const folder = peersFolder(scratch);
    const found: Comparison[] = [];
    const say = (each: Comparison) => {
      found.push(each);
      if (!values.json) print(each);
    };
    const saved = values.only === "postgres" ? null : await onSqlite(scratch, folder, turns, say);
    if (saved && !values.json) printFloor(saved);
    const loaderMs = await loaderFloor(turns);
    if (!values.json)
      console.log(`LangChain's loader alone, ${2 * turns} messages: ${loaderMs.toFixed(1)} ms`);
    if (values.only !== "sqlite") await onPostgres(folder, turns, Number(values["delta-turns"]), say);
    if (values.json) console.log(JSON.stringify({ turns, commitsMs: saved?.floor ?? null, loaderMs, found }));
  } finally {
    await scratch.remove();
  }
}

function printFloor({ ours, peer, floor }: Pair & { floor: number }): void {
  const own = `${floor.toFixed(1)} ms, ${(peer / floor).toFixed(1)} × the peer's speed`;
  console.log(
    `the smallest synced commits of as many turns: ${own}; ours takes ${(ours / floor).toFixed(2)} of that`,
  );
}

function print({ what, unit, ours, peer, bar }: Comparison): void {
  const ratio = `${(peer / ours).toFixed(1)} ×`;
  const judged = bar === null ? "" : ` (bar ${bar} ×${peer / ours >= bar ? "" : ", MISSED"})`;
  console.log(`${what}: ours ${ours.toFixed(1)} ${unit}, peer ${peer.toFixed(1)} ${unit}, ${ratio}${judged}`);
}

await main();
