// TLS as the address and the PG* variables request it, against a server with a private certificate.

import { execFileSync } from "node:child_process";
import { chownSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { open } from "../../../src/index.ts";
import { openPostgres } from "../../../src/stores/postgres/index.ts";
import { needs } from "../sqlite/processes.ts";
import { TestSchema } from "./schema.ts";
import { PASSWORD, PostgresServer, USER } from "./server.ts";

const hasOpenssl = works("openssl", "version");

function works(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

describe.skipIf(!hasOpenssl)(needs("a server with TLS", "openssl", hasOpenssl), () => {
  let server: PostgresServer;
  let schema: TestSchema;
  let certificate: string;

  beforeAll(async () => {
    server = await PostgresServer.start();
    schema = new TestSchema(server.url);
    certificate = join(server.folder, "server.crt");
    const key = join(server.folder, "server.key");
    const names = ["-subj", "/CN=holdfast test", "-addext", "subjectAltName=IP:127.0.0.1"];
    const kind = [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "2",
    ];
    execFileSync("openssl", [...kind, ...names, "-keyout", key, "-out", certificate], { stdio: "ignore" });
    const { uid, gid } = statSync(server.folder);
    chownSync(key, uid, gid);
    await schema.query(`ALTER SYSTEM SET ssl_cert_file = '${certificate}'`);
    await schema.query(`ALTER SYSTEM SET ssl_key_file = '${key}'`);
    await schema.query("ALTER SYSTEM SET ssl = on");
    await schema.query("SELECT pg_reload_conf()");
    await vi.waitFor(async () => expect(await schema.query("SHOW ssl")).toEqual([{ ssl: "on" }]), 30_000);
  });

  afterAll(async () => {
    await schema.dispose();
    await server.stop();
  });

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  const address = (query: string): string =>
    `${server.tcpUrl()}?schema=${schema.name}&application_name=${query}`;

  /** Whether the server sees encryption on the open connections with this name. */
  async function encryption(name: string): Promise<boolean[]> {
    const rows = await schema.query<{ ssl: boolean }>(
      `SELECT s.ssl FROM pg_stat_ssl AS s JOIN pg_stat_activity AS a USING (pid) WHERE a.application_name = $1`,
      [name],
    );
    return rows.map(({ ssl }) => ssl);
  }

  test.each(["require", "verify-ca", "verify-full"])(
    "sslmode=%s with the right certificate encrypts",
    async (mode) => {
      const holdfast = await open(
        `${address(mode)}&sslmode=${mode}&sslrootcert=${encodeURIComponent(certificate)}`,
      );
      await (await holdfast.session(mode)).close();
      const seen = await encryption(mode);
      expect(seen.length).toBeGreaterThan(0);
      expect(new Set(seen)).toEqual(new Set([true]));
      await holdfast.close();
    },
  );

  test("the PG* variables alone encrypt", async () => {
    vi.stubEnv("PGHOST", "127.0.0.1");
    vi.stubEnv("PGPORT", String(server.port));
    vi.stubEnv("PGUSER", USER);
    vi.stubEnv("PGPASSWORD", PASSWORD);
    vi.stubEnv("PGDATABASE", "postgres");
    vi.stubEnv("PGSSLMODE", "require");
    vi.stubEnv("PGSSLROOTCERT", certificate);
    vi.stubEnv("PGAPPNAME", "by-variables");
    const store = await openPostgres({ schema: schema.name });
    await store.list<"streams">({ of: "streams", namespace: "default", limit: 1 });
    expect(await encryption("by-variables")).toContain(true);
    await store.close();
  });

  test("an untrusted certificate is rejected with a helpful hint", async () => {
    for (const mode of ["require", "verify-full"]) {
      await expect(open(`${address("stranger")}&sslmode=${mode}`)).rejects.toMatchObject({
        code: "STORE_IO",
        message: expect.stringContaining("self-signed certificate"),
        hint: expect.stringContaining("sslrootcert"),
      });
    }
  });

  test("sslmode=no-verify encrypts, and sslmode=disable does not", async () => {
    for (const [mode, isEncrypted] of [
      ["no-verify", true],
      ["disable", false],
    ] as const) {
      const holdfast = await open(`${address(mode)}&sslmode=${mode}`);
      expect(await encryption(mode)).toContain(isEncrypted);
      await holdfast.close();
    }
  });

  test("pg prints no warning about modes that the user did not choose", async () => {
    const warnings: string[] = [];
    const hear = (warning: Error): void => void warnings.push(warning.message);
    process.on("warning", hear);
    const holdfast = await open(
      `${address("quiet")}&sslmode=require&sslrootcert=${encodeURIComponent(certificate)}`,
    );
    await holdfast.close();
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", hear);
    expect(warnings.filter((text) => text.includes("SSL"))).toEqual([]);
  });
});
