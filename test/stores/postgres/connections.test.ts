// Connections are cached from one statement to the next. No caller may wait for a cached one, or get a
// broken one.

import { execFileSync } from "node:child_process";
import pg from "pg";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type Connection, Connections, Database } from "../../../src/stores/postgres/index.ts";
import { append, headSeq, write } from "../sqlite/acts.ts";
import { serverUrl, TestSchema } from "./schema.ts";

const PATIENCE_MS = 30_000;
/** Longer than a test may take. */
const LIMITS = { busyMs: 600_000, statementMs: 600_000 };

const pools: pg.Pool[] = [];

afterEach(async () => {
  // Skips a pool that still misses a connection: it would never end, and the test has failed already.
  const whole = pools
    .splice(0)
    .filter(({ ending, totalCount, idleCount }) => !ending && totalCount === idleCount);
  await Promise.all(whole.map((pool) => pool.end()));
});

function poolOf(max: number, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: serverUrl(), max, ...options });
  pool.on("error", () => undefined);
  pools.push(pool);
  return pool;
}

const connectionsOf = (pool: pg.Pool): Connections => new Connections(pool, false, PATIENCE_MS);
const databaseOn = (pool: pg.Pool, isOurs = false): Database =>
  new Database(pool, isOurs, "test", "nowhere", LIMITS);

const pidOf = ({ client }: Connection): number => (client as unknown as { processID: number }).processID;

/** Resolves after this turn of the event loop, when cached connections are back in the pool. */
const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    process.nextTick(() => setImmediate(() => setImmediate(resolve)));
  });

const nextTick = (): Promise<void> =>
  new Promise((resolve) => {
    process.nextTick(resolve);
  });

/** Expects each connection to be back in the pool or closed, and no waiting callers. */
async function expectAllBack(pool: pg.Pool, left: number): Promise<void> {
  await nextTurn();
  await vi.waitFor(() => expect(pool.totalCount).toBe(left), PATIENCE_MS);
  expect(pool.idleCount).toBe(left);
  expect(pool.waitingCount).toBe(0);
}

async function terminate(pid: number): Promise<void> {
  const other = new pg.Client(serverUrl());
  await other.connect();
  await other.query("SELECT pg_terminate_backend($1, $2)", [pid, PATIENCE_MS]);
  await other.end();
}

/** The same while the event loop of this process is blocked, so that it happens within one turn. */
function terminateWithinTurn(pid: number): void {
  const program = `
    const pg = require("node:module").createRequire(process.argv[1])("pg");
    const client = new pg.Client(process.argv[2]);
    client.connect()
      .then(() => client.query("SELECT pg_terminate_backend($1, ${PATIENCE_MS})", [process.argv[3]]))
      .then(() => client.end());`;
  execFileSync(process.execPath, ["-e", program, import.meta.url, serverUrl(), String(pid)]);
}

describe("a cached connection", () => {
  test("is available at once, and returns to the pool when the turn ends", async () => {
    const pool = poolOf(2);
    const connections = connectionsOf(pool);
    const first = await connections.take();
    connections.give(first);
    expect(pool.idleCount).toBe(0);
    expect(connections.take()).toBe(first);
    connections.give(first);
    await expectAllBack(pool, 1);
    expect(first.client.listeners("error")).not.toContain(first.break);
  });

  test("returns to the pool after a hundred uses", async () => {
    const pool = poolOf(2, { maxUses: 2 });
    let taken = 0;
    pool.on("acquire", () => {
      taken += 1;
    });
    const connections = connectionsOf(pool);
    const pids = new Set<number>();
    for (let use = 0; use < 400; use++) {
      const held = await connections.take();
      pids.add(pidOf(held));
      connections.give(held);
    }
    expect(taken).toBe(4);
    expect(pids.size).toBe(2);
    await expectAllBack(pool, 0);
  });

  test("is not given to two callers", async () => {
    const pool = poolOf(2);
    const connections = connectionsOf(pool);
    connections.give(await connections.take());
    const [one, two] = [await connections.take(), await connections.take()];
    expect(two).not.toBe(one);
    for (const held of [one, two]) connections.give(held);
    await expectAllBack(pool, 2);
  });

  test("that broke is replaced when it is taken", async () => {
    const pool = poolOf(1);
    const connections = connectionsOf(pool);
    const broken = await connections.take();
    connections.give(broken);
    broken.client.once("error", () => undefined);
    (broken.client as unknown as { connection: pg.Connection }).connection.stream.destroy(new Error("cut"));
    await nextTick();
    expect(broken.broken).toBeDefined();
    const next = await connections.take();
    expect(pidOf(next)).not.toBe(pidOf(broken));
    await next.client.query("SELECT 1");
    connections.give(next);
    await expectAllBack(pool, 1);
  });
});

describe("a caller that waits for a connection", () => {
  test("is served in order, also with a single connection", async () => {
    const pool = poolOf(1);
    const connections = connectionsOf(pool);
    const held = await connections.take();
    const served: number[] = [];
    const waiters = Array.from({ length: 20 }, async (_, index) => {
      const own = await connections.take();
      served.push(index);
      await own.client.query("SELECT 1");
      connections.give(own);
    });
    connections.give(held);
    await Promise.all(waiters);
    expect(served).toEqual(waiters.map((_, index) => index));
    await expectAllBack(pool, 1);
  });

  test.each([1, 3])("is served in order when the server ends all %i in use", async (max) => {
    const pool = poolOf(max);
    const database = databaseOn(pool);
    const asleep = Array.from({ length: max }, () => database.attempt("SELECT pg_sleep(600)", []));
    const outcomes = Promise.allSettled(asleep);
    const answered: number[] = [];
    const waiters = Array.from({ length: 12 }, async (_, index) => {
      const [row] = await database.attempt<{ index: number }>("SELECT $1::integer AS index", [index]);
      answered.push(row?.index ?? -1);
    });
    const other = poolOf(1);
    await vi.waitFor(async () => {
      const { rows } = await other.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()",
      );
      expect(rows).toHaveLength(max);
      await Promise.all(rows.map(({ pid }) => terminate(pid)));
    }, PATIENCE_MS);
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({
        status: "rejected",
        reason: { transaction: "unknown", state: "57P01" },
      });
    }
    await Promise.all(waiters);
    expect([...answered].sort((a, b) => a - b)).toEqual(waiters.map((_, index) => index));
    if (max === 1) expect(answered).toEqual(waiters.map((_, index) => index));
    await nextTurn();
    expect(pool.totalCount).toBe(pool.idleCount);
    expect(pool.totalCount).toBeLessThanOrEqual(max);
  });

  test.each([1, 3])("is served when the server ends the cached one of %i", async (max) => {
    const pool = poolOf(max);
    const database = databaseOn(pool);
    const [self] = await database.attempt<{ pid: number }>("SELECT pg_backend_pid() AS pid", []);
    expect(pool.idleCount).toBe(0);
    terminateWithinTurn(self?.pid ?? 0);
    const waiters = Array.from({ length: 6 }, (_, index) =>
      database.run<{ index: number }>("SELECT $1::integer AS index", [index]),
    );
    expect(await Promise.all(waiters)).toEqual(waiters.map((_, index) => [{ index }]));
    await nextTurn();
    await vi.waitFor(() => expect(pool.totalCount).toBe(pool.idleCount), PATIENCE_MS);
    expect(pool.totalCount).toBeLessThanOrEqual(max);
  });

  test("that gave up returns a connection that arrives later", async () => {
    const pool = poolOf(1);
    const own = await pool.connect();
    const hasty = new Connections(pool, false, 20);
    await expect(hasty.take()).rejects.toMatchObject({ transaction: "unsent" });
    own.release();
    await expectAllBack(pool, 1);
  });
});

test("a store on the caller's pool does not starve other users, even with one connection", async () => {
  const schema = new TestSchema();
  const pool = poolOf(1);
  const store = await schema.open({ pool, notify: false });
  await append(store, write("session/a", 0, [0]));
  let seq = 1;
  let isDone = false;
  const writer = (async () => {
    for (; !isDone; seq++) await append(store, write("session/a", seq, [seq]));
  })();
  for (let round = 0; round < 50; round++) {
    const before = seq;
    // At any moment, also while the connection is cached.
    for (let hops = 0; hops < round; hops++) await undefined;
    await pool.query("SELECT 1");
    // The append in flight, and the one that was queued before our request.
    expect(seq - before).toBeLessThanOrEqual(2);
  }
  isDone = true;
  await writer;
  expect(await headSeq(store, "session/a")).toBe(seq);
  await expectAllBack(pool, 1);
  await schema.dispose();
});

describe("closing", () => {
  test.each([true, false])("returns cached connections at once; own pool: %s", async (isOurs) => {
    const pool = poolOf(2);
    const database = databaseOn(pool, isOurs);
    await database.attempt("SELECT 1", []);
    expect(pool.idleCount).toBe(0);
    const closing = database.close();
    if (!isOurs) expect(pool.idleCount).toBe(1);
    await closing;
    expect(pool.totalCount).toBe(isOurs ? 0 : 1);
    expect(pool.listenerCount("connect")).toBe(isOurs ? 1 : 0);
  });

  test.each([true, false])("rejects all waiting callers; own pool: %s", async (isOurs) => {
    const pool = poolOf(1);
    const database = databaseOn(pool, isOurs);
    const busy = await pool.connect();
    const waiting = Array.from({ length: 3 }, () => database.attempt("SELECT 1", []));
    const ended = Promise.allSettled(waiting);
    const closing = database.close();
    for (const outcome of await ended) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { transaction: "unsent" } });
    }
    busy.release();
    await closing;
    if (isOurs) expect(pool.totalCount).toBe(0);
    else await expectAllBack(pool, 1);
  });

  test("waits for requests in flight, even with one connection", async () => {
    const schema = new TestSchema();
    const pool = poolOf(1);
    const store = await schema.open({ pool });
    const streams = Array.from({ length: 12 }, (_, index) => `session/s${index}`);
    const appends = streams.map((stream) => append(store, write(stream, 0, [1])));
    const reads = streams.map((stream) => headSeq(store, stream));
    const stranger = pool.query("SELECT 1 AS one");
    await Promise.all([store.close(), ...appends, ...reads]);
    expect((await stranger).rows).toEqual([{ one: 1 }]);
    for (const outcome of await Promise.all(appends)) expect(outcome).toMatchObject({ outcome: "ok" });
    await expectAllBack(pool, 1);
    await schema.dispose();
  });

  test("many stores on one pool leave no listeners and cause no warning", async () => {
    const warned: Error[] = [];
    const note = (warning: Error) => warned.push(warning);
    process.on("warning", note);
    const pool = poolOf(2);
    const databases = Array.from({ length: 20 }, () => databaseOn(pool));
    await Promise.all(databases.map((database) => database.attempt("SELECT 1", [])));
    await Promise.all(databases.map((database) => database.close()));
    await nextTurn();
    process.off("warning", note);
    expect(warned).toEqual([]);
    expect(pool.listenerCount("connect")).toBe(0);
    expect(pool.listenerCount("error")).toBe(1);
    await expectAllBack(pool, 2);
  });
});

test("an append without a client waits for one and does not block others", async () => {
  const schema = new TestSchema();
  const pool = poolOf(1);
  const store = await schema.open({ pool });
  await append(store, write("session/a", 0, [1]));
  await nextTurn();
  const connect = pool.connect.bind(pool) as () => Promise<pg.PoolClient>;
  let refusals = 0;
  // The driver throws like this if a file that the address names is gone.
  pool.connect = (() => {
    refusals += 1;
    if (refusals === 1) throw new Error("ENOENT: ca.pem");
    return connect();
  }) as typeof pool.connect;
  expect(await append(store, write("session/a", 1, [2]))).toMatchObject({ outcome: "ok" });
  expect(refusals).toBeGreaterThan(1);
  expect(await append(store, write("session/a", 2, [3]))).toMatchObject({ outcome: "ok" });
  await store.close();
  await schema.dispose();
});

test("closing waits for a notification in flight and its connection", async () => {
  const schema = new TestSchema();
  const pool = poolOf(1);
  let reach = (): void => undefined;
  let go = (): void => undefined;
  const reached = new Promise<void>((resolve) => (reach = resolve));
  const gone = new Promise<void>((resolve) => (go = resolve));
  const slowed = new WeakSet<pg.PoolClient>();
  pool.on("acquire", (client) => {
    if (slowed.has(client)) return;
    slowed.add(client);
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      if (!(args[0] as { text?: string }).text?.includes("pg_notify")) return query(...args);
      reach();
      return gone.then(() => query(...args));
    }) as typeof client.query;
  });
  const store = await schema.open({ pool });
  await append(store, write("session/a", 0, [1]));
  await reached;
  const closing = store.close().then(() => pool.idleCount);
  await nextTurn();
  go();
  expect(await closing).toBe(1);
  await schema.dispose();
});
