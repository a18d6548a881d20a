/**
 * HoldfastSaver against LangGraph's own savers, in one run, on one disk: turns of about 4 KB in a `messages` channel, a
 * checkpoint after every turn, then the latest loaded by a saver that has just been opened.
 *
 *     node --import tsx bench/peers/langgraph.ts [--turns 1000] [--delta-turns 499] [--only sqlite|postgres] [--json]
 *
 * With `HOLDFAST_PEERS=<folder>` the peers are installed there once and used again. What LangChain itself takes to load as
 * many messages is printed beside the loads: no saver that uses its loader can be faster. SqliteSaver commits without
 * syncing (`synchronous=NORMAL`); ours syncs every put.
 */

import { parseArgs } from "node:util";
import { PostgresServer } from "../../test/postgres/server.ts";
import { Scratch } from "../scratch.ts";
import {
  ourPostgres,
  ourSqlite,
  peerPostgres,
  peerSqlite,
  peersFolder,
  type Subject,
} from "./langgraph-savers.ts";
import { type Figures, loaderFloor, measureDelta, measureTurns } from "./langgraph-turns.ts";

interface Comparison {
  readonly what: string;
  readonly unit: string;
  readonly ours: number;
  readonly peer: number;
  readonly bar: number | null;
}

const BARS = { sqlite: { save: 100, disk: 300 }, postgres: { save: 50, disk: 200 }, load: 2, delta: 10 };

async function compareTurns(
  on: "sqlite" | "postgres",
  pair: readonly [Subject, Subject],
  turns: number,
): Promise<Comparison[]> {
  const [ours, peer] = [await measureTurns(pair[0], turns), await measureTurns(pair[1], turns)];
  const line = (what: string, unit: string, of: (figures: Figures) => number, bar: number | null) => ({
    what: `${pair[1].name}: ${what}`,
    unit,
    ours: of(ours),
    peer: of(peer),
    bar,
  });
  return [
    line(`save ${turns} turns`, "ms", ({ saveMs }) => saveMs, BARS[on].save),
    line("the same, on the processor", "ms", ({ saveCpuMs }) => saveCpuMs, null),
    line("disk", "MB", ({ bytes }) => bytes / 1e6, BARS[on].disk),
    line("load the latest, cold", "ms", ({ loadMs }) => loadMs, BARS.load),
  ];
}

async function onSqlite(scratch: Scratch, folder: string, turns: number): Promise<Comparison[]> {
  return compareTurns("sqlite", [ourSqlite(scratch), await peerSqlite(folder, scratch)], turns);
}

async function onPostgres(folder: string, turns: number, deltaTurns: number): Promise<Comparison[]> {
  const server = await PostgresServer.start();
  try {
    const pair = async (name: string) =>
      [
        await ourPostgres(server, `ours_${name}`),
        await peerPostgres(folder, server, `peer_${name}`),
      ] as const;
    const found = await compareTurns("postgres", await pair("turns"), turns);
    const [ours, peer] = await pair("delta");
    const delta = [await measureDelta(ours, deltaTurns), await measureDelta(peer, deltaTurns)] as const;
    const line = (what: string, of: "runMs" | "readMs", bar: number | null): Comparison => ({
      what: `${peer.name}: ${what}`,
      unit: "ms",
      ours: delta[0][of],
      peer: delta[1][of],
      bar,
    });
    return [
      ...found,
      line(`a graph with a delta channel, ${deltaTurns} turns`, "runMs", null),
      line("its state read, cold", "readMs", BARS.delta),
    ];
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
    const say = values.json ? () => undefined : print;
    const sqlite = values.only === "postgres" ? [] : await onSqlite(scratch, folder, turns);
    sqlite.forEach(say);
    const loaderMs = await loaderFloor(turns);
    if (!values.json)
      console.log(`LangChain's loader alone, ${2 * turns} messages: ${loaderMs.toFixed(1)} ms`);
    const postgres =
      values.only === "sqlite" ? [] : await onPostgres(folder, turns, Number(values["delta-turns"]));
    postgres.forEach(say);
    if (values.json) console.log(JSON.stringify({ turns, loaderMs, found: [...sqlite, ...postgres] }));
  } finally {
    await scratch.remove();
  }
}

function print({ what, unit, ours, peer, bar }: Comparison): void {
  const ratio = `${(peer / ours).toFixed(1)} ×`;
  const judged = bar === null ? "" : ` (bar ${bar} ×${peer / ours >= bar ? "" : ", MISSED"})`;
  console.log(`${what}: ours ${ours.toFixed(1)} ${unit}, peer ${peer.toFixed(1)} ${unit}, ${ratio}${judged}`);
}

await main();
