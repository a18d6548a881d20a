// The server and the network fail at the worst moments: no acknowledged write is lost, and nothing happens
// twice.

import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { Holdfast, Journal } from "../../../src/index.ts";
import type { Batch, Store } from "../../../src/store.ts";
import { append, batchOf, headSeq, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { CuttingProxy } from "./proxy.ts";
import { TestSchema } from "./schema.ts";
import { PostgresServer } from "./server.ts";

let server: PostgresServer;
let proxy: CuttingProxy;
let schema: TestSchema;

beforeAll(async () => {
  server = await PostgresServer.start();
  proxy = await CuttingProxy.to(server.port);
  schema = new TestSchema(server.url);
  await schema.open();
});

afterAll(async () => {
  await schema.dispose();
  await proxy.close();
  await server.stop();
});

afterEach(() => schema.empty());

async function eventsOf(store: Store, stream: string): Promise<unknown[]> {
  const { writes } = await store.read({ namespace: NAMESPACE, stream, after: 0 });
  return writes.flatMap(({ payload }) => JSON.parse(payload as string) as unknown[]);
}

const throughProxy = (busyMs = 30_000): Promise<Store> =>
  schema.open({ url: server.tcpUrl(proxy.port), busyMs });

const PATIENCE_MS = 30_000;

/** For a store with a short `busyMs`, in which a busy machine may not even connect. */
function retried<Result>(act: () => Promise<Result>): Promise<Result> {
  return vi.waitFor(act, PATIENCE_MS);
}

describe("a lost connection", () => {
  /** The SQL of the first append to a stream, and of a later one. */
  const APPENDS = [
    ["the first event of a stream", "append_batches", 0],
    ["a later one", "append_single", 1],
  ] as const;

  async function begun(store: Store, seq: number): Promise<unknown[]> {
    if (seq === 0) return [];
    await append(store, write("session/a", 0, ["before"]));
    return ["before"];
  }

  test.each(APPENDS)(
    "right after COMMIT of %s: the batch is found, acknowledged and stored once",
    async (_, sql, seq) => {
      const store = await throughProxy();
      const before = await begun(store, seq);
      proxy.setTrap(sql, "reply");
      const cuts = proxy.cuts;
      const outcome = await append(store, write("session/a", seq, ["charged"]));
      expect(proxy.cuts).toBe(cuts + 1);
      expect(outcome).toEqual({ outcome: "ok", heads: [{ generation: 1, seq: seq + 1 }], resent: true });
      expect(await eventsOf(store, "session/a")).toEqual([...before, "charged"]);
    },
  );

  test("right after a supervisor took a dead session's lease: the crash is recorded", async () => {
    const agent = new Journal({ store: await schema.open(), leaseMs: 200 });
    const session = await new Holdfast(agent).session("order", { ttlMs: null });
    await session.append({ role: "user", text: "Pay order 4711" });
    agent.leases.stop();
    const supervisor = new Holdfast(new Journal({ store: await throughProxy() }));
    proxy.setTrap("take_lease", "reply");
    const cuts = proxy.cuts;
    const crashed = async () => (await supervisor.superviseOnce()).crashed;
    await expect.poll(crashed, { timeout: PATIENCE_MS, interval: 100 }).toEqual(["order"]);
    expect(proxy.cuts).toBe(cuts + 1);
  });

  test.each(APPENDS)(
    "before the server got %s: the batch is sent again and stored once",
    async (_, sql, seq) => {
      const store = await throughProxy();
      const before = await begun(store, seq);
      proxy.setTrap(sql, "request");
      const cuts = proxy.cuts;
      expect(await append(store, write("session/a", seq, [1]))).toMatchObject({
        outcome: "ok",
        resent: false,
      });
      expect(proxy.cuts).toBe(cuts + 1);
      expect(await eventsOf(store, "session/a")).toEqual([...before, 1]);
    },
  );

  test.each(APPENDS)(
    "after COMMIT of %s, for good: the outcome is unknown, and a later resend finds the batch",
    async (_, sql, seq) => {
      const store = await retried(() => throughProxy(300));
      const before = await begun(store, seq);
      const batch = batchOf(write("session/a", seq, ["charged"]));
      proxy.setTrap(sql, "reply", async () => proxy.goDown());
      await expect(store.append(batch)).rejects.toMatchObject({
        code: "STORE_IO",
        unknown: true,
        retryable: true,
      });
      proxy.comeBack();
      expect(await retried(async () => store.append(batch))).toMatchObject({ outcome: "ok", resent: true });
      expect(await retried(() => eventsOf(store, "session/a"))).toEqual([...before, "charged"]);
    },
  );

  test("before anything was sent: the outcome is not unknown", async () => {
    const store = await retried(() => throughProxy(300));
    proxy.goDown();
    try {
      // The first append may use a connection that is already dead. Then the pool is empty.
      await append(store, write("session/a", 0, [1])).catch(() => undefined);
      const failed = append(store, write("session/a", 0, [1]));
      await expect(failed).rejects.toMatchObject({ code: "STORE_IO", unknown: false });
    } finally {
      proxy.comeBack();
    }
    expect(await retried(() => headSeq(store, "session/a"))).toBe(0);
  });

  test.each(APPENDS)(
    "before %s, and another writer wins: the first rejection is reported as unknown, the next as certain",
    async (_, sql, seq) => {
      const [store, other] = [await throughProxy(), await schema.open()];
      const before = await begun(store, seq);
      const batch: Batch = batchOf(write("session/a", seq, ["mine"]));
      proxy.setTrap(sql, "request", () => append(other, write("session/a", seq, ["theirs"])));
      await expect(store.append(batch)).rejects.toMatchObject({ code: "STORE_IO", unknown: true });
      const head = { generation: 1, seq: seq + 1 };
      expect(await store.append(batch)).toMatchObject({ outcome: "conflict", head });
      expect(await eventsOf(store, "session/a")).toEqual([...before, "theirs"]);
    },
  );

  test("during leases and removals: each takes effect once", async () => {
    const store = await throughProxy();
    const ask = { act: "take", namespace: NAMESPACE, name: "session/a", ttlMs: 60_000 } as const;
    proxy.setTrap("take_lease", "reply");
    const taken = await store.lease({ ...ask, holder: holder("one") });
    expect(taken).toMatchObject({ outcome: "granted", lease: { token: 1 } });
    proxy.setTrap("release_lease", "reply");
    const lease = { lease: "session/a", token: 1 };
    expect(await store.lease({ act: "release", namespace: NAMESPACE, lease })).toMatchObject({
      wasOurs: true,
    });
    await append(store, write("session/a", 0, [1]));
    proxy.setTrap("remove_stream", "reply");
    const removal = { of: "stream", namespace: NAMESPACE, stream: "session/a" } as const;
    const outcome = await store.remove({ ...removal, expect: { generation: 1, seq: 1 } });
    expect(outcome).toEqual({ outcome: "removed", count: 1 });
  });

  test("silently: a connection without an answer is closed, and the request is sent again", async () => {
    const store = await retried(() =>
      schema.open({ url: server.tcpUrl(proxy.port), statementMs: 1_500, busyMs: 30_000 }),
    );
    let release = (): void => undefined;
    const silence = new Promise<void>((resolve) => {
      release = resolve;
    });
    proxy.setTrap("append_batches", "reply", () => silence);
    expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok", resent: true });
    release();
    expect(await retried(() => eventsOf(store, "session/a"))).toEqual([1]);
  });
});

test("killed backends neither lose nor double events of many writers", async () => {
  const victim = `victim-${schema.name.slice(-12)}`;
  const store = await schema.open({ url: `${server.url}&application_name=${victim}` });
  const streams = Array.from({ length: 8 }, (_, index) => `session/s${index}`);
  const kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
  let acknowledged = 0;
  let kills = 0;
  /** Kills all connections after every tenth answer, while other appends are in flight. */
  const appendWithRetry = async (batch: Batch): Promise<void> => {
    for (let isThere = false; !isThere; ) {
      const outcome = await Promise.resolve(store.append(batch)).catch((error: unknown) => {
        expect(error).toMatchObject({ code: "STORE_IO", unknown: true });
      });
      isThere = outcome?.outcome === "ok";
    }
    acknowledged += 1;
    if (acknowledged % 10 === 0) kills += (await schema.query(kill, [victim])).length;
  };
  await Promise.all(
    streams.map(async (stream) => {
      for (let seq = 0; seq < 15; seq++) await appendWithRetry(batchOf(write(stream, seq, [seq])));
    }),
  );
  expect(kills).toBeGreaterThan(5);
  for (const stream of streams) {
    expect(await eventsOf(store, stream)).toEqual(Array.from({ length: 15 }, (_, seq) => seq));
  }
  expect(await store.check()).toEqual([]);
});

test("a server that is killed and restarted has all acknowledged writes", async () => {
  const store = await schema.open({ busyMs: 60_000 });
  const streams = Array.from({ length: 4 }, (_, index) => `session/s${index}`);
  let acknowledged = 0;
  let isDone = false;
  const writing = Promise.all(
    streams.map(async (stream) => {
      let seq = 0;
      for (; !isDone; seq++) {
        expect(await append(store, write(stream, seq, [seq]))).toMatchObject({ outcome: "ok" });
        acknowledged += 1;
      }
      return seq;
    }),
  );
  const moreOf = async (count: number): Promise<void> => {
    const before = acknowledged;
    await vi.waitFor(() => expect(acknowledged).toBeGreaterThan(before + count), 40_000);
  };
  try {
    for (let round = 0; round < 2; round++) {
      await moreOf(20);
      await server.kill();
      await server.resume();
    }
    await moreOf(20);
  } finally {
    isDone = true;
  }
  const counts = await writing;
  for (const [index, stream] of streams.entries()) {
    expect(await eventsOf(store, stream)).toEqual(
      Array.from({ length: counts[index] ?? 0 }, (_, seq) => seq),
    );
  }
  expect(await store.check()).toEqual([]);
}, 180_000);

test("a schema that is dropped or replaced is noticed and not written to", async () => {
  const another = new TestSchema(server.url);
  const store = await another.open();
  await append(store, write("session/a", 0, [1]));
  await another.query("UPDATE $schema.meta SET value = 'another' WHERE name = 'store'");
  await expect(append(store, write("session/a", 1, [2]))).rejects.toMatchObject({ code: "STORE_REPLACED" });
  const ask = { act: "take", namespace: NAMESPACE, name: "session/a", ttlMs: 60_000 } as const;
  await expect(store.lease({ ...ask, holder: holder("one") })).rejects.toMatchObject({
    code: "STORE_REPLACED",
  });
  const artifact = {
    of: "artifact",
    namespace: NAMESPACE,
    hash: "0".repeat(64),
    bytes: Buffer.from("x"),
    at: 1,
  } as const;
  await expect(store.put(artifact)).rejects.toMatchObject({ code: "STORE_REPLACED" });
  await another.query("DROP SCHEMA $schema CASCADE");
  await expect(append(store, write("session/a", 1, [2]))).rejects.toMatchObject({
    code: "STORE_REPLACED",
    hint: expect.stringContaining("Stop all writers"),
  });
  await another.dispose();
});

describe("a lock that another transaction holds", () => {
  async function hold(stream: string): Promise<() => Promise<void>> {
    const client = await schema.pool.connect();
    await client.query("BEGIN");
    await client.query(`SELECT 1 FROM "${schema.name}".streams WHERE stream = $1 FOR UPDATE`, [stream]);
    return async () => {
      await client.query("ROLLBACK");
      client.release();
    };
  }

  test("blocks only its own stream, which fails with STORE_BUSY in time", async () => {
    const patient = await schema.open();
    for (const name of ["a", "b"]) await append(patient, write(`session/${name}`, 0, [1]));
    const store = await retried(() => schema.open({ busyMs: 500 }));
    // Opens all connections first, so that none has to be made within half a second.
    await retried(() => Promise.all([1, 2, 3, 4].map(() => headSeq(store, "session/a"))));
    const letGo = await hold("session/a");
    const blocked = append(store, write("session/a", 1, [2]));
    const beside = append(store, write("session/b", 1, [2]));
    await expect(blocked).rejects.toMatchObject({
      code: "STORE_BUSY",
      unknown: false,
      hint: expect.stringContaining("pg_stat_activity"),
    });
    expect(await beside).toMatchObject({ outcome: "ok" });
    expect(await append(store, write("session/b", 2, [3]))).toMatchObject({ outcome: "ok" });
    await letGo();
    expect(await append(store, write("session/a", 1, [2]))).toMatchObject({ outcome: "ok" });
  });

  test("is waited for, up to busyMs", async () => {
    const store = await schema.open({ busyMs: 60_000 });
    await append(store, write("session/a", 0, [1]));
    const letGo = await hold("session/a");
    const waiting = append(store, write("session/a", 1, [2]));
    await vi.waitFor(async () => {
      const waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
      expect(await schema.query(waits)).toHaveLength(1);
    }, PATIENCE_MS);
    await letGo();
    expect(await waiting).toMatchObject({ outcome: "ok" });
  });
});

test("a value that cannot be stored does not harm its neighbours", async () => {
  const store = await schema.open();
  const good = [0, 1, 2].map((index) => append(store, write(`session/s${index}`, 0, [1])));
  const bad = append(store, write("session/bad", 0, [1], { at: 1.5 }));
  await expect(bad).rejects.toMatchObject({ code: "BATCH_INVALID", unknown: false });
  for (const each of good) expect(await each).toMatchObject({ outcome: "ok" });
  expect(await headSeq(store, "session/bad")).toBe(0);
});
