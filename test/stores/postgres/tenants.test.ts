// A tenant's role sees and changes its own namespace only, whatever SQL it sends. The server enforces that.

import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { type Holdfast, open, tool } from "../../../src/index.ts";
import { OPERATIONS } from "../../../src/operations/index.ts";
import { CommandLine } from "../../cli/command-line.ts";
import { runInside } from "../../cli/inside.ts";
import { TestSchema } from "./schema.ts";
import { PostgresServer, USER } from "./server.ts";

let line: CommandLine;
let server: PostgresServer;
let schema: TestSchema;

beforeAll(async () => {
  line = await CommandLine.build();
  server = await PostgresServer.start();
  schema = new TestSchema(server.url);
  await (await schema.open()).close();
  for (const role of ["acme", "globex", "stranger"]) await schema.query(`CREATE ROLE ${role} LOGIN`);
  await schema.query("GRANT USAGE ON SCHEMA $schema TO stranger");
  await schema.query("GRANT SELECT ON ALL TABLES IN SCHEMA $schema TO stranger");
  for (const [role, namespace] of [
    ["acme", "acme-eu"],
    ["globex", "globex-us"],
  ]) {
    expect(await rls(role ?? "", namespace ?? "")).toMatchObject({ code: 0 });
  }
});

afterAll(async () => {
  await schema.dispose();
  await server.stop();
  line.remove();
});

const urlOf = (role: string): string => `${server.url.replace(`${USER}@`, `${role}@`)}&schema=${schema.name}`;

function rls(role: string, namespace: string, ...options: string[]) {
  const address = { HOLDFAST_STORE: `${server.url}&schema=${schema.name}` };
  return runInside(line.project, ["postgres", "rls", role, namespace, ...options], address);
}

async function asRole<Row>(role: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: urlOf(role).replace(/&schema=.*/, "") });
  await client.connect();
  try {
    return (await client.query(sql.replaceAll("$schema", `"${schema.name}"`), values)).rows as Row[];
  } finally {
    await client.end();
  }
}

async function useOf(role: string, namespace: string, act: (holdfast: Holdfast) => Promise<void>) {
  const holdfast = await open(urlOf(role), { namespace });
  try {
    await act(holdfast);
  } finally {
    await holdfast.close();
  }
}

async function work(holdfast: Holdfast): Promise<void> {
  const session = await holdfast.session("order-1", { title: "secret of a tenant" });
  await session.append({ role: "user", text: "x".repeat(300_000) });
  await session.call({ tool: PAY, args: {} });
  await session.checkpoint("paid");
  await session.close();
  const goal = await holdfast.goal("ship", { statement: "Ship it" });
  await goal.close();
}

const PAY = tool({
  name: "pay",
  description: "Pays.",
  effect: "mutate",
  input: z.object({}),
  execute: () => "x".repeat(300_000),
});

describe("two tenants in one schema", () => {
  test("each works as usual in its own namespace, and the owner sees both", async () => {
    await useOf("acme", "acme-eu", work);
    await useOf("globex", "globex-us", work);
    const rows = await schema.query("SELECT DISTINCT namespace FROM $schema.streams ORDER BY 1");
    expect(rows).toEqual([{ namespace: "acme-eu" }, { namespace: "globex-us" }]);
  });

  test("a tenant that opens another namespace finds nothing and cannot write", async () => {
    await useOf("acme", "globex-us", async (holdfast) => {
      expect((await holdfast.sessions.list()).sessions).toEqual([]);
      await expect(holdfast.session("order-2")).rejects.toThrow(/row-level security/);
    });
    expect(await schema.query("SELECT 1 FROM $schema.streams WHERE stream LIKE '%order-2'")).toEqual([]);
  });

  test("no table and no view shows a tenant another's rows", async () => {
    const relations = await schema.query<{ name: string }>(
      `SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
       WHERE c.relnamespace = '"${schema.name}"'::regnamespace AND c.relkind IN ('r', 'v')
         AND a.attname = 'namespace'`,
    );
    expect(relations.length).toBeGreaterThan(12);
    for (const { name } of relations) {
      const rows = await asRole<{ namespace: string }>("acme", `SELECT namespace FROM $schema."${name}"`);
      expect({ name, seen: [...new Set(rows.map(({ namespace }) => namespace))] }).toEqual({
        name,
        seen: rows.length > 0 ? ["acme-eu"] : [],
      });
    }
    expect(await asRole("acme", "SELECT 1 FROM $schema.messages")).not.toEqual([]);
  });

  test("a tenant's own SQL cannot change, delete or move another's rows, or switch the rules off", async () => {
    const before = await schema.query("SELECT * FROM $schema.streams ORDER BY namespace, stream");
    for (const sql of [
      "UPDATE $schema.streams SET seq = 0 WHERE namespace <> 'acme-eu'",
      "DELETE FROM $schema.keys WHERE namespace <> 'acme-eu'",
      "DELETE FROM $schema.streams WHERE namespace <> 'acme-eu'",
    ]) {
      expect(await asRole("acme", `${sql} RETURNING 1`)).toEqual([]);
    }
    for (const sql of [
      "UPDATE $schema.streams SET namespace = 'globex-us'",
      "SET row_security = off; SELECT * FROM $schema.streams",
      "ALTER TABLE $schema.streams DISABLE ROW LEVEL SECURITY",
      "UPDATE $schema.meta SET value = ''",
      "TRUNCATE $schema.streams",
    ]) {
      await expect(asRole("acme", sql)).rejects.toThrow(/row-level security|permission denied|must be owner/);
    }
    expect(await schema.query("SELECT * FROM $schema.streams ORDER BY namespace, stream")).toEqual(before);
  });

  test("a role that is no tenant sees no rows any more, and the command says so", async () => {
    expect(await asRole("stranger", "SELECT 1 FROM $schema.streams")).toEqual([]);
    expect((await rls("acme", "acme-eu")).out).toContain("these roles see no rows any more: stranger");
  });
});

test("--dry-run prints the statements and changes nothing", async () => {
  const count = "SELECT count(*)::integer AS count FROM pg_policies";
  const before = await schema.query(count);
  const { code, out } = await rls("stranger", "strange", "--dry-run");
  expect(code).toBe(0);
  expect(out).toContain("ENABLE ROW LEVEL SECURITY;");
  const { kind, data } = JSON.parse((await rls("stranger", "strange", "--dry-run", "--json")).out);
  expect(OPERATIONS.get(kind)?.result.safeParse(data)).toMatchObject({ success: true });
  expect(data).toMatchObject({ applied: false, role: "stranger", namespace: "strange" });
  expect(await schema.query(count)).toEqual(before);
});

test("an invalid namespace is refused before anything changes", async () => {
  expect((await rls("stranger", "it's \\ x")).err).toContain("is not a valid name");
});

test("a role that policies do not bind is refused, and so is one that does not exist", async () => {
  for (const role of [USER, "nobody_here"]) {
    const { code, err } = await rls(role, "acme-eu");
    expect(code).not.toBe(0);
    expect(err).toMatch(/superuser|does not exist/);
  }
});
