// The server keeps the most frequent statements prepared. Where it does not, or a pooler is in between, nothing is lost or done twice.

import { Socket } from "node:net";
import fc from "fast-check";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Store } from "../../../src/store.ts";
import { Database } from "../../../src/stores/postgres/index.ts";
import { type StoreTopic, storeSuite } from "../../../src/testing/index.ts";
import { anyCodePoint } from "../../any-code-point.ts";
import { append, batchOf, NAMESPACE, write } from "../sqlite/acts.ts";
import { serverUrl, TestSchema } from "./schema.ts";
import { PostgresServer } from "./server.ts";
import { postgresForTest } from "./subject.ts";
import { SwappingPooler } from "./swapping-pooler.ts";

async function eventsOf(store: Store, stream: string): Promise<unknown[]> {
  const { writes } = await store.read({ namespace: NAMESPACE, stream, after: 0 });
  return writes.flatMap(({ payload }) => JSON.parse(payload as string) as unknown[]);
}

const ok = { outcome: "ok", resent: false };

describe("on a connection of the caller's own", () => {
  let schema: TestSchema;
  let pool: pg.Pool;
  let store: Store;

  beforeEach(async () => {
    schema = new TestSchema();
    pool = new pg.Pool({ connectionString: schema.url, max: 1 });
    store = await schema.open({ pool, notify: false });
    await append(store, write("session/a", 0, [0]));
  });

  afterEach(async () => {
    await schema.dispose();
    await pool.end();
  });

  async function keptNames(): Promise<string[]> {
    const { rows } = await pool.query<{ name: string }>(
      "SELECT name FROM pg_prepared_statements ORDER BY name",
    );
    return rows.map(({ name }) => name);
  }

  test("one name for each frequent statement is all that is left there", async () => {
    await append(store, write("session/b", 0, [0]));
    for (let seq = 1; seq < 20; seq++) {
      await Promise.all(["a", "b"].map((name) => append(store, write(`session/${name}`, seq, [seq]))));
    }
    await append(store, write("session/a", 20, [20]));
    expect(await keptNames()).toEqual([
      expect.stringMatching(/^holdfast append_plain [0-9a-f]{24}$/),
      expect.stringMatching(/^holdfast append_single [0-9a-f]{24}$/),
    ]);
  });

  const REPLACED = `
    DROP FUNCTION $schema.append_single;
    CREATE FUNCTION $schema.append_single($types) RETURNS integer LANGUAGE sql AS 'SELECT 1'`;

  test.each([
    ["that is gone (26000)", async () => pool.query("DEALLOCATE ALL")],
    ["that is gone with all else (26000)", async () => pool.query("DISCARD ALL")],
    [
      "that has become another (08P01)",
      async ([name]: string[]) => pool.query(`DEALLOCATE "${name}"; PREPARE "${name}" AS SELECT $1::integer`),
    ],
    [
      "whose result has changed (0A000)",
      async () => {
        const [found] = await schema.query<{ types: string }>(
          "SELECT oidvectortypes(proargtypes) AS types FROM pg_proc WHERE oid = '$schema.append_single'::regproc",
        );
        await schema.query(REPLACED.replace("$types", found?.types ?? ""));
      },
    ],
  ])("an append meets one %s: it is there once, and so are the next", async (_, change) => {
    const sent: (string | undefined)[] = [];
    expect(await append(store, write("session/a", 1, [1]))).toMatchObject(ok);
    await change(await keptNames());
    const client = await pool.connect();
    const query = client.query.bind(client) as (config: { name?: string }) => unknown;
    Object.assign(client, {
      query: (config: { name?: string }) => {
        sent.push(config.name);
        return query(config);
      },
    });
    client.release();
    const second = batchOf(write("session/a", 2, [2]));
    expect(await store.append(second)).toMatchObject(ok);
    expect(await store.append(second)).toMatchObject({ outcome: "ok", resent: true });
    for (let seq = 3; seq < 6; seq++)
      expect(await append(store, write("session/a", seq, [seq]))).toMatchObject(ok);
    expect(await eventsOf(store, "session/a")).toEqual([0, 1, 2, 3, 4, 5]);
    expect(sent[0]).toContain("append_single");
    expect(sent.slice(1).filter(Boolean)).toEqual([]);
  });

  test("somebody has taken the name already (42P05): it is there once", async () => {
    await append(store, write("session/a", 1, [1]));
    const [name] = await keptNames();
    const fresh = new pg.Pool({ connectionString: schema.url, max: 1 });
    await fresh.query(`PREPARE "${name}" AS SELECT 1`);
    const other = await schema.open({ pool: fresh, notify: false });
    for (let seq = 2; seq < 5; seq++)
      expect(await append(other, write("session/a", seq, [seq]))).toMatchObject(ok);
    expect(await eventsOf(other, "session/a")).toEqual([0, 1, 2, 3, 4]);
    await other.close();
    await fresh.end();
  });

  test("a schema that was dropped and made again is another store, and is not written to", async () => {
    await append(store, write("session/a", 1, [1]));
    await schema.query("DROP SCHEMA $schema CASCADE");
    const second = await schema.open();
    for (let seq = 0; seq < 2; seq++) await append(second, write("session/a", seq, ["theirs"]));
    await expect(append(store, write("session/a", 2, ["ours"]))).rejects.toMatchObject({
      code: "STORE_REPLACED",
    });
    expect(await eventsOf(second, "session/a")).toEqual(["theirs", "theirs"]);
  });
});

describe("what is asked arrives as it was said", () => {
  const pools: pg.Pool[] = [];
  /** How many were made for the last of them. */
  let connections = 0;

  afterEach(async () => {
    await Promise.all(pools.splice(0).map((pool) => pool.end()));
  });

  function databaseOn(
    options: pg.PoolConfig & { readonly pipeline?: boolean },
    statementMs = 30_000,
  ): Database {
    const pool = new pg.Pool({ connectionString: serverUrl(), max: 1, ...options });
    pools.push(pool);
    connections = 0;
    pool.on("connect", () => {
      connections += 1;
    });
    return new Database(pool, false, "test", "nowhere", { busyMs: 30_000, statementMs });
  }

  /** As drivers for other places than Node have them. */
  const socketWithoutCork = (): Socket => Object.assign(new Socket(), { cork: undefined, uncork: undefined });

  const ECHO = {
    name: "echo",
    text: "SELECT jsonb_build_array($1::text, $2::text, encode($3::bytea, 'hex'), $4::integer)::text",
  };
  const text = fc.oneof(
    fc.string({ unit: anyCodePoint, maxLength: 200 }),
    fc.string({ maxLength: 70 }),
    fc.constantFrom(
      "",
      "é".repeat(64),
      "é".repeat(65),
      "x".repeat(64),
      "x".repeat(65),
      "\u{1f512}".repeat(40),
    ),
  );
  const said = fc.tuple(
    fc.option(text.map((each) => each.replaceAll("\0", ""))),
    fc.option(text.map((each) => each.replaceAll("\0", ""))),
    fc.option(fc.uint8Array({ maxLength: 5_000 }).map((bytes) => Buffer.from(bytes))),
    fc.option(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(String)),
  );

  test.each([
    ["kept", {}, ECHO],
    ["in full", {}, { ...ECHO, name: "" }],
    ["by a client that has several queries on their way", { pipeline: true }, ECHO],
    ["by one whose queries have a time limit", { query_timeout: 30_000 }, ECHO],
    ["by one whose socket cannot hold back what is written", { stream: socketWithoutCork }, ECHO],
  ])("%s", async (_, options, statement) => {
    const database = databaseOn(options);
    await fc.assert(
      fc.asyncProperty(said, async (values) => {
        const [one, other, bytes, number] = values;
        const answer = await database.ask(statement, values);
        expect(JSON.parse(answer ?? "")).toEqual([
          one,
          other,
          bytes?.toString("hex") ?? null,
          number === null ? null : Number(number),
        ]);
      }),
    );
    expect(connections).toBe(1);
    await database.close();
  });

  test("one that is refused leaves the connection to the next", async () => {
    const database = databaseOn({});
    const wrong = { name: "wrong", text: "SELECT 1 / $1::integer" };
    for (let times = 0; times < 2; times++) {
      await expect(database.ask(wrong, ["0"])).rejects.toMatchObject({ fate: "refused" });
      expect(await database.ask(wrong, ["1"])).toBe("1");
    }
    await expect(database.ask({ name: "", text: "SELEC" }, [])).rejects.toMatchObject({ fate: "refused" });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    expect(pools[0]?.totalCount).toBe(1);
    await database.close();
  });

  test("one that cannot be sent is lost, and nobody waits for its connection", async () => {
    const database = databaseOn({});
    const unfit = [{}, null, null, null] as unknown as (string | null)[];
    await expect(database.ask(ECHO, unfit)).rejects.toMatchObject({ fate: "lost" });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });

  test("one that the caller's client throws at is lost, and nobody waits for its connection", async () => {
    let isThrowing = true;
    class Instrumented extends pg.Client {
      override query = ((...said: Parameters<pg.Client["query"]>) => {
        if (isThrowing) throw new Error("no span for this query");
        return super.query(...said);
      }) as unknown as pg.Client["query"];
    }
    const database = databaseOn({ Client: Instrumented });
    await expect(database.ask(ECHO, ["a", null, null, "1"])).rejects.toMatchObject({ fate: "lost" });
    isThrowing = false;
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });

  test.each([
    ["", {}],
    [" by a client that has several queries on their way", { pipeline: true }],
  ])("an answer without a row%s is none", async (_, options) => {
    const database = databaseOn(options);
    const none = { name: "none", text: "SELECT $1 WHERE false" };
    await expect(database.ask(none, ["1"])).rejects.toMatchObject({ fate: "lost" });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });

  test("a time limit that no timer can have is none", async () => {
    const warned: Error[] = [];
    const note = (warning: Error): number => warned.push(warning);
    process.on("warning", note);
    const database = databaseOn({}, 1e12);
    expect(await database.ask({ name: "", text: "SELECT pg_sleep($1)::text" }, ["0.1"])).toBe("");
    process.off("warning", note);
    expect(warned).toEqual([]);
    await database.close();
  });

  test("one that the caller's pool gives up in time is lost, and so is its connection", async () => {
    const database = databaseOn({ query_timeout: 100 });
    await expect(database.ask({ name: "", text: "SELECT pg_sleep($1)::text" }, ["5"])).rejects.toMatchObject({
      fate: "lost",
    });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });
});

describe("through a pooler that knows nothing of prepared statements", () => {
  let server: PostgresServer;
  let pooler: SwappingPooler;

  beforeAll(async () => {
    server = await PostgresServer.start();
    pooler = await SwappingPooler.before(server, 3);
  });

  afterAll(async () => {
    await pooler.stop();
    await server.stop();
  });

  test.each([
    ["one writer alone", 1, 1, ["26000"]],
    ["many that never pause", 4, 12, ["26000", "42P05"]],
  ])("%s: every event is there once, in order", async (_, handles, writers, states) => {
    const schema = new TestSchema(pooler.url);
    const stores = await Promise.all(Array.from({ length: handles }, () => schema.open({ notify: false })));
    const streams = Array.from({ length: writers }, (_each, index) => `session/s${index}`);
    const events = Array.from({ length: 30 }, (_each, seq) => seq);
    pooler.refusals.length = 0;
    await Promise.all(
      streams.map(async (stream, index) => {
        const store = stores[index % stores.length] as Store;
        for (const seq of events) {
          const heads = [{ generation: 1, seq: seq + 1 }];
          expect(await append(store, write(stream, seq, [seq]))).toEqual({ ...ok, heads });
        }
      }),
    );
    for (const stream of streams) expect(await eventsOf(stores[0] as Store, stream)).toEqual(events);
    // Once is enough for a store to know, but each of its flights may be on its way already.
    expect(pooler.refusals.length).toBeGreaterThanOrEqual(1);
    expect(pooler.refusals.length).toBeLessThanOrEqual(4 * handles);
    for (const state of pooler.refusals) expect(states).toContain(state);
    await schema.dispose();
  });

  const TOPICS: readonly StoreTopic[] = ["append", "guards and fencing", "resend of a batch"];

  test.each(TOPICS)("the contract holds: %s", async (topic) => {
    const subject = postgresForTest(pooler.url);
    const cases = storeSuite({ name: "through a pooler", open: () => subject.open() });
    const chosen = cases.filter((each) => each.topic === topic);
    expect(chosen.length).toBeGreaterThan(0);
    for (const each of chosen) await each.run();
    await subject.dispose();
  });
});
