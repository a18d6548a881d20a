/**
 * How the cost of common acts grows with the size of a store. The same acts run by turns on a store with
 * 10,000 events and on one with 1,000,000: two schemas of one Postgres server, or two SQLite files. Not part
 * of `npm test`: it writes about a gigabyte and takes minutes.
 *
 *     npm run soak -- [--store postgres|sqlite] [--events 1000000] [--per-session 100] [--rounds 60]
 *                     [--url postgres://…] [--json]
 *
 * `docs/why/scale.md` explains the figures.
 */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Holdfast, open } from "../src/index.ts";
import { grow } from "../test/stores/postgres/grown-schema.ts";
import { TestSchema } from "../test/stores/postgres/schema.ts";
import { PostgresServer } from "../test/stores/postgres/server.ts";
import { growFile } from "./grown-file.ts";

const SMALL_EVENTS = 10_000;
const TURN_BYTES = 1_400;
const BAR = 2;

interface Grown {
  readonly holdfast: Holdfast;
  readonly sessions: number;
  /** Opens the store as another process would. */
  readonly open: () => Promise<Holdfast>;
  readonly sizes: () => Promise<Sizes>;
  readonly dispose: () => Promise<unknown>;
}

/** The measured acts. Each returns the milliseconds of the part that counts. */
const ACTS: Readonly<Record<string, (grown: Grown, round: number) => Promise<number>>> = {
  "open the store": async (grown) => {
    const begun = performance.now();
    const another = await grown.open();
    const ms = performance.now() - begun;
    await another.close();
    return ms;
  },
  "open a session": (grown) => timed(async () => (await grown.holdfast.session(anyOf(grown))).close()),
  "append a turn": async (grown, round) => {
    const session = await grown.holdfast.session(anyOf(grown));
    const text = `turn ${round} ${"of some length ".repeat(90)}`;
    const ms = await timed(() => session.append({ role: "user", text }, { checkpoint: true }));
    await session.close();
    return ms;
  },
  "append the first turn of a new session": async ({ holdfast }, round) => {
    const session = await holdfast.session(`new-${round}`);
    const ms = await timed(() => session.append({ role: "user", text: "hello" }));
    await session.close();
    return ms;
  },
  "read a session": ({ holdfast, ...rest }) =>
    timed(() => holdfast.sessions.get(anyOf({ holdfast, ...rest }))),
  "list the latest 50": ({ holdfast }) => timed(() => holdfast.sessions.list({ limit: 50 })),
  "list 50 that are active": ({ holdfast }) =>
    timed(() => holdfast.sessions.list({ status: "active", limit: 50 })),
  "list open calls": ({ holdfast }) => timed(() => holdfast.calls.list()),
};

const anyOf = ({ sessions }: Grown): string => `grown-${Math.floor(Math.random() * sessions)}`;

async function timed(act: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await act();
  return performance.now() - begun;
}

async function grownSchema(url: string, events: number, perSession: number): Promise<Grown> {
  const schema = new TestSchema(url);
  const sessions = Math.max(1, Math.round(events / perSession));
  await grow(schema, sessions, perSession, TURN_BYTES);
  const openStore = async () => open(undefined, { store: await schema.open() });
  const holdfast = await openStore();
  return {
    holdfast,
    sessions,
    open: openStore,
    sizes: () => sizesOf(schema),
    dispose: async () => {
      await holdfast.close();
      await schema.dispose();
    },
  };
}

async function grownFile(folder: string, events: number, perSession: number): Promise<Grown> {
  const file = join(folder, `${events}.db`);
  const sessions = Math.max(1, Math.round(events / perSession));
  await growFile(file, sessions, perSession, TURN_BYTES);
  const holdfast = await open(file);
  return {
    holdfast,
    sessions,
    open: () => open(file),
    sizes: async () => ({ bytes: statSync(file).size, tables: {} }),
    dispose: () => holdfast.close(),
  };
}

interface Sizes {
  readonly bytes: number;
  readonly tables: Readonly<Record<string, number>>;
}

async function sizesOf(schema: TestSchema): Promise<Sizes> {
  const rows = await schema.query<{ relname: string; bytes: string }>(
    `SELECT c.relname, pg_total_relation_size(c.oid) AS bytes FROM pg_class AS c
     JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY 2 DESC`,
    [schema.name],
  );
  const tables = Object.fromEntries(rows.map(({ relname, bytes }) => [relname, Number(bytes)]));
  return { bytes: Object.values(tables).reduce((sum, each) => sum + each, 0), tables };
}

interface Line {
  readonly what: string;
  readonly smallMs: number;
  readonly largeMs: number;
  readonly ratio: number;
}

/** By turns, so that other load on the machine affects both sides. */
async function measure(few: Grown, many: Grown, rounds: number): Promise<Line[]> {
  const lines: Line[] = [];
  for (const [what, act] of Object.entries(ACTS)) {
    const [small, large]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds + 5; round++) {
      // Each side goes first every other time. The first rounds fill caches and plans.
      for (const one of round % 2 === 0 ? [few, many] : [many, few]) {
        const ms = await act(one, round);
        if (round >= 5) (one === few ? small : large).push(ms);
      }
    }
    const [smallMs, largeMs] = [median(small), median(large)];
    lines.push({ what, smallMs, largeMs, ratio: largeMs / smallMs });
  }
  return lines;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      store: { type: "string", default: "postgres" },
      events: { type: "string", default: "1000000" },
      "per-session": { type: "string", default: "100" },
      rounds: { type: "string", default: "60" },
      url: { type: "string" },
      json: { type: "boolean" },
    },
  });
  const folder = mkdtempSync(join("node_modules", ".soak-"));
  process.env["XDG_STATE_HOME"] = resolve(folder);
  const isSqlite = values.store === "sqlite";
  const needsServer = !isSqlite && values.url === undefined;
  const server = needsServer ? await PostgresServer.start({ max_wal_size: "4GB" }) : null;
  const url = values.url ?? server?.url ?? "";
  const opened: Grown[] = [];
  try {
    const perSession = Number(values["per-session"]);
    for (const events of [SMALL_EVENTS, Number(values.events)]) {
      console.error(`growing to ${events} events over ${Math.round(events / perSession)} sessions`);
      const made = isSqlite ? grownFile(folder, events, perSession) : grownSchema(url, events, perSession);
      opened.push(await made);
    }
    const [few, many] = opened as [Grown, Grown];
    const size = await many.sizes();
    const lines = await measure(few, many, Number(values.rounds));
    return report(lines, size, many.sessions, perSession, values.json === true);
  } finally {
    for (const { dispose } of opened) await dispose();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function report(
  lines: readonly Line[],
  size: Sizes,
  sessions: number,
  perSession: number,
  asJson: boolean,
): boolean {
  const isMet = lines.every(({ ratio }) => ratio <= BAR);
  if (asJson) console.log(JSON.stringify({ bar: BAR, isMet, lines, size }));
  else {
    for (const { what, smallMs, largeMs, ratio } of lines) {
      const verdict = ratio <= BAR ? "" : `, over the bar of ${BAR} ×`;
      console.log(
        `${what}: ${smallMs.toFixed(2)} ms, then ${largeMs.toFixed(2)} ms: ${ratio.toFixed(2)} ×${verdict}`,
      );
    }
    console.log(
      `${(size.bytes / 1e6).toFixed(0)} MB: ${Math.round(size.bytes / sessions / perSession)} bytes/event, ` +
        `${Math.round(size.bytes / sessions)} bytes/session`,
    );
    for (const [table, bytes] of Object.entries(size.tables)) {
      if (bytes > size.bytes / 1_000) console.log(`  ${table}: ${(bytes / 1e6).toFixed(1)} MB`);
    }
  }
  return isMet;
}

process.exitCode = (await main()) ? 0 : 1;
