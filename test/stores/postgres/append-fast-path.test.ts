// A batch that continues an existing stream takes the fast path, with the same answers as the slow one. Each
// test first creates the stream, so that its next event takes the fast path.

import fc from "fast-check";
import pg from "pg";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { AppendOutcome, BatchLease, Item, Store, StreamFacets, Write } from "../../../src/store.ts";
import { append, batchOf, headSeq, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestSchema } from "./schema.ts";

const schema = new TestSchema();
let store: Store;

beforeEach(async () => {
  store = await schema.open({ notify: false, pool: schema.pool });
});

afterEach(() => schema.empty());
afterAll(() => schema.dispose());

async function create(...streams: string[]): Promise<void> {
  for (const stream of streams) await append(store, write(stream, 0, ["first"]));
}

async function take(name: string): Promise<void> {
  const ask = { act: "take", namespace: NAMESPACE, name, ttlMs: 60_000 } as const;
  await store.lease({ ...ask, holder: holder("me") });
}

/** A pool, and the texts of the statements that it sends. */
function watchedPool(): { pool: pg.Pool; sent: string[] } {
  const pool = new pg.Pool({ connectionString: schema.url, max: 4 });
  const sent: string[] = [];
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (config: { text: string }) => unknown;
    Object.assign(client, {
      query: (config: { text: string }) => {
        sent.push(config.text);
        return query(config);
      },
    });
  });
  return { pool, sent };
}

test("a batch with at most two items, as the end of a turn has, takes append_single and both are stored", async () => {
  await create("session/a");
  const { pool, sent } = watchedPool();
  const watched = await schema.open({ pool, notify: false });
  sent.length = 0;
  const call = (seq: number, id: string): Item => ({ kind: "call", id, seq, at: 1, doneAt: null });
  const ended = (seq: number, id: string): Item => ({ kind: "call", id, endSeq: seq, doneAt: seq });
  const rounds = [
    { takes: "append_single", items: [call(2, "x"), call(2, "y")] },
    { takes: "append_single", items: [ended(3, "x"), call(3, "z")] },
    { takes: "append_single", items: [call(4, "new"), ended(4, "y")] },
    { takes: "append_plain", items: [ended(5, "z"), ended(5, "new"), call(5, "last")] },
  ];
  for (const [index, { items }] of rounds.entries()) {
    const answer = await append(watched, write("session/a", index + 1, [index], { items }));
    expect(answer).toMatchObject({ outcome: "ok" });
  }
  const texts = rounds.map(({ takes }) => expect.stringContaining(takes));
  expect(sent.filter((each) => each.includes("append_"))).toEqual(texts);
  const { rows } = await watched.list({
    of: "items",
    namespace: NAMESPACE,
    kind: "call",
    stream: "session/a",
    limit: 9,
  });
  const ends = Object.fromEntries(rows.map((each) => [(each as { id: string }).id, each]));
  expect(ends).toMatchObject({
    x: { seq: 2, endSeq: 3, doneAt: 3 },
    y: { seq: 2, endSeq: 4, doneAt: 4 },
    z: { seq: 3, endSeq: 5, doneAt: 5 },
    new: { seq: 4, endSeq: 5, doneAt: 5 },
    last: { seq: 5, doneAt: null },
  });
  await watched.close();
  await pool.end();
});

test("an append to an existing stream costs one statement, also among many and with leases", async () => {
  const names = Array.from({ length: 6 }, (_, index) => `session/s${index}`);
  await create(...names);
  for (const name of names) await take(name);
  const { pool, sent } = watchedPool();
  const watched = await schema.open({ pool, notify: false });
  sent.length = 0;
  const item = { kind: "call", id: "c", seq: 2, at: 1, doneAt: null };
  const appends = names.map((name) =>
    append(watched, write(name, 1, [2], { guards: [{ lease: name, token: 1 }], items: [item] })),
  );
  expect(await Promise.all(appends)).toMatchObject(names.map(() => ({ outcome: "ok", resent: false })));
  expect(sent).toEqual([expect.stringContaining("append_plain")]);
  await watched.close();
  await pool.end();
});

const taking = (name: string, token: number, owner = "me"): BatchLease => {
  return { act: "take", name, token, holder: holder(owner), ttlMs: 60_000 };
};
const releasing = (name: string, token: number): BatchLease => ({ act: "release", name, token });

/** An append that also takes a lease, or releases the one that it needs. */
async function appendWith(
  through: Store,
  lease: BatchLease,
  stream: string,
  seq: number,
): Promise<AppendOutcome> {
  const isRelease = lease.act === "release";
  const guards = isRelease ? [{ lease: lease.name, token: lease.token }] : [];
  return through.append({ ...batchOf(write(stream, seq, [seq], { guards })), lease });
}

async function leaseRows(): Promise<unknown[]> {
  return schema.query("SELECT name, token::integer, owner FROM $schema.leases ORDER BY name");
}

test("appends that take and release leases cost one statement, alone and as a group", async () => {
  const names = Array.from({ length: 6 }, (_, index) => `session/s${index}`);
  await create(...names);
  for (const name of names) await appendWith(store, taking(name, 1), name, 1);
  const [first = ""] = names;
  const { pool, sent } = watchedPool();
  const watched = await schema.open({ pool, notify: false });
  sent.length = 0;
  await appendWith(watched, releasing(first, 1), first, 2);
  expect(await leaseRows()).toMatchObject([{ token: 1, owner: null }, ...names.slice(1).map(() => ({}))]);
  await appendWith(watched, taking(first, 2), first, 3);
  expect(sent).toEqual([1, 2].map(() => expect.stringContaining("append_single")));
  sent.length = 0;
  const both = names.map((name) =>
    name === first
      ? appendWith(watched, releasing(name, 2), name, 4)
      : appendWith(watched, releasing(name, 1), name, 2),
  );
  expect(await Promise.all(both)).toMatchObject(names.map(() => ({ outcome: "ok", resent: false })));
  const expected = names.map((name) => ({ name, token: name === first ? 2 : 1, owner: null }));
  expect(await leaseRows()).toEqual(expected);
  const again = names.map((name) =>
    appendWith(watched, taking(name, name === first ? 3 : 2), name, name === first ? 5 : 3),
  );
  expect(await Promise.all(again)).toMatchObject(names.map(() => ({ outcome: "ok", resent: false })));
  expect(await leaseRows()).toEqual(expected.map((row) => ({ ...row, token: row.token + 1, owner: "me" })));
  expect(sent).toEqual([1, 2].map(() => expect.stringContaining("append_plain")));
  await watched.close();
  await pool.end();
});

test.each([
  [99, "append_plain"],
  [100, "append_single"],
])("a store with busyMs %i sends a single batch with %s, which waits no longer", async (busyMs, sql) => {
  await create("session/a");
  const { pool, sent } = watchedPool();
  const hasty = await vi.waitFor(() => schema.open({ pool, notify: false, busyMs }), 30_000);
  await vi.waitFor(() => headSeq(hasty, "session/a"), 30_000);
  const holds = await schema.pool.connect();
  await holds.query("BEGIN");
  await holds.query(`SELECT 1 FROM "${schema.name}".streams FOR UPDATE`);
  sent.length = 0;
  const started = performance.now();
  const busy = { code: "STORE_BUSY", unknown: false };
  await expect(append(hasty, write("session/a", 1, [2]))).rejects.toMatchObject(busy);
  expect(performance.now() - started).toBeGreaterThanOrEqual(busyMs);
  expect(sent.slice(0, 2)).toEqual([expect.stringContaining(sql), expect.stringContaining("append_batches")]);
  await holds.query("ROLLBACK");
  holds.release();
  expect(await append(hasty, write("session/a", 1, [2]))).toMatchObject({ outcome: "ok" });
  await hasty.close();
  await pool.end();
});

describe("in a group with rejected batches", () => {
  const ok: Partial<AppendOutcome> = { outcome: "ok", resent: false };

  test("a stale batch, a resent one and one with a lost lease: each gets its own answer", async () => {
    await create("session/a", "session/b", "session/c", "session/d");
    await take("session/a");
    const sent = batchOf(write("session/b", 1, ["sent"]));
    await store.append(sent);
    await append(store, write("session/c", 1, ["newer"]));
    const guards = (token: number) => ({ guards: [{ lease: "session/a", token }] });
    const outcomes = await Promise.all([
      append(store, write("session/a", 1, ["guarded"], guards(1))),
      store.append(sent),
      append(store, write("session/c", 1, ["stale"])),
      append(store, write("session/d", 1, ["zombie"], guards(7))),
    ]);
    expect(outcomes).toMatchObject([
      ok,
      { outcome: "ok", resent: true },
      { outcome: "conflict", stream: "session/c", head: { generation: 1, seq: 2 } },
      { outcome: "fenced", lease: "session/a", now: { token: 1 } },
    ]);
    const seqs = ["a", "b", "c", "d"].map((name) => headSeq(store, `session/${name}`));
    expect(await Promise.all(seqs)).toEqual([2, 2, 2, 1]);
    expect(await store.check()).toEqual([]);
  });

  test("a stale batch neither takes nor releases its lease", async () => {
    const names = ["a", "b", "c", "d"].map((name) => `session/${name}`);
    await create(...names);
    await take("session/a");
    const outcomes = await Promise.all([
      appendWith(store, releasing("session/a", 1), "session/a", 9),
      appendWith(store, taking("session/b", 1), "session/b", 9),
      append(store, write("session/c", 1, ["good"])),
      append(store, write("session/d", 1, ["good"])),
    ]);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(["conflict", "conflict", "ok", "ok"]);
    expect(await leaseRows()).toEqual([{ name: "session/a", token: 1, owner: "me" }]);
  });

  test("of two batches that take one lease, one wins; a lease of another is not taken", async () => {
    const names = ["a", "b", "c", "d"].map((name) => `session/${name}`);
    await create(...names);
    await take("session/a");
    const free = { act: "release", namespace: NAMESPACE, lease: { lease: "session/a", token: 1 } } as const;
    await store.lease(free);
    await take("session/d");
    const outcomes = await Promise.all([
      appendWith(store, taking("session/a", 2, "one"), "session/a", 1),
      appendWith(store, taking("session/a", 2, "two"), "session/b", 1),
      append(store, write("session/c", 1, ["good"])),
      appendWith(store, taking("session/d", 2, "thief"), "session/d", 1),
    ]);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(["ok", "fenced", "ok", "fenced"]);
    expect(await leaseRows()).toEqual([
      { name: "session/a", token: 2, owner: "one" },
      { name: "session/d", token: 1, owner: "me" },
    ]);
    expect(await store.check()).toEqual([]);
  });

  test("only the stale batches are rejected", async () => {
    const names = Array.from({ length: 12 }, (_, index) => `session/s${index}`);
    await create(...names);
    const isStale = (index: number) => index % 3 === 1;
    const outcomes = await Promise.all(
      names.map((name, index) => append(store, write(name, isStale(index) ? 5 : 1, [index]))),
    );
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(
      names.map((_, index) => (isStale(index) ? "conflict" : "ok")),
    );
    expect(await store.check()).toEqual([]);
  });

  test("a removed or hidden stream accepts no events", async () => {
    await create("session/gone", "session/hidden");
    const fork = { stream: "session/hidden", generation: 1, seq: 1 };
    await append(store, write("session/fork", 1, ["fork"], { fork }));
    for (const stream of ["session/gone", "session/hidden"]) {
      const expected = { generation: 1, seq: 1 };
      await store.remove({ of: "stream", namespace: NAMESPACE, stream, expect: expected });
    }
    expect(await append(store, write("session/gone", 1, ["late"]))).toMatchObject({
      outcome: "conflict",
      head: { generation: 2, seq: 0 },
    });
    expect(await append(store, write("session/hidden", 1, ["late"]))).toMatchObject({
      outcome: "conflict",
      head: { generation: 1, seq: 1 },
    });
  });
});

const HOSTILE = [
  '"',
  "\\",
  '\\"',
  "{}",
  "{a,b}",
  "NULL",
  "null",
  "",
  " ",
  ",",
  "'",
  "\n",
  "\u{1f600}",
  "\0",
  "\ud800",
  "$1",
];

test("any text is stored unchanged", async () => {
  for (const [index, text] of HOSTILE.entries()) {
    const stream = `session/s${index}`;
    await create(stream);
    const facets: StreamFacets = { status: text, title: text, goal: text, budget: text };
    const item: Item = {
      kind: "note",
      id: text,
      status: text,
      name: text,
      key: text,
      seq: 2,
      at: 1,
      doneAt: null,
    };
    await append(store, write(stream, 1, [text], { facets, items: [item] }));
    const { stream: row, writes } = await store.read({ namespace: NAMESPACE, stream, after: 1 });
    expect(row.facets).toMatchObject(facets);
    expect(writes.map(({ payload }) => JSON.parse(payload as string))).toEqual([[text]]);
    const listed = await store.list({ of: "items", namespace: NAMESPACE, kind: "note", stream, limit: 9 });
    expect(listed.rows).toMatchObject([item]);
  }
  const bytes = new Uint8Array([0, 255, 34, 92]);
  await create("session/bytes");
  await append(store, write("session/bytes", 1, [1], { payload: bytes, codec: 'a"\\,b' }));
  const { writes } = await store.read({ namespace: NAMESPACE, stream: "session/bytes", after: 1 });
  expect(writes).toMatchObject([{ payload: bytes, codec: 'a"\\,b' }]);
});

test("facets that a write leaves out keep their value, and null clears them", async () => {
  const facets = { status: "s", title: "t", goal: "g", openCalls: 0, expiresAt: 77, budget: "{}" };
  await append(store, write("session/a", 0, [1], { facets }));
  const seen = async () =>
    (await store.read({ namespace: NAMESPACE, stream: "session/a", after: 0 })).stream.facets;
  await append(store, write("session/a", 1, [2]));
  expect(await seen()).toEqual(facets);
  await append(
    store,
    write("session/a", 2, [3], { facets: { title: null, expiresAt: null, status: "new" } }),
  );
  expect(await seen()).toEqual({ ...facets, title: null, expiresAt: null, status: "new" });
});

test.each<[string, Partial<Write>]>([
  ["a negative number of open calls", { facets: { openCalls: -1 } }],
  ["open calls that are no number", { facets: { openCalls: Number.NaN } }],
  ["half an open call", { facets: { openCalls: 0.5 } }],
  ["an item before the first event", { items: [{ kind: "call", id: "c", seq: 0, doneAt: null }] }],
  ["an item that ends before the first event", { items: [{ kind: "call", id: "c", endSeq: -1, doneAt: 1 }] }],
  ["half a millisecond", { at: 1.5 }],
])("%s: only that batch is rejected, in a new stream and in an old one", async (_, parts) => {
  await create("session/a", "session/b");
  const bad = [write("session/a", 1, [1], parts), write("session/new", 0, [1], parts)];
  const good = append(store, write("session/b", 1, ["good"]));
  const refused = { status: "rejected", reason: { code: "BATCH_INVALID", unknown: false } };
  const outcomes = await Promise.allSettled(bad.map((each) => append(store, each)));
  expect(outcomes).toMatchObject([refused, refused]);
  expect(await good).toMatchObject({ outcome: "ok" });
  expect([await headSeq(store, "session/a"), await headSeq(store, "session/new")]).toEqual([1, 0]);
});

describe("streams with open calls", () => {
  const opened = (id: string): Item => ({ kind: "call", id, seq: 1, at: 1, doneAt: null });
  const closed = (id: string): Item => ({ kind: "call", id, endSeq: 1, doneAt: 2 });

  /** Every combination of number and items, in turn. */
  const writes: Partial<Write>[] = [
    { facets: { openCalls: 2 }, items: [opened("a"), opened("b")] },
    { items: [closed("a")] },
    { facets: { openCalls: 1 } },
    {},
    { items: [closed("b")] },
    { facets: { openCalls: 0 } },
    { facets: { openCalls: 1 }, items: [opened("c")] },
    { facets: { openCalls: 0 }, items: [closed("c")] },
    { facets: { openCalls: 3 } },
    { items: [opened("d")] },
    { facets: { openCalls: 0 } },
  ];

  test.each([0, 1, 2, 3])(
    "are listed by openCalls, whatever their items are (%i events before)",
    async (before) => {
      for (let seq = 0; seq < before; seq++) await append(store, write("session/a", seq, [seq]));
      let isOpen = false;
      for (const [index, parts] of writes.entries()) {
        await append(store, write("session/a", before + index, [index], parts));
        isOpen = (parts.facets?.openCalls ?? (isOpen ? 1 : 0)) > 0;
        const asked = { of: "streams", namespace: NAMESPACE, openCalls: true, limit: 9 } as const;
        const { rows } = await store.list<"streams">(asked);
        expect({ index, listed: rows.map(({ stream }) => stream) }).toEqual({
          index,
          listed: isOpen ? ["session/a"] : [],
        });
      }
    },
  );

  test("begin and end as HOT updates, without a change to an index of streams", async () => {
    const own = new TestSchema();
    const alone = await own.open({ notify: false });
    await append(alone, write("session/a", 0, ["first"]));
    const changes = async () => {
      const [row] = await own.query<{ hot: string; all: string }>(
        `SELECT n_tup_hot_upd AS hot, n_tup_upd AS all FROM pg_stat_user_tables
         WHERE schemaname = $1 AND relname = 'streams'`,
        [own.name],
      );
      return { hot: Number(row?.hot), all: Number(row?.all) };
    };
    for (let call = 0; call < 20; call++) {
      const id = `c${call}`;
      // The same second each time, so that the index by latest change does not change either.
      const at = 1_700_000_000_000;
      const issue = { at, facets: { openCalls: 1 }, items: [opened(id)] };
      const settle = { at, facets: { openCalls: 0 }, items: [closed(id)] };
      await append(alone, write("session/a", 1 + 2 * call, ["issued"], issue));
      await append(alone, write("session/a", 2 + 2 * call, ["completed"], settle));
    }
    // A connection reports its statistics when it ends, a moment after its client has gone.
    await own.close();
    const { hot, all } = await vi.waitFor(async () => {
      const seen = await changes();
      expect(seen.all).toBeGreaterThanOrEqual(40);
      return seen;
    }, 30_000);
    expect(all - hot).toBeLessThanOrEqual(3);
    await own.dispose();
  });
});

describe("random batches", () => {
  const text = fc.constantFrom(...HOSTILE, "a", "b");
  const some = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
  const seq = fc.integer({ min: 1, max: 9 });
  const item = fc.record(
    {
      kind: fc.constantFrom("call", "note"),
      id: fc.constantFrom("1", "2"),
      doneAt: fc.option(fc.nat()),
      seq,
      endSeq: seq,
      status: text,
      name: text,
      key: text,
      at: fc.nat(),
    },
    { requiredKeys: ["kind", "id", "doneAt"] },
  );
  const items = fc.uniqueArray(item, { selector: ({ kind, id }) => kind + id, maxLength: 3 });
  const facets = fc.record(
    {
      openCalls: fc.integer({ min: 0, max: 3 }),
      expiresAt: fc.option(fc.nat()),
      status: fc.option(text),
      title: fc.option(text),
      goal: fc.option(text),
      budget: fc.option(text),
    },
    { requiredKeys: [] },
  );
  const payload = fc.oneof(
    text.map((each) => JSON.stringify([each])),
    fc.uint8Array({ maxLength: 20 }),
  );
  const parts = fc.record(
    { facets: some(facets), items: some(items), payload, codec: fc.option(text), at: fc.nat() },
    { requiredKeys: ["payload", "codec", "at"] },
  ) as fc.Arbitrary<Partial<Write>>;
  /** What the batch does with the lease of its stream, if anything. */
  const act = fc.constantFrom("none", "guard", "take", "release");

  /** Everything that is stored in the streams whose names start with `prefix`. */
  async function contents(prefix: string): Promise<unknown> {
    const name = `replace(stream, '${prefix}', '')`;
    const tables = {
      streams: `SELECT ${name} AS stream, seq, updated_at, updated_second, open_calls, is_marked_open, expires_at,
        status, title, goal, budget FROM $schema.streams`,
      writes: `SELECT ${name} AS stream, first, last, at, sum, codec, payload, bytes FROM $schema.writes`,
      items: `SELECT ${name} AS stream, kind, id, seq, end_seq, at, done_at, status, name, key FROM $schema.items`,
      leases: `SELECT ${name} AS stream, token, owner, holder, ttl, expires_at > 0 AS expires
        FROM (SELECT name AS stream, * FROM $schema.leases) AS leases`,
    };
    const read = (sql: string) => schema.query(`${sql} WHERE stream LIKE '${prefix}%' ORDER BY 1, 2, 3`);
    return Promise.all(Object.values(tables).map(read));
  }

  test("leave the same rows on the fast path, alone or in a group, and on the slow path", async () => {
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(parts, act), { minLength: 1, maxLength: 6 }), async (batches) => {
        const run = runs++;
        const prefixes = ["one", "group", "slow"].map((path) => `session/${path}-${run}-`);
        const [one, group, slow] = prefixes as [string, string, string];
        const names = batches.map((_, index) => String(index));
        await create(...prefixes.flatMap((prefix) => names.map((name) => prefix + name)));
        for (const prefix of prefixes) {
          for (const name of names) {
            await take(prefix + name);
            const lease = { lease: prefix + name, token: 1 };
            const isFree = batches[Number(name)]?.[1] === "take";
            if (isFree) await store.lease({ act: "release", namespace: NAMESPACE, lease });
          }
        }
        const send = (prefix: string, name: string, extra: Partial<Write> = {}) => {
          const stream = prefix + name;
          const [part, does] = batches[Number(name)] as [Partial<Write>, string];
          const needs = does === "guard" || does === "release";
          const guards = needs ? [{ lease: stream, token: 1 }] : [];
          const batch = batchOf(write(stream, 1, [1], { ...part, guards, ...extra }));
          if (does === "take") return store.append({ ...batch, lease: taking(stream, 2, "next") });
          if (does === "release") return store.append({ ...batch, lease: releasing(stream, 1) });
          return store.append(batch);
        };
        for (const name of names) expect(await send(one, name)).toMatchObject({ outcome: "ok" });
        await Promise.all(names.map((name) => send(group, name)));
        // Releasing a key, even one that does not exist, is for the slow path only.
        await Promise.all(names.map((name) => send(slow, name, { releases: ["no such key"] })));
        const expected = await contents(slow);
        expect(await contents(one)).toEqual(expected);
        expect(await contents(group)).toEqual(expected);
      }),
      { numRuns: 30 },
    );
    expect(await store.check()).toBeDefined();
  });
});
