// The server keeps the frequent statements prepared. If one is missing, or a pooler is in between, nothing
// is lost or done twice.

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

describe("on the caller's own connection", () => {
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

  async function preparedNames(): Promise<string[]> {
    const { rows } = await pool.query<{ name: string }>(
      "SELECT name FROM pg_prepared_statements ORDER BY name",
    );
    return rows.map(({ name }) => name);
  }

  test("only the frequent statements are left prepared, one name each", async () => {
    await append(store, write("session/b", 0, [0]));
    for (let seq = 1; seq < 20; seq++) {
      await Promise.all(["a", "b"].map((name) => append(store, write(`session/${name}`, seq, [seq]))));
    }
    await append(store, write("session/a", 20, [20]));
    expect(await preparedNames()).toEqual([
      expect.stringMatching(/^holdfast append_plain [0-9a-f]{24}$/),
      expect.stringMatching(/^holdfast append_single [0-9a-f]{24}$/),
    ]);
  });

  const REPLACED = `
    DROP FUNCTION $schema.append_single;
    CREATE FUNCTION $schema.append_single($types) RETURNS integer LANGUAGE sql AS 'SELECT 1'`;

  test.each([
    ["is gone (26000)", async () => pool.query("DEALLOCATE ALL")],
    ["is gone after DISCARD ALL (26000)", async () => pool.query("DISCARD ALL")],
    [
      "has become another statement (08P01)",
      async ([name]: string[]) => pool.query(`DEALLOCATE "${name}"; PREPARE "${name}" AS SELECT $1::integer`),
    ],
    [
      "has another result type (0A000)",
      async () => {
        const [found] = await schema.query<{ types: string }>(
          "SELECT oidvectortypes(proargtypes) AS types FROM pg_proc WHERE oid = '$schema.append_single'::regproc",
        );
        await schema.query(REPLACED.replace("$types", found?.types ?? ""));
      },
    ],
  ])("the prepared statement %s: the append and the next ones are stored once", async (_, change) => {
    const sent: (string | undefined)[] = [];
    expect(await append(store, write("session/a", 1, [1]))).toMatchObject(ok);
    await change(await preparedNames());
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

  test("the name is already taken (42P05): the append is stored once", async () => {
    await append(store, write("session/a", 1, [1]));
    const [name] = await preparedNames();
    const fresh = new pg.Pool({ connectionString: schema.url, max: 1 });
    await fresh.query(`PREPARE "${name}" AS SELECT 1`);
    const other = await schema.open({ pool: fresh, notify: false });
    for (let seq = 2; seq < 5; seq++)
      expect(await append(other, write("session/a", seq, [seq]))).toMatchObject(ok);
    expect(await eventsOf(other, "session/a")).toEqual([0, 1, 2, 3, 4]);
    await other.close();
    await fresh.end();
  });

  test("a schema that was dropped and created again is another store, and is not written to", async () => {
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

describe("values arrive unchanged", () => {
  const pools: pg.Pool[] = [];
  /** How many connections the last pool has made. */
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

  /** A socket as drivers for other runtimes than Node have it. */
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
  const values = fc.tuple(
    fc.option(text.map((each) => each.replaceAll("\0", ""))),
    fc.option(text.map((each) => each.replaceAll("\0", ""))),
    fc.option(fc.uint8Array({ maxLength: 5_000 }).map((bytes) => Buffer.from(bytes))),
    fc.option(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(String)),
  );

  test.each([
    ["with a prepared statement", {}, ECHO],
    ["with an unnamed statement", {}, { ...ECHO, name: "" }],
    ["by a client in pipeline mode", { pipeline: true }, ECHO],
    ["by a client with a query timeout", { query_timeout: 30_000 }, ECHO],
    ["by a client whose socket has no cork()", { stream: socketWithoutCork }, ECHO],
  ])("%s", async (_, options, statement) => {
    const database = databaseOn(options);
    await fc.assert(
      fc.asyncProperty(values, async (each) => {
        const [one, other, bytes, number] = each;
        const answer = await database.ask(statement, each);
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

  test("a statement that fails leaves the connection usable", async () => {
    const database = databaseOn({});
    const wrong = { name: "wrong", text: "SELECT 1 / $1::integer" };
    for (let times = 0; times < 2; times++) {
      await expect(database.ask(wrong, ["0"])).rejects.toMatchObject({ transaction: "rolled back" });
      expect(await database.ask(wrong, ["1"])).toBe("1");
    }
    await expect(database.ask({ name: "", text: "SELEC" }, [])).rejects.toMatchObject({
      transaction: "rolled back",
    });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    expect(pools[0]?.totalCount).toBe(1);
    await database.close();
  });

  test("an unsendable value makes the transaction unknown, and its connection is replaced", async () => {
    const database = databaseOn({});
    const unsendable = {
      toPostgres: () => {
        throw new Error("not a value");
      },
    };
    await expect(
      database.ask(ECHO, [unsendable, null, null, null] as unknown as (string | null)[]),
    ).rejects.toMatchObject({ transaction: "unknown" });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });

  test("a client that throws makes the transaction unknown, and its connection is replaced", async () => {
    let isThrowing = true;
    class Instrumented extends pg.Client {
      override query = ((...args: Parameters<pg.Client["query"]>) => {
        if (isThrowing) throw new Error("no span for this query");
        return super.query(...args);
      }) as unknown as pg.Client["query"];
    }
    const database = databaseOn({ Client: Instrumented });
    await expect(database.ask(ECHO, ["a", null, null, "1"])).rejects.toMatchObject({
      transaction: "unknown",
    });
    isThrowing = false;
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });

  test.each([
    ["", {}],
    [" by a client in pipeline mode", { pipeline: true }],
  ])("an answer without a row%s counts as unknown", async (_, options) => {
    const database = databaseOn(options);
    const none = { name: "none", text: "SELECT $1 WHERE false" };
    await expect(database.ask(none, ["1"])).rejects.toMatchObject({ transaction: "unknown" });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });

  test("a time limit above what a timer can have is no limit", async () => {
    const warned: Error[] = [];
    const note = (warning: Error): number => warned.push(warning);
    process.on("warning", note);
    const database = databaseOn({}, 1e12);
    expect(await database.ask({ name: "", text: "SELECT pg_sleep($1)::text" }, ["0.1"])).toBe("");
    process.off("warning", note);
    expect(warned).toEqual([]);
    await database.close();
  });

  test("a query timeout of the caller's pool makes the transaction unknown", async () => {
    const database = databaseOn({ query_timeout: 100 });
    await expect(database.ask({ name: "", text: "SELECT pg_sleep($1)::text" }, ["5"])).rejects.toMatchObject({
      transaction: "unknown",
    });
    expect(await database.ask(ECHO, ["a", null, null, "1"])).toBe('["a", null, null, 1]');
    await database.close();
  });
});

describe("through a pooler without support for prepared statements", () => {
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
    ["a single writer", 1, 1, ["26000"]],
    ["many writers that never pause", 4, 12, ["26000", "42P05"]],
  ])("%s: every event is stored once, in order", async (_, handles, writers, states) => {
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
    // A store learns from one failure, but several of its groups may be in flight already.
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
