// `doctor` reports a store that can be read but not written, and why, without writing anything.

import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { CommandLine, type Ran } from "../../cli/command-line.ts";
import { runInside } from "../../cli/inside.ts";
import { TestSchema } from "./schema.ts";
import { PostgresServer, USER } from "./server.ts";
import { Pair } from "./standby.ts";

let line: CommandLine;
let server: PostgresServer;
let schema: TestSchema;

beforeAll(async () => {
  line = await CommandLine.build();
  server = await PostgresServer.start();
  schema = new TestSchema(server.url);
  await (await schema.open()).close();
});

afterAll(async () => {
  await schema.dispose();
  await server.stop();
  line.remove();
});

const readOnly = /!! store .* readable, but not writable: /;

function doctor(url = server.url): Promise<Ran> {
  return runInside(line.project, ["doctor"], { HOLDFAST_STORE: `${url}&schema=${schema.name}` });
}

async function makeRole(name: string, ...granted: string[]): Promise<string> {
  await schema.query(`CREATE ROLE ${name} LOGIN`);
  await schema.query(`GRANT USAGE ON SCHEMA $schema TO ${name}`);
  for (const each of granted) await schema.query(`GRANT ${each} TO ${name}`);
  return server.url.replace(`${USER}@`, `${name}@`);
}

test("a user with all rights gets no complaint", async () => {
  expect(await doctor()).toMatchObject({ code: 0 });
});

test("a read-only user gets the missing rights, and running the hint's commands helps", async () => {
  const url = await makeRole("reader", "SELECT ON ALL TABLES IN SCHEMA $schema");
  const { code, out } = await doctor(url);
  expect(out).toMatch(readOnly);
  expect(out).toContain("the user reader lacks DELETE on keys, streams; INSERT on artifact_refs, artifacts,");
  expect(code).toBe(5);
  for (const [grant] of out.matchAll(/GRANT [^;]+;/g)) await schema.query(grant);
  expect(await doctor(url)).toMatchObject({ code: 0 });
});

test("doctor asks for exactly the rights that writing needs", async () => {
  const url = await makeRole(
    "writer",
    "SELECT ON ALL TABLES IN SCHEMA $schema",
    "INSERT ON $schema.streams, $schema.writes, $schema.items, $schema.leases, $schema.keys, $schema.snapshots",
    "INSERT ON $schema.artifacts, $schema.artifact_refs",
    "UPDATE ON $schema.streams, $schema.items, $schema.leases, $schema.artifacts, $schema.snapshots",
    "DELETE ON $schema.streams, $schema.keys",
  );
  expect(await doctor(url)).toMatchObject({ code: 0 });
  const holdfast = await open(`${url}&schema=${schema.name}`);
  const session = await holdfast.session("order-1");
  await session.append({ role: "user", text: "x".repeat(300_000) });
  await session.close();
  await holdfast.close();
});

test("a user who may not call the functions is reported", async () => {
  const url = await makeRole("caller", "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA $schema");
  await schema.query("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA $schema FROM PUBLIC");
  const { code, out } = await doctor(url);
  await schema.query("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA $schema TO PUBLIC");
  expect(out).toMatch(readOnly);
  expect(out).toMatch(/caller lacks EXECUTE on .*append_single/);
  expect(code).toBe(5);
});

test("read-only transactions are reported", async () => {
  const { code, out } = await doctor(`${server.url}&options=-c%20default_transaction_read_only%3Don`);
  expect(out).toMatch(readOnly);
  expect(out).toContain("default_transaction_read_only");
  expect(code).toBe(5);
});

test("a standby is reported", { timeout: 180_000 }, async () => {
  const pair = await Pair.start();
  const followed = new TestSchema(pair.primary.url);
  try {
    await pair.makeSynchronous();
    await followed.query("ALTER SYSTEM SET synchronous_commit = remote_apply");
    await followed.query("SELECT pg_reload_conf()");
    await (await followed.open()).close();
    const env = { HOLDFAST_STORE: `${pair.standby.url}&schema=${followed.name}` };
    const { code, out } = await runInside(line.project, ["doctor"], env);
    expect(out).toMatch(readOnly);
    expect(out).toContain("standby");
    expect(code).toBe(5);
  } finally {
    await followed.pool.end();
    await pair.stop();
  }
});
