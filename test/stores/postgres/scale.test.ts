// The cost of an act does not depend on the size of the store. Rows that the server reads are counted, not
// time.

import { afterEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import { grow } from "./grown-schema.ts";
import { TestSchema } from "./schema.ts";

const schemas: TestSchema[] = [];

afterEach(async () => {
  await Promise.all(schemas.splice(0).map((schema) => schema.dispose()));
});

const EVENTS = 40;

async function grown(sessions: number): Promise<TestSchema> {
  const schema = new TestSchema();
  schemas.push(schema);
  await grow(schema, sessions, EVENTS, 400);
  return schema;
}

interface Counts {
  readonly rows: number;
  readonly scans: number;
}

/** Rows that index and table scans have read in the schema so far, by connections that have ended. */
async function counts(schema: TestSchema): Promise<Counts> {
  // The server ends a connection a moment after the client.
  for (;;) {
    const [open] = await schema.query<{ count: string }>(
      "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdfast %' AND query LIKE $1",
      [`%${schema.name}%`],
    );
    if (Number(open?.count) === 0) break;
  }
  await schema.query("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()");
  const [row] = await schema.query<Record<keyof Counts, string>>(
    `SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS rows,
       sum(seq_scan) FILTER (WHERE relname <> 'meta') AS scans
     FROM pg_stat_user_tables WHERE schemaname = $1`,
    [schema.name],
  );
  return { rows: Number(row?.rows), scans: Number(row?.scans) };
}

/** Rows read by the acts, on a store that is opened and closed for them. */
async function cost(schema: TestSchema, acts: (holdfast: Holdfast) => Promise<unknown>): Promise<Counts> {
  const before = await counts(schema);
  const holdfast = await open(undefined, { store: await schema.open({ notify: false }) });
  await acts(holdfast);
  await holdfast.close();
  const after = await counts(schema);
  return { rows: after.rows - before.rows, scans: after.scans - before.scans };
}

test("opening, appending and listing read as many rows with 600 sessions as with 12", async () => {
  const acts = {
    opening: async (holdfast: Holdfast) => {
      for (const id of [3, 5, 7]) await (await holdfast.session(`grown-${id}`)).close();
    },
    appending: async (holdfast: Holdfast) => {
      const session = await holdfast.session("brand-new");
      for (let turn = 0; turn < 5; turn++) await session.append({ role: "user", text: "hello" });
      await session.close();
    },
    listing: async (holdfast: Holdfast) => {
      const { sessions } = await holdfast.sessions.list({ limit: 10 });
      expect(sessions).toHaveLength(10);
      await holdfast.sessions.list({ status: "active", limit: 10 });
      expect(await holdfast.calls.list({ limit: 10 })).toBeDefined();
    },
  };
  const [few, many] = [await grown(12), await grown(600)];
  for (const [name, act] of Object.entries(acts)) {
    const [small, large] = [await cost(few, act), await cost(many, act)];
    expect({ name, rows: small.rows > 0 }).toEqual({ name, rows: true });
    expect(
      `${name}: ${large.rows <= small.rows * 2 ? "flat" : `${small.rows} rows, then ${large.rows}`}`,
    ).toBe(`${name}: flat`);
    expect({ name, scans: large.scans }).toEqual({ name, scans: 0 });
  }
});
