// A request costs few statements: with a server elsewhere, each is a round trip (decision 029).

import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Holdfast, Journal } from "../../../src/index.ts";
import { script } from "../../ledger/bench.ts";
import { TestSchema } from "./schema.ts";

let schema: TestSchema;
let pool: pg.Pool;
let holdfast: Holdfast;
let statements: string[] = [];

beforeEach(async () => {
  schema = new TestSchema();
  pool = new pg.Pool({ connectionString: schema.url, max: 4 });
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      const [first] = args as [string | { text: string }];
      statements.push(typeof first === "string" ? first : first.text);
      return query(...args);
    }) as typeof client.query;
  });
  holdfast = new Holdfast(new Journal({ store: await schema.open({ pool }) }));
});

afterEach(async () => {
  await holdfast.close();
  await schema.dispose();
  await pool.end();
});

test("a request to a new session and to one that was left costs at most four statements", async () => {
  for (const text of ["first", "second", "third"]) {
    statements = [];
    await holdfast.run("chat", { model: script(text), prompt: `Say ${text}.` });
    // Hints for other processes are sent later, for many changes at once.
    const own = statements.filter((each) => !each.includes("pg_notify"));
    expect(own.length).toBeLessThanOrEqual(4);
    expect(own.filter((each) => each.includes("append_"))).toHaveLength(2);
  }
});
