// Every SQL function must see what was committed while it waited for a lock. A higher isolation level
// prevents that.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { append, headSeq, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestSchema } from "./schema.ts";
import { PostgresServer, USER } from "./server.ts";

let server: PostgresServer;
let schema: TestSchema;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

beforeEach(() => {
  schema = new TestSchema(server.url);
});

afterEach(async () => {
  await schema.query(`ALTER ROLE ${USER} RESET default_transaction_isolation`);
  await schema.dispose();
});

const LEVELS = ["repeatable read", "serializable"];

const withLevel = (level: string): string =>
  `${server.url}&options=${encodeURIComponent(`-c default_transaction_isolation=${level.replace(" ", "\\ ")}`)}`;

test("opening is rejected at any other level, and following the hint helps", async () => {
  await (await schema.open()).close();
  for (const level of LEVELS) {
    await expect(schema.open({ url: withLevel(level) })).rejects.toMatchObject({
      code: "STORE_FOREIGN",
      message: expect.stringContaining(level),
      hint: expect.stringContaining("default_transaction_isolation"),
    });
    await schema.query(`ALTER ROLE ${USER} SET default_transaction_isolation = '${level}'`);
    await expect(schema.open()).rejects.toMatchObject({ code: "STORE_FOREIGN" });
    const store = await schema.open({ url: withLevel("read committed") });
    expect(await append(store, write(`session/${level}`, 0, [1]))).toMatchObject({ outcome: "ok" });
    await store.close();
  }
});

test("every write notices a changed level and stores nothing", async () => {
  const store = await schema.open();
  for (const stream of ["session/a", "session/b"]) await append(store, write(stream, 0, [1]));
  for (const level of LEVELS) {
    await schema.query(`ALTER ROLE ${USER} SET default_transaction_isolation = '${level}'`);
    await schema.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
    );
    const refused = { code: "STORE_FOREIGN", message: expect.stringContaining(level) };
    await expect(append(store, write("session/a", 1, [2]))).rejects.toMatchObject(refused);
    const together = ["session/a", "session/b"].map((stream) => append(store, write(stream, 1, [2])));
    for (const each of await Promise.allSettled(together)) {
      expect(each).toMatchObject({ status: "rejected", reason: refused });
    }
    const take = { act: "take", namespace: NAMESPACE, name: "x", holder: holder("o"), ttlMs: 1_000 } as const;
    await expect(store.lease(take)).rejects.toMatchObject(refused);
    const expected = { generation: 1, seq: 1 };
    const removal = { of: "stream", namespace: NAMESPACE, stream: "session/a", expect: expected } as const;
    await expect(store.remove(removal)).rejects.toMatchObject(refused);
  }
  await schema.query(`ALTER ROLE ${USER} RESET default_transaction_isolation`);
  await schema.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()");
  expect(await headSeq(store, "session/a")).toBe(1);
  expect(await append(store, write("session/a", 1, [2]))).toMatchObject({ outcome: "ok" });
});
