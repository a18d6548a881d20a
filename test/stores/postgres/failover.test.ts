// The primary dies and its standby takes over. A synchronous standby loses nothing. With an asynchronous
// one, every process that was acknowledged a lost write notices.

import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { open, tool } from "../../../src/index.ts";
import type { Store } from "../../../src/store.ts";
import { append, headSeq, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { CuttingProxy } from "./proxy.ts";
import { TestSchema } from "./schema.ts";
import { Pair } from "./standby.ts";

/** Each test starts two servers, one as a copy of the other. */
const LIMIT_MS = 180_000;

let pair: Pair;
let proxy: CuttingProxy;
let schema: TestSchema;

async function start(): Promise<void> {
  pair = await Pair.start();
  proxy = await CuttingProxy.to(pair.primary.port);
  schema = new TestSchema(pair.primary.tcpUrl(proxy.port));
}

async function stop(): Promise<void> {
  await schema.close();
  await schema.pool.end();
  await proxy.close();
  await pair.stop();
}

async function failOver(): Promise<void> {
  await pair.primary.kill();
  proxy.goDown();
  // Like a host name that moves: clients reach the standby before it is promoted.
  proxy.comeBack(pair.standby.port);
  const standby = new TestSchema(pair.standby.url);
  const named = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'holdfast %'";
  await vi.waitFor(async () => expect((await standby.query(named)).length).toBeGreaterThan(0), 30_000);
  await standby.pool.end();
  await pair.promote();
}

async function eventsOf(store: Store, stream: string): Promise<unknown[]> {
  const { writes } = await store.read({ namespace: NAMESPACE, stream, after: 0 });
  return writes.flatMap(({ payload }) => JSON.parse(payload as string) as unknown[]);
}

describe("a synchronous standby", { timeout: LIMIT_MS }, () => {
  beforeAll(async () => {
    await start();
    await pair.makeSynchronous();
  }, LIMIT_MS);
  afterAll(stop, LIMIT_MS);

  test("that is away delays every acknowledgement, also after a lost connection", async () => {
    const store = await schema.open({ busyMs: 60_000 });
    await append(store, write("session/away", 0, [1]));
    await pair.standby.kill();
    const direct = new TestSchema(pair.primary.url);
    const waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    const waiting = async (count: number): Promise<number[]> => {
      return vi.waitFor(async () => {
        const rows = await direct.query<{ pid: number }>(waits);
        expect(rows).toHaveLength(count);
        return rows.map(({ pid }) => pid);
      }, 30_000);
    };
    let answer: unknown = null;
    const appending = append(store, write("session/away", 1, [2])).then((outcome) => {
      answer = outcome;
    });
    const [first] = await waiting(1);
    // Committed on the primary alone. A second request there would find it.
    await direct.query("SELECT pg_terminate_backend($1)", [first]);
    const [second] = await vi.waitFor(async () => {
      const found = await waiting(1);
      expect(found).not.toContain(first);
      return found;
    }, 30_000);
    expect(second).toBeDefined();
    expect(answer).toBeNull();
    await pair.standby.resume();
    await appending;
    expect(answer).toMatchObject({ outcome: "ok", resent: true });
    await direct.pool.end();
  });

  test("takes over in the middle of work: no acknowledged event is lost, no effect is doubled", async () => {
    const store = await schema.open({ busyMs: 60_000, maxConnections: 6 });
    const holdfast = await open(undefined, { store });
    const world: string[] = [];
    const charge = tool({
      name: "charge",
      description: "Charge",
      input: z.object({ order: z.string() }),
      effect: "mutate",
      execute: ({ order }) => {
        world.push(order);
        return { paid: order };
      },
    });
    let isDone = false;
    const agents = ["a", "b", "c"].map(async (name) => {
      const session = await holdfast.session(name);
      const orders: string[] = [];
      for (let count = 0; !isDone; count++) {
        const order = `${name}${count}`;
        const outcome = await session.call({ callId: `c${count}`, tool: charge, args: { order } });
        expect(outcome).toMatchObject({ status: "completed", replayed: false });
        orders.push(order);
      }
      await session.close();
      return orders;
    });
    let acknowledged = 0;
    const writer = (async () => {
      for (; !isDone; acknowledged++) {
        expect(await append(store, write("session/w", acknowledged, [acknowledged]))).toMatchObject({
          outcome: "ok",
        });
      }
    })();
    const moreOf = async (count: number): Promise<void> => {
      const before = { acknowledged, effects: world.length };
      await vi.waitFor(() => {
        expect(acknowledged).toBeGreaterThan(before.acknowledged + count);
        expect(world.length).toBeGreaterThan(before.effects + count);
      }, 40_000);
    };
    try {
      await moreOf(15);
      await failOver();
      await moreOf(15);
    } finally {
      isDone = true;
    }
    const orders = (await Promise.all(agents)).flat();
    await writer;
    expect([...world].sort()).toEqual([...orders].sort());
    expect(new Set(world).size).toBe(world.length);
    const events = await eventsOf(store, "session/w");
    expect(events).toEqual(Array.from({ length: acknowledged }, (_, seq) => seq));
    const { rows } = await store.list<"items">({
      of: "items",
      namespace: NAMESPACE,
      kind: "call",
      limit: 5_000,
    });
    expect(rows.filter(({ status }) => status === "completed")).toHaveLength(world.length);
    expect(await store.check()).toEqual([]);
  });
});

describe("an asynchronous standby that lost acknowledged writes", { timeout: LIMIT_MS }, () => {
  beforeAll(start, LIMIT_MS);
  afterAll(stop, LIMIT_MS);

  /** Acknowledges the last events while the standby is away; then the standby takes over. */
  async function loseLastCommits(work: () => Promise<void>): Promise<void> {
    await pair.standby.kill();
    await receiverEnded();
    await work();
    await pair.primary.kill();
    proxy.goDown();
    await pair.standby.resume();
    await pair.promote();
    proxy.comeBack(pair.standby.port);
  }

  /**
   * Waits for the standby's WAL receiver to end: it outlives the standby and would keep what must be lost.
   */
  async function receiverEnded(): Promise<void> {
    await vi.waitFor(async () => {
      expect(await schema.query("SELECT pid FROM pg_stat_replication")).toEqual([]);
    }, 30_000);
  }

  /** Waits until the standby has replayed everything. */
  async function catchUp(): Promise<void> {
    const [now] = await schema.query<{ at: string }>("SELECT pg_current_wal_lsn()::text AS at");
    const follower = new TestSchema(pair.standby.url);
    await vi.waitFor(async () => {
      const [row] = await follower.query<{ has: boolean }>(
        "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS has",
        [now?.at],
      );
      expect(row?.has).toBe(true);
    }, 30_000);
    await follower.pool.end();
  }

  test("is noticed by every process with such an acknowledgement, which starts no effect", async () => {
    const store = await schema.open({ busyMs: 60_000 });
    const holdfast = await open(undefined, { store });
    const session = await holdfast.session("goes-on");
    await session.append({ role: "user", text: "kept" });
    await append(store, write("session/a", 0, [1]));
    await append(store, write("session/b", 0, [1]));
    const take = { act: "take", namespace: NAMESPACE, name: "session/a", ttlMs: 60_000 } as const;
    await store.lease({ ...take, holder: holder("one") });
    await catchUp();
    await loseLastCommits(async () => {
      await session.append({ role: "user", text: "lost" });
      await append(store, write("session/a", 1, [2]));
      const taken = await store.lease({ ...take, holder: holder("two"), evict: 1 });
      expect(taken).toMatchObject({ outcome: "granted", lease: { token: 2 } });
    });
    const replaced = { code: "STORE_REPLACED", hint: expect.stringContaining("synchronous") };
    let effects = 0;
    const act = tool({
      name: "act",
      description: "Act",
      input: z.object({}),
      effect: "mutate",
      execute: () => {
        effects += 1;
      },
    });
    await expect(session.call({ callId: "c1", tool: act, args: {} })).rejects.toMatchObject(replaced);
    expect(effects).toBe(0);
    await expect(headSeq(store, "session/a")).rejects.toMatchObject(replaced);
    await expect(append(store, write("session/a", 2, [3]))).rejects.toMatchObject(replaced);
    await expect(store.lease({ ...take, holder: holder("three") })).rejects.toMatchObject(replaced);
    // A handle without acknowledgements cannot miss anything and continues with what is there.
    expect(await headSeq(store, "session/b")).toBe(1);
    expect(await eventsOf(await schema.open(), "session/a")).toEqual([1]);
  });
});
