// Notifications of changes are collected and sent outside of appends, and nothing depends on them.

import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import pg from "pg";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Store } from "../../../src/store.ts";
import { append, NAMESPACE, write } from "../sqlite/acts.ts";
import { Program } from "./processes.ts";
import { serverUrl, TestSchema } from "./schema.ts";

/** A notification comes within a second, unless the machine is busy. */
const PATIENCE_MS = 30_000;

let schema: TestSchema;

beforeEach(() => {
  schema = new TestSchema();
});

afterEach(() => schema.dispose());

/** The payloads on the store's channel during `act`, and until `isEnough`. */
async function payloadsDuring(
  act: () => Promise<unknown>,
  isEnough: (words: string[]) => boolean,
): Promise<string[]> {
  const client = new pg.Client({ connectionString: serverUrl() });
  await client.connect();
  const words: string[] = [];
  client.on("notification", ({ payload }) => words.push(payload ?? ""));
  await client.query(`LISTEN ${client.escapeIdentifier(`holdfast "${schema.name}"`)}`);
  await act();
  await vi.waitFor(() => expect(isEnough(words)).toBe(true), PATIENCE_MS);
  await client.end();
  return words;
}

test("many appends make few notifications, which hold digests of their streams", async () => {
  const store = await schema.open();
  const appends = async () => {
    for (let seq = 0; seq < 40; seq++)
      await append(store, write(`session/s${seq % 2}`, Math.floor(seq / 2), [seq]));
  };
  const begun = performance.now();
  const words = await payloadsDuring(
    appends,
    (said) => new Set(said.flatMap((each) => JSON.parse(each)).flat()).size > 2,
  );
  expect(words.length).toBeLessThan(2 + (performance.now() - begun) / 200);
  expect(JSON.parse(words[0] ?? "")).toContainEqual([
    expect.stringMatching(/^[0-9a-f]{16}$/),
    expect.stringMatching(/^[0-9a-f]{16}$/),
  ]);
  expect(words.join()).not.toContain("session/");
});

test("too many streams for one notification are sent as an empty list", async () => {
  const store = await schema.open();
  const names = Array.from({ length: 400 }, (_, index) => `session/${"x".repeat(100)}${index}`);
  const appends = () => append(store, ...names.map((name) => write(name, 0, [1])));
  expect(await payloadsDuring(appends, (said) => said.length > 0)).toContain("[]");
});

test("a change is noticed without notifications too", async () => {
  const [watching, other] = [await schema.open({ notify: false }), await schema.open({ notify: false })];
  expect(await noticed(watching, () => append(other, write("session/a", 0, [1])))).toBe(true);
});

test("a change is noticed while the listener's connection is killed", async () => {
  const [watching, other] = [await schema.open(), await schema.open()];
  const kill =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || $1 || '%'";
  const changed = await noticed(watching, async () => {
    await vi.waitFor(
      async () => expect(await schema.query(kill, [schema.name])).toHaveLength(1),
      PATIENCE_MS,
    );
    await append(other, write("session/a", 0, [1]));
  });
  expect(changed).toBe(true);
});

test("a program that closes a watched store does not exit before a slow server has closed its connections", async () => {
  const program = new Program("close-while-watching.ts");
  const { host, port, user, password, database } = new pg.Client({ connectionString: serverUrl() });
  // Passes everything on, except that the server closes a connection.
  const slow = createServer({ allowHalfOpen: true }, (client) => {
    const place = host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
    const server = connect({ ...place, allowHalfOpen: true });
    client.pipe(server).pipe(client, { end: false });
    for (const socket of [client, server]) socket.on("error", () => undefined);
    client.on("close", () => server.destroy());
  }).listen(0, "127.0.0.1");
  await once(slow, "listening");
  const at = `127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const url = `postgres://${user}:${encodeURIComponent(password ?? "")}@${at}/${database}`;
  const running = program.start(url, schema.name);
  expect(await running.hear()).toBe("watching");
  const listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || $1 || '%'";
  await vi.waitFor(
    async () => expect(await schema.query(listening, [schema.name])).toHaveLength(1),
    PATIENCE_MS,
  );
  running.nudge();
  expect(await running.hear()).toBe("closed");
  await program.dispose();
  slow.close();
});

/** Whether a watcher is called after `act`. Earlier calls do not count. */
async function noticed(store: Store, act: () => Promise<unknown>): Promise<boolean> {
  let told = 0;
  const stop = store.watch({ namespace: NAMESPACE, stream: "session/a" }, () => {
    told += 1;
  });
  try {
    await vi.waitFor(() => expect(told).toBeGreaterThan(0), PATIENCE_MS);
    told = 0;
    await act();
    await vi.waitFor(() => expect(told).toBeGreaterThan(0), PATIENCE_MS);
    return true;
  } finally {
    stop();
  }
}
