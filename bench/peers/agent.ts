/**
 * What a user pays, on Holdfast and on its peers: a request, a turn, and a turn after 950 others. One run, one
 * disk, one Postgres. Each side has a process of its own; `agent-sides.ts` says what it does.
 *
 * Sides take turns, so that other load affects all of them. Only one works at a time, so the processor time
 * of the server is that side's.
 *
 *     npm run bench -- bench/peers/agent.ts [--rounds 5] [--json] [--only "holdfast postgres" --only dbos]
 *
 * With `HOLDFAST_PEERS=<folder>` the peers are installed there once and used again.
 */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import pg from "pg";
import { PostgresServer } from "../../test/stores/postgres/server.ts";
import { openBare } from "../raw-database.ts";
import { Scratch } from "../scratch.ts";
import { median } from "../statistics.ts";
import { type Data, type Place, SIDES, type SideKind, type SideName } from "./agent-sides.ts";
import { installPeers } from "./peer-folder.ts";

/** As servers are installed. Those of the tests are smaller, and write checkpoints in the middle of a round. */
const SETTINGS = { shared_buffers: "128MB", max_wal_size: "1GB", wal_level: "replica" };

interface Order {
  readonly act: "request" | "turn" | "seed";
  readonly sessions: number;
  readonly count: number;
  /** How many such sets of sessions, one after another. Default: 1. */
  readonly series?: number;
  /** Sessions of one group follow those of the group's last order. */
  readonly group: string;
}

interface Work {
  readonly what: string;
  readonly order: Order;
}

const ONE: Work = {
  what: "request",
  order: { act: "request", sessions: 1, count: 20, series: 10, group: "one" },
};
const SIXTEEN: Work = {
  what: "request, sixteen at once",
  order: { act: "request", sessions: 16, count: 15, series: 2, group: "sixteen" },
};
/** Young sessions, so that a round is as long as one of the old session. */
const TURN: Work = {
  what: "turn 50",
  order: { act: "turn", sessions: 1, count: 20, series: 5, group: "young" },
};
const OLD: Work = { what: "turn 1,000", order: { act: "turn", sessions: 1, count: 100, group: "old" } };
const CROWD: Work = {
  what: "turn, sixteen at once",
  order: { act: "turn", sessions: 16, count: 30, group: "crowd" },
};
/** So many that V8 has compiled each side's code, as in a server that has run for a minute. */
const WARM_UPS: readonly Order[] = [
  { act: "request", sessions: 1, count: 20, series: 50, group: "warm" },
  { act: "turn", sessions: 1, count: 100, series: 10, group: "warm" },
];
const SEEDS: readonly Order[] = [
  { act: "seed", sessions: 1, count: 10, series: 5, group: "young" },
  { act: "seed", sessions: 1, count: 850, group: "old" },
];

/** A saver that stores all messages again each time gets a tenth of the turns. Its rounds are long enough. */
function sized(side: SideName, order: Order): Order {
  const isSlow = side.startsWith("langgraph") && order.act === "turn";
  return isSlow ? { ...order, count: Math.ceil(order.count / 10) } : order;
}

interface Answer {
  /** Null if the side does not do this. */
  readonly ms: number | null;
  readonly cpuMs: number;
}

interface Row {
  readonly what: string;
  readonly side: SideName;
  readonly perSecond: number;
  /** Milliseconds of processor per request or turn: of the process, and of the server. */
  readonly cpuMs: number;
  readonly serverCpuMs: number;
  /** What the data grew by per request or turn. */
  readonly bytes: number;
}

// ---- The process of one side

async function beSide(name: SideName, place: Place): Promise<void> {
  const side = await (SIDES[name] as SideKind).start(place);
  process.on("message", async ({ act, sessions, count, series = 1, group }: Order) => {
    const does = act === "seed" ? (side.seed ?? side.turn) : side[act];
    const used = process.cpuUsage();
    const begun = performance.now();
    for (let set = 0; set < series; set++) {
      const ids = Array.from({ length: sessions }, (_, index) => `${group}-${set}-${index}`);
      await Promise.all(ids.map((id) => does?.(id, count)));
    }
    const ms = does ? performance.now() - begun : null;
    const { user, system } = process.cpuUsage(used);
    process.send?.({ ms, cpuMs: (user + system) / 1_000 } satisfies Answer);
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

// ---- What is measured

class Bench {
  readonly rows: Row[] = [];
  private readonly onRow: (row: Row) => void;
  private readonly sides: ReadonlyMap<SideName, ChildProcess>;
  private readonly server: PostgresServer;
  private readonly scratch: string;
  private readonly rounds: number;

  constructor(
    sides: ReadonlyMap<SideName, ChildProcess>,
    server: PostgresServer,
    scratch: string,
    rounds: number,
    onRow: (row: Row) => void,
  ) {
    this.onRow = onRow;
    this.sides = sides;
    this.server = server;
    this.scratch = scratch;
    this.rounds = rounds;
  }

  async all(): Promise<void> {
    await this.make(WARM_UPS);
    await this.measure([ONE]);
    await this.measure([SIXTEEN]);
    await this.make(SEEDS);
    // Together, so that both meet the same load: their ratio says whether a long session is slower.
    await this.measure([TURN, OLD]);
    await this.measure([CROWD]);
  }

  /** Without measuring. */
  private async make(orders: readonly Order[]): Promise<void> {
    for (const [name, child] of this.sides)
      for (const order of orders) if (reaches(name, order)) await ask(child, sized(name, order));
  }

  /** All works on all sides, by turns. The first round is not counted. */
  private async measure(works: readonly Work[]): Promise<void> {
    const found = new Map<string, { answers: Answer[]; serverMs: number[]; grown: number }>();
    for (let round = 0; round <= this.rounds; round++) {
      for (const [name, child] of this.sides) {
        for (const { what, order } of works) {
          if (!reaches(name, order)) continue;
          const size = await this.sizeOf(name);
          const server = this.serverCpuMs();
          const answer = await ask(child, sized(name, order));
          if (round === 0 || answer.ms === null) continue;
          const each = found.get(`${what}\0${name}`) ?? { answers: [], serverMs: [], grown: 0 };
          found.set(`${what}\0${name}`, each);
          each.answers.push(answer);
          each.serverMs.push(this.serverCpuMs() - server);
          each.grown += (await this.sizeOf(name)) - size;
        }
      }
    }
    for (const { what, order } of works) {
      for (const side of this.sides.keys()) {
        const { sessions, count, series = 1 } = sized(side, order);
        const total = sessions * count * series;
        const each = found.get(`${what}\0${side}`);
        if (!each) continue;
        const { answers, serverMs, grown } = each;
        const row: Row = {
          what,
          side,
          perSecond: (1_000 * total) / median(answers.map(({ ms }) => ms ?? 0)),
          cpuMs: median(answers.map(({ cpuMs }) => cpuMs)) / total,
          serverCpuMs: median(serverMs) / total,
          bytes: grown / (this.rounds * total),
        };
        this.rows.push(row);
        this.onRow(row);
      }
    }
  }

  private async sizeOf(name: SideName): Promise<number> {
    const { data } = SIDES[name] as { data: Data };
    if ("file" in data) {
      const database = await openBare(join(this.scratch, data.file));
      const size = "SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size";
      const { bytes } = database.prepare(size).get() as { bytes: number };
      database.close();
      return bytes;
    }
    const connectionString = this.server.tcpUrl().replace(/postgres$/, data.database ?? "postgres");
    const client = new pg.Client({ connectionString });
    await client.connect();
    const { rows } = await client.query(
      `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bytes FROM pg_class AS c
       JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`,
      [data.schema],
    );
    await client.end();
    return Number(rows[0].bytes);
  }

  /** The time that all processes of the server have run. */
  private serverCpuMs(): number {
    const postmaster = readFileSync(join(this.server.folder, "data", "postmaster.pid"), "utf8").split(
      "\n",
    )[0];
    let nanoseconds = 0;
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
        const [, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        if (parent !== postmaster) continue;
        nanoseconds += Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]);
      } catch {
        // The process has ended since.
      }
    }
    return nanoseconds / 1e6;
  }
}

/** OpenWorkflow ends a workflow after 1,000 steps. */
function reaches(side: SideName, { group }: Order): boolean {
  return side !== "openworkflow" || group !== "old";
}

// ---- What has to be true

interface Bar {
  readonly what: string;
  readonly must: number | null;
  readonly aim: number | null;
  readonly direction: "at least" | "at most";
  readonly sides: readonly [SideName, SideName];
  readonly works: readonly [Work, Work];
}

const against = (
  peer: SideName,
  work: Work,
  bars: Partial<Bar>,
  own: SideName = "holdfast postgres",
): Bar => ({
  what: `${work.what}: ${own} / ${peer}`,
  must: null,
  aim: null,
  direction: "at least",
  sides: [own, peer],
  works: [work, work],
  ...bars,
});

const flat = (side: SideName): Bar => ({
  what: `${side}: time of turn 1,000 / of turn 50`,
  must: 1.15,
  aim: null,
  direction: "at most",
  sides: [side, side],
  works: [TURN, OLD],
});

const BARS: readonly Bar[] = [
  against("dbos", ONE, { must: 1.2, aim: 2 }),
  against("dbos", SIXTEEN, { aim: 2 }),
  against("dbos", TURN, { must: 2, aim: 3 }),
  against("dbos", CROWD, { must: 2, aim: 3 }),
  against("dbos", OLD, {}),
  against("openworkflow", ONE, {}),
  against("openworkflow", TURN, {}),
  against("openworkflow", CROWD, {}),
  against("langgraph sqlite", OLD, { must: 50 }, "holdfast sqlite"),
  against("langgraph postgres", OLD, { must: 50 }),
  flat("holdfast sqlite"),
  flat("holdfast postgres"),
  {
    ...against("holdfast sqlite", TURN, { aim: 1.3, direction: "at most" }, "raw sqlite"),
    what: "turn 50: time of holdfast sqlite / of two raw commits",
  },
];

function judge(
  rows: readonly Row[],
  { sides, works, must, direction }: Bar,
): { value: number; ok: boolean } | null {
  const [first, second] = [0, 1].map((index) =>
    rows.find(({ side, what }) => side === sides[index] && what === works[index]?.what),
  );
  if (!first || !second) return null;
  const value = first.perSecond / second.perSecond;
  const isMet = must === null || (direction === "at least" ? value >= must : value <= must);
  return { value, ok: isMet };
}

const TITLE = "| what | side | per second | CPU ms | server CPU ms | bytes |\n|---|---|--:|--:|--:|--:|";

function reportRow({ what, side, perSecond, cpuMs, serverCpuMs, bytes }: Row): void {
  const onServer = "schema" in SIDES[side].data ? serverCpuMs.toFixed(2) : "";
  const grown = Math.round(bytes).toLocaleString("en");
  const rate = perSecond.toFixed(perSecond < 10 ? 1 : 0);
  console.log(`| ${what} | ${side} | ${rate} | ${cpuMs.toFixed(2)} | ${onServer} | ${grown} |`);
}

function reportBars(rows: readonly Row[]): void {
  console.log("\n| ratio | value | must | aim |\n|---|--:|--:|--:|");
  for (const bar of BARS) {
    const judged = judge(rows, bar);
    if (!judged) continue;
    const sign = bar.direction === "at least" ? "≥" : "≤";
    const must = bar.must === null ? "" : `${sign} ${bar.must} ${judged.ok ? "met" : "missed"}`;
    const aim = bar.aim === null ? "" : `${sign} ${bar.aim}`;
    console.log(`| ${bar.what} | ${judged.value.toFixed(2)} | ${must} | ${aim} |`);
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: "string", default: "5" },
      only: { type: "string", multiple: true },
      json: { type: "boolean" },
    },
  });
  const scratch = new Scratch();
  const server = await PostgresServer.start(SETTINGS);
  const sides = new Map<SideName, ChildProcess>();
  try {
    const names = (Object.keys(SIDES) as SideName[]).filter((name) => values.only?.includes(name) ?? true);
    const peers = installPeers(scratch, names);
    for (const name of names) {
      const child = fork(fileURLToPath(import.meta.url), [name, server.tcpUrl(), peers, scratch.path]);
      sides.set(name, child);
      await ask(child);
    }
    if (!values.json) console.log(TITLE);
    const onRow = values.json ? () => undefined : reportRow;
    const bench = new Bench(sides, server, scratch.path, Number(values.rounds), onRow);
    await bench.all();
    const ratios = BARS.map((bar) => ({ ...bar, ...judge(bench.rows, bar) }));
    if (values.json) console.log(JSON.stringify({ rows: bench.rows, ratios }));
    else reportBars(bench.rows);
    if (ratios.some(({ ok }) => ok === false)) process.exitCode = 1;
  } finally {
    for (const child of sides.values()) {
      child.disconnect();
      await once(child, "exit");
    }
    await server.stop();
    await scratch.remove();
  }
}

const [side, url, peers, scratch] = process.argv.slice(2);
if (process.send && side && url && peers && scratch) await beSide(side as SideName, { url, peers, scratch });
else await main();
