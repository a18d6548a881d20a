/**
 * Makes a schema with any number of sessions quickly: one session is made as users make them, and the
 * server copies its rows under other names. Every row, index and size is as if each had been made one by
 * one.
 */

import * as z from "zod";
import { type Holdfast, open, tool } from "../../../src/index.ts";
import { sessionCore } from "../../../src/session/index.ts";
import { openPostgres } from "../../../src/stores/postgres/index.ts";
import type { TestSchema } from "./schema.ts";

const FIRST = "session/grown-0";

const fax = tool({
  name: "fax",
  description: "Nobody can tell whether it arrived",
  input: z.object({}),
  effect: "mutate",
  execute: () => {
    throw new Error("the line went dead");
  },
});

/** By table, the columns that contain the name of the session. */
const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  streams: ["stream", "updated_at", "updated_second"],
  writes: ["stream", "batch"],
  items: ["stream"],
  leases: ["name"],
};

/** `events` per session, about four to a turn: prompt, answer, cost, checkpoint. */
export async function grow(
  schema: TestSchema,
  sessions: number,
  events: number,
  turnBytes: number,
): Promise<void> {
  const store = await openPostgres({ url: schema.url, schema: schema.name, maxConnections: 2 });
  await makeFirstSession(await open(undefined, { store }), events, turnBytes);
  for (const [table, changed] of Object.entries(COLUMNS)) await copyRows(schema, table, changed, sessions);
  await schema.query("VACUUM (ANALYZE) $schema.streams, $schema.writes, $schema.items, $schema.leases");
}

/** Makes the session `grown-0` and closes the store. */
export async function makeFirstSession(holdfast: Holdfast, events: number, turnBytes: number): Promise<void> {
  const session = await holdfast.session("grown-0", { title: "A session like any other", goal: "checkout" });
  const text = "All happy agents are alike; each unhappy agent fails in its own way. ".repeat(
    Math.ceil(turnBytes / 140),
  );
  // A call that waits for a person in every session, so that lists of open calls are long.
  await session.call({ callId: "c1", tool: fax, args: {} });
  const { log } = sessionCore(session).own;
  for (let turn = 0; log.head.seq < events - 4; turn++) {
    await session.append({ role: "user", text });
    await session.append({ role: "assistant", text }, { checkpoint: `turn ${turn}` });
    await session.spend({ usd: 0.01 });
  }
  while (log.head.seq < events) await session.append({ role: "user", text: "more" });
  await session.close();
  await holdfast.close();
}

async function copyRows(
  schema: TestSchema,
  table: string,
  changed: readonly string[],
  sessions: number,
): Promise<void> {
  const rows = await schema.query<{ column_name: string }>(
    `SELECT column_name FROM information_schema.columns
     WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position`,
    [schema.name, table],
  );
  const columns = rows.map(({ column_name: name }) => name);
  const values = columns.map((name) => {
    if (!changed.includes(name)) return `t.${name}`;
    if (name === "updated_at") return "t.updated_at + n * 1000";
    if (name === "updated_second") return "t.updated_second + n";
    // Ids as long as real ones.
    return name === "batch" ? "md5(t.batch || n)" : "'session/grown-' || n";
  });
  await schema.query(
    `INSERT INTO $schema.${table} (${columns.join(", ")})
     SELECT ${values.join(", ")} FROM $schema.${table} AS t CROSS JOIN generate_series(1, ${sessions - 1}) AS n
     WHERE t.${changed[0]} = '${FIRST}'`,
  );
}
