import pg from "pg";
import { Holdfast, Journal } from "../src/index.ts";
import { openPostgres } from "../src/stores/postgres/index.ts";
import { PostgresServer } from "../test/stores/postgres/server.ts";
import type { Measure } from "./measure.ts";
import { alternate, perItem } from "./rounds.ts";
import { median, rounded } from "./statistics.ts";
import { makeTurns } from "./turns.ts";

const SESSIONS = 16;
const ROUNDS = 60;

/** Like `raw-database.ts`: the rows that are needed to find a turn again, and nothing else. */
const SCHEMA = `
  CREATE SCHEMA raw;
  CREATE TABLE raw.turns (session integer, seq integer, payload text NOT NULL, PRIMARY KEY (session, seq));
  CREATE TABLE raw.sessions (id integer PRIMARY KEY, seq integer NOT NULL, status text NOT NULL,
    updated_at bigint NOT NULL);
  CREATE INDEX sessions_by_time ON raw.sessions (updated_at);
  CREATE TABLE raw.checkpoints (session integer, version text, seq integer NOT NULL, status text NOT NULL,
    created_at bigint NOT NULL, PRIMARY KEY (session, version))`;

/** One round trip and one commit: the fastest of the ways that were tried. */
const WRITE = `
  WITH turn AS (INSERT INTO raw.turns VALUES ($1, $2, $3)),
    session AS (INSERT INTO raw.sessions VALUES ($1, $2, 'active', $4)
      ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, updated_at = excluded.updated_at)
  INSERT INTO raw.checkpoints VALUES ($1, $2::text, $2, 'kept', $4)`;

/** Each session of the floor commits alone, on a pool with a connection for each; ours share commits. */
export const postgresVsRaw: Measure = {
  name: "postgresVsRaw",
  what: "16 sessions append at once on Postgres: turns per second, against raw commits on the same pool",
  bar: 0.8,
  direction: "at least",
  async run() {
    const server = await PostgresServer.start();
    const pool = new pg.Pool({ connectionString: server.url, max: SESSIONS });
    // Ending the pool does not wait until the server has closed its connections.
    pool.on("error", () => undefined);
    try {
      await pool.query(SCHEMA);
      const holdfast = new Holdfast(new Journal({ store: await openPostgres({ pool }) }));
      const turns = makeTurns(SESSIONS * ROUNDS);
      const names = Array.from({ length: SESSIONS }, (_, index) => `session-${index}`);
      const sessions = await Promise.all(names.map((name) => holdfast.session(name)));
      const part = (round: number) => turns.slice(round * SESSIONS, (round + 1) * SESSIONS);
      const rounds = await alternate(
        ROUNDS,
        (round) => {
          const writes = part(round).map(({ messages }, index) =>
            pool.query(WRITE, [index, round, JSON.stringify(messages), Date.now()]),
          );
          return Promise.all(writes);
        },
        (round) => {
          const now = part(round);
          const appends = sessions.map((session, index) =>
            session.append(now[index]?.messages ?? [], { checkpoint: true }),
          );
          return Promise.all(appends);
        },
      );
      await holdfast.close();
      const { rawMs, oursMs } = rounds;
      return {
        value: rounded(median(rawMs) / median(oursMs)),
        numbers: {
          rawPerSecond: Math.round((1000 * SESSIONS) / median(rawMs)),
          oursPerSecond: Math.round((1000 * SESSIONS) / median(oursMs)),
          ...perItem(rounds, SESSIONS),
        },
      };
    } finally {
      await pool.end();
      await server.stop();
    }
  },
};
