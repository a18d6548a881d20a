// Unusable addresses and schemas are rejected with a reason and a hint, and without the password.

import { inspect } from "node:util";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { HoldfastError, open } from "../../../src/index.ts";
import { openPostgres } from "../../../src/stores/postgres/index.ts";
import { append, headSeq, write } from "../sqlite/acts.ts";
import { TestSchema } from "./schema.ts";
import { PASSWORD, PostgresServer, USER } from "./server.ts";

let server: PostgresServer;
let schema: TestSchema;

beforeAll(async () => {
  server = await PostgresServer.start();
});

afterAll(() => server.stop());

beforeEach(() => {
  schema = new TestSchema(server.url);
});

afterEach(() => schema.dispose());

/** Returns the error, which must have a hint and no part of a password. */
async function refusal(opening: Promise<unknown>): Promise<HoldfastError> {
  const error = await opening.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(HoldfastError);
  const refused = error as HoldfastError;
  expect(refused.hint.length).toBeGreaterThan(20);
  const shown = inspect(refused, { depth: 10, showHidden: true });
  for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), "s3cret"])
    expect(shown).not.toContain(secret);
  return refused;
}

describe("an address is rejected", () => {
  test("that is not a URL", async () => {
    const bad = [
      "postgres://user:s3cret@host:99999/db",
      "postgres://us er:s3cret@[::/db",
      "mysql://u:s3cret@h/db",
    ];
    for (const url of bad) {
      expect(await refusal(openPostgres({ url }))).toMatchObject({
        code: "INPUT_INVALID",
        hint: expect.stringContaining("postgres://user:password@host"),
      });
    }
  });

  test("of a port without a server", async () => {
    const url = `postgres://${USER}:s3cret@127.0.0.1:1/postgres`;
    const refused = await refusal(openPostgres({ url }));
    expect(refused).toMatchObject({ code: "STORE_IO", unknown: false, retryable: true });
    expect(refused.message).toContain("postgres 127.0.0.1:1/postgres");
    expect(refused.hint).toContain("port");
  });

  test("with an unknown host", async () => {
    const refused = await refusal(
      openPostgres({ url: "postgres://u:s3cret@nowhere.invalid/db?sslmode=disable" }),
    );
    expect(refused).toMatchObject({ code: "STORE_IO", hint: expect.stringContaining("host's name") });
  });

  test.each(["nowhere.invalid", "db", "192.0.2.1", "128.0.0.1", "localhost.example.com", "127.0.0.1.nip.io"])(
    "of another machine (%s) without TLS, before anything is sent",
    async (host) => {
      const refused = await refusal(openPostgres({ url: `postgres://u:s3cret@${host}/db` }));
      expect(refused).toMatchObject({ code: "INPUT_INVALID", hint: expect.stringContaining("sslmode=") });
      expect(refused.message).toContain(`${host} would not be encrypted`);
    },
  );

  test("of another machine that PGHOST names, unless PGSSLMODE decides", async () => {
    vi.stubEnv("PGHOST", "nowhere.invalid");
    expect(await refusal(openPostgres())).toMatchObject({ code: "INPUT_INVALID" });
    vi.stubEnv("PGSSLMODE", "disable");
    expect(await refusal(openPostgres())).toMatchObject({ code: "STORE_IO" });
    vi.unstubAllEnvs();
  });

  test("with a wrong password", async () => {
    const url = `postgres://${USER}:s3cret@127.0.0.1:${server.port}/postgres`;
    const refused = await refusal(openPostgres({ url }));
    expect(refused).toMatchObject({ code: "STORE_IO", hint: expect.stringContaining("password") });
    expect(refused.message).toContain("refused the login");
  });

  test("without the password that it needs", async () => {
    const url = `postgres://${USER}@127.0.0.1:${server.port}/postgres`;
    const refused = await refusal(openPostgres({ url }));
    expect(refused).toMatchObject({ code: "STORE_IO", hint: expect.stringContaining("PGPASSWORD") });
    expect(refused.message).toContain("asks for a password, but none is set");
  });

  test("of a database that does not exist", async () => {
    const url = server.tcpUrl().replace(/postgres$/, "nothing_here");
    const refused = await refusal(openPostgres({ url }));
    expect(refused).toMatchObject({ code: "STORE_NOT_FOUND", hint: expect.stringContaining("createdb") });
  });

  test("that asks for TLS from a server without it", async () => {
    for (const mode of ["require", "verify-full"]) {
      const refused = await refusal(openPostgres({ url: `${server.tcpUrl()}?sslmode=${mode}` }));
      expect(refused).toMatchObject({ code: "STORE_IO", hint: expect.stringContaining("sslmode") });
      expect(refused.message).toContain("the server does not support it");
    }
  });

  test.each([
    ["shcema=x1", "shcema", "Did you mean schema?"],
    ["Schema=foo", "Schema", "Did you mean schema?"],
    ["sslmode=disable&SSLROOTCERT=a.crt", "SSLROOTCERT", "Did you mean sslrootcert?"],
    ["tenant=foo", "tenant", "Known parameters: schema, host,"],
    ["dbname=fleet", "dbname", "after the host"],
  ])("with an unknown parameter: %s", async (query, name, hint) => {
    const refused = await refusal(openPostgres({ url: `${server.tcpUrl()}?${query}`, schema: schema.name }));
    expect(refused).toMatchObject({ code: "INPUT_INVALID", hint: expect.stringContaining(hint) });
    expect(refused.message).toMatch(new RegExp(`: ${name}$`));
    expect(await schema.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema.name])).toEqual([]);
  });

  test("whose password has a question mark, without showing any part of it", async () => {
    for (const password of ["12?s3cret", "12?s3cret=&x", "12?s3cret#x"]) {
      const refused = await refusal(openPostgres({ url: `postgres://u:${password}@host/db` }));
      expect(refused).toMatchObject({ code: "INPUT_INVALID", hint: expect.stringContaining("%3F") });
      expect(JSON.stringify([refused.message, refused.data])).not.toContain("s3cret");
    }
  });

  test("with an invalid schema name", async () => {
    for (const name of ["", "pg_mine", "x".repeat(64), "a\0b"]) {
      const opening = openPostgres({ url: server.url, schema: name });
      expect(await refusal(opening)).toMatchObject({ code: "INPUT_INVALID" });
    }
  });
});

describe("a schema is rejected and not changed", () => {
  test("of a newer version", async () => {
    await (await schema.open()).close();
    await schema.query("UPDATE $schema.meta SET value = '99' WHERE name = 'format'");
    const refused = await refusal(schema.open());
    expect(refused).toMatchObject({ code: "STORE_TOO_NEW", hint: expect.stringContaining("Update") });
    expect(refused.message).toContain("format 99");
  });

  test("of another program", async () => {
    await schema.query("CREATE SCHEMA $schema");
    await schema.query("CREATE TABLE $schema.messages (body text)");
    expect(await refusal(schema.open())).toMatchObject({
      code: "STORE_FOREIGN",
      message: expect.stringContaining("messages"),
      hint: expect.stringContaining("another schema"),
    });
    expect(
      await schema.query("SELECT tablename FROM pg_tables WHERE schemaname = $1", [schema.name]),
    ).toEqual([{ tablename: "messages" }]);
  });

  test("that does not exist, with mustExist", async () => {
    expect(await refusal(schema.open({ mustExist: true }))).toMatchObject({ code: "STORE_NOT_FOUND" });
    expect(await schema.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema.name])).toEqual([]);
  });

  test("in a database that is not UTF-8", async () => {
    await schema.query(
      "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    const url = server.url.replace("/postgres?", "/latin?");
    const refused = await refusal(openPostgres({ url }));
    expect(refused).toMatchObject({ code: "STORE_FOREIGN", hint: expect.stringContaining("UTF8") });
  });

  test("for a user who may not create it", async () => {
    await schema.query("CREATE ROLE visitor LOGIN");
    const url = server.url.replace(`${USER}@`, "visitor@");
    expect(await refusal(schema.open({ url }))).toMatchObject({ code: "STORE_READONLY" });
  });
});

describe("a server that can lose commits", () => {
  const forgetful = "&options=-c%20synchronous_commit%3Doff";

  test("is rejected if synchronous_commit is off, unless allowLoss is set", async () => {
    const url = server.url + forgetful;
    const refused = await refusal(schema.open({ url }));
    expect(refused).toMatchObject({
      code: "STORE_NOT_DURABLE",
      hint: expect.stringContaining("synchronous_commit = on"),
    });
    const store = await schema.open({ url, allowLoss: true });
    expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
  });

  test("is also noticed when the setting changes later", async () => {
    await (await schema.open()).close();
    const store = await schema.open();
    await append(store, write("session/a", 0, [1]));
    await schema.query(`ALTER ROLE ${USER} SET synchronous_commit = off`);
    try {
      const late = await schema.open({ allowLoss: true });
      await append(late, write("session/a", 1, [2]));
      await schema.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
      );
      const refused = await refusal(append(store, write("session/a", 2, [3])));
      expect(refused).toMatchObject({ code: "STORE_NOT_DURABLE" });
    } finally {
      await schema.query(`ALTER ROLE ${USER} RESET synchronous_commit`);
    }
  });

  test("is rejected if fsync is off", async () => {
    const set = async (how: string): Promise<void> => {
      await schema.query(`ALTER SYSTEM ${how}`);
      await schema.query("SELECT pg_reload_conf()");
    };
    const refused = () => refusal(openPostgres({ url: server.url, schema: schema.name, mustExist: true }));
    const isRefused = (code: string) =>
      vi.waitFor(async () => expect(await refused()).toMatchObject({ code }), 30_000);
    await set("SET fsync = off");
    try {
      await isRefused("STORE_NOT_DURABLE");
    } finally {
      await set("RESET fsync");
    }
    await isRefused("STORE_NOT_FOUND");
  });
});

describe("a store is opened", () => {
  test("by its address alone, password and schema included", async () => {
    const holdfast = await open(`${server.tcpUrl()}?schema=${schema.name}`);
    try {
      expect(holdfast.address).toBe(`postgres 127.0.0.1:${server.port}/postgres ${schema.name}`);
      const session = await holdfast.session("alpha");
      await session.append([{ role: "user", text: "hello" }]);
      expect(await schema.query("SELECT session_id FROM $schema.sessions")).toEqual([
        { session_id: "alpha" },
      ]);
    } finally {
      await holdfast.close();
    }
  });

  test("by an address with parameters of other drivers", async () => {
    const others =
      "channel_binding=prefer&target_session_attrs=read-write&connect_timeout=5&keepalives_idle=9";
    const store = await schema.open({ url: `${server.tcpUrl()}?${others}&pgbouncer=true&lock_timeout=9000` });
    expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
  });

  test("by the PG* variables", async () => {
    vi.stubEnv("PGHOST", "127.0.0.1");
    vi.stubEnv("PGPORT", String(server.port));
    vi.stubEnv("PGUSER", USER);
    vi.stubEnv("PGPASSWORD", PASSWORD);
    vi.stubEnv("PGDATABASE", "postgres");
    try {
      const store = await openPostgres({ schema: schema.name });
      expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
      await store.close();
      const named = await openPostgres({ url: "postgres://", schema: schema.name });
      expect(await headSeq(named, "session/a")).toBe(1);
      await named.close();
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("on the caller's own pool, which stays open and unchanged", async () => {
    const pool = new pg.Pool({ connectionString: server.url, max: 1 });
    const listeners = pool.listenerCount("error");
    const store = await schema.open({ pool });
    expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
    const streams = [1, 2, 3].map((index) => append(store, write(`session/s${index}`, 0, [1])));
    expect(await Promise.all(streams)).toHaveLength(3);
    await store.close();
    expect((await pool.query("SHOW search_path")).rows).toEqual([{ search_path: '"$user", public' }]);
    expect((await pool.query("SHOW lock_timeout")).rows).toEqual([{ lock_timeout: "0" }]);
    expect((await pool.query("SELECT 20::bigint AS big")).rows).toEqual([{ big: "20" }]);
    expect(pool.listenerCount("error")).toBe(listeners);
    await pool.end();
  });

  test("with at most maxConnections connections under any load", async () => {
    const name = `few-${schema.name.slice(-8)}`;
    const store = await schema.open({ url: `${server.url}&application_name=${name}`, maxConnections: 2 });
    const streams = Array.from({ length: 30 }, (_, index) => `session/s${index}`);
    await Promise.all(streams.map((stream) => append(store, write(stream, 0, [1]))));
    expect(await Promise.all(streams.map((stream) => headSeq(store, stream)))).toEqual(streams.map(() => 1));
    const open = "SELECT count(*)::integer AS count FROM pg_stat_activity WHERE application_name = $1";
    const [row] = await schema.query<{ count: number }>(open, [name]);
    expect(row?.count).toBeGreaterThan(0);
    expect(row?.count).toBeLessThanOrEqual(2);
  });

  test("independently of the type parsers of the program", async () => {
    const before = pg.types.getTypeParser(20, "text");
    pg.types.setTypeParser(20, (text) => BigInt(text));
    try {
      const store = await schema.open();
      await append(store, write("session/a", 0, [1]));
      const { stream } = await store.read({ namespace: "default", stream: "session/a", after: 0 });
      expect(stream.createdAt).toBe(1_700_000_000_000);
    } finally {
      pg.types.setTypeParser(20, before);
    }
  });

  test("in a schema with any name", async () => {
    const name = `We "quote" ${schema.name.slice(0, 20)} äöü`;
    const store = await openPostgres({ url: server.url, schema: name });
    expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
    await store.close();
    await schema.query(`DROP SCHEMA "${name.replaceAll('"', '""')}" CASCADE`);
  });

  test("in an existing schema, by a user who may use it but not create one", async () => {
    await schema.query("CREATE ROLE guest LOGIN");
    await schema.query("CREATE SCHEMA $schema AUTHORIZATION guest");
    const store = await schema.open({ url: server.url.replace(`${USER}@`, "guest@") });
    expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
  });
});
