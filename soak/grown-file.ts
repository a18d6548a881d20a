/**
 * Makes a SQLite file with any number of sessions quickly: one session is made as users make them, and SQL
 * copies its rows under other names. Every row, index and size is as if each had been made one by one.
 */

import { openBare } from "../bench/raw-database.ts";
import { open } from "../src/index.ts";
import { makeFirstSession } from "../test/stores/postgres/grown-schema.ts";

/** A write's id is the id of its stream and the seq of its last event. */
const SEQ_BITS = 28;

/** By table, what its copies have instead of the values of the first session. */
const COPIES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  streams: {
    id: "s.last + n",
    stream: "'session/grown-' || n",
    updated_at: "t.updated_at + n * 1000",
    updated_about: "(t.updated_at + n * 1000) >> 6",
  },
  writes: { id: `((s.last + n) << ${SEQ_BITS}) | (t.id & ${2 ** SEQ_BITS - 1})` },
  // Calls of one millisecond would have to be sorted.
  items: { stream: "s.last + n", at: "t.at + n" },
  leases: { name: "'session/grown-' || n" },
};

const OF_FIRST: Readonly<Record<string, string>> = {
  streams: "t.id = s.first",
  writes: `t.id >> ${SEQ_BITS} = s.first`,
  items: "t.stream = s.first",
  leases: "t.name = 'session/grown-0'",
};

export async function growFile(
  file: string,
  sessions: number,
  events: number,
  turnBytes: number,
): Promise<void> {
  await makeFirstSession(await open(file), events, turnBytes);
  const database = await openBare(file);
  database.exec("BEGIN");
  database.exec(`CREATE TEMP TABLE s AS SELECT max(id) AS last,
    max(id) FILTER (WHERE stream = 'session/grown-0') AS first FROM streams`);
  for (const [table, copies] of Object.entries(COPIES)) {
    const columns = database.prepare(`PRAGMA table_info(${table})`).all() as { name: string }[];
    const names = columns.map(({ name }) => name);
    const values = names.map((name) => copies[name] ?? `t.${name}`);
    database
      .prepare(
        `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
         INSERT INTO ${table} (${names.join(", ")})
         SELECT ${values.join(", ")} FROM numbers, s, ${table} AS t WHERE ${OF_FIRST[table]}`,
      )
      .run(sessions - 1);
  }
  database.exec("COMMIT");
  database.close();
}
