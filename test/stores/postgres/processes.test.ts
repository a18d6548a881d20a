// Many programs on one store, as on many machines.

import { afterAll, expect, test, vi } from "vitest";
import { append, batchOf, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { Program } from "./processes.ts";
import { TestSchema } from "./schema.ts";

const program = new Program("append-with-retry.ts");
const schemas: TestSchema[] = [];

function newSchema(): TestSchema {
  const schema = new TestSchema();
  schemas.push(schema);
  return schema;
}

afterAll(async () => {
  await program.dispose();
  await Promise.all(schemas.map((schema) => schema.dispose()));
});

test("ten processes that start at once create one schema and share it", async () => {
  const schema = newSchema();
  const running = Array.from({ length: 10 }, (_, index) => {
    return program.start(schema.url, schema.name, `p${index}`, "2");
  });
  expect(await Promise.all(running.map((each) => each.hear()))).toEqual(Array(10).fill("opened"));
  for (const each of running) each.nudge();
  expect(await Promise.all(running.map((each) => each.hear()))).toEqual(Array(10).fill("done"));
  const store = await schema.open();
  const { stream } = await store.read({ namespace: NAMESPACE, stream: "session/shared", after: 0 });
  expect(stream.head).toEqual({ generation: 1, seq: 20 });
  expect(await schema.query("SELECT count(*)::int AS count FROM $schema.meta WHERE name = 'store'")).toEqual([
    { count: 1 },
  ]);
});

test("two processes append to one stream without gaps or duplicates", async () => {
  const schema = newSchema();
  const running = ["one", "two"].map((name) => program.start(schema.url, schema.name, name, "40"));
  for (const each of running) expect(await each.hear()).toBe("opened");
  for (const each of running) each.nudge();
  for (const each of running) expect(await each.hear()).toBe("done");
  const store = await schema.open();
  const { writes } = await store.read({ namespace: NAMESPACE, stream: "session/shared", after: 0 });
  expect(writes.map(({ first }) => first)).toEqual(Array.from({ length: 80 }, (_, index) => index + 1));
  const events = writes.flatMap(({ payload }) => JSON.parse(payload as string) as string[]);
  expect(new Set(events).size).toBe(80);
  expect(await store.check()).toEqual([]);
});

test("a worker whose clock is an hour off neither loses nor steals a lease", async () => {
  const schema = newSchema();
  const [here, there] = [await schema.open(), await schema.open()];
  const ask = { act: "take", namespace: NAMESPACE, name: "session/a", ttlMs: 60_000 } as const;
  const mine = await here.lease({ ...ask, holder: holder("one") });
  const real = Date.now();
  for (const jump of [3_600_000, -3_600_000]) {
    const clock = vi.spyOn(Date, "now").mockImplementation(() => real + jump);
    try {
      expect(await there.lease({ ...ask, holder: holder("two") })).toMatchObject({ outcome: "held" });
      const guards = [{ lease: "session/a", token: mine.outcome === "granted" ? mine.lease.token : 0 }];
      const seq = jump > 0 ? 0 : 1;
      expect(await append(here, write("session/a", seq, [jump], { guards }))).toMatchObject({
        outcome: "ok",
      });
    } finally {
      clock.mockRestore();
    }
  }
});

test("a lease expires by the server's clock", async () => {
  const store = await newSchema().open();
  const ask = { act: "take", namespace: NAMESPACE, name: "session/a", ttlMs: 50 } as const;
  await store.lease({ ...ask, holder: holder("one") });
  await vi.waitFor(async () => {
    const outcome = await store.lease({ ...ask, holder: holder("two") });
    expect(outcome).toMatchObject({ outcome: "granted", lease: { token: 2 }, from: holder("one") });
  }, 30_000);
});

test("if many handles claim one key at once, exactly one succeeds", async () => {
  const schema = newSchema();
  const stores = await Promise.all(Array.from({ length: 4 }, () => schema.open()));
  for (let round = 0; round < 5; round++) {
    const claims = [{ key: `key ${round}`, event: 0 }];
    const outcomes = await Promise.all(
      stores.map((store, index) => append(store, write(`session/${round}-${index}`, 0, [1], { claims }))),
    );
    expect(outcomes.map(({ outcome }) => outcome).sort()).toEqual(["ok", "taken", "taken", "taken"]);
  }
  expect(await stores[0]?.check()).toEqual([]);
});

test("an artifact is never collected while an append refers to it", async () => {
  const schema = newSchema();
  const [here, there] = [await schema.open(), await schema.open()];
  for (let round = 0; round < 20; round++) {
    const hash = String(round).padStart(64, "0");
    await here.put({ of: "artifact", namespace: NAMESPACE, hash, bytes: new Uint8Array(3), at: 1 });
    const [appended, collected] = await Promise.all([
      append(here, write(`session/s${round}`, 0, [1], { artifacts: [hash] })),
      there.remove({ of: "artifacts", namespace: NAMESPACE, putBefore: 2 }),
    ]);
    const count = collected.outcome === "removed" ? collected.count : 0;
    expect([appended.outcome, count]).toEqual(appended.outcome === "ok" ? ["ok", 0] : ["missing", 1]);
  }
});

test("batches over the same streams in opposite orders do not deadlock", async () => {
  const schema = newSchema();
  const [here, there] = [await schema.open(), await schema.open()];
  const names = ["session/a", "session/b", "session/c"];
  for (let seq = 0; seq < 15; seq++) {
    const writes = names.map((name) => write(name, seq, [seq]));
    const outcomes = await Promise.all([
      here.append(batchOf(...writes)),
      there.append(batchOf(...writes.toReversed())),
    ]);
    expect(outcomes.map(({ outcome }) => outcome).sort()).toEqual(["conflict", "ok"]);
  }
});
