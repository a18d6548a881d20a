import { randomUUID } from "node:crypto";
import pg from "pg";
import type { Store } from "../../../src/store.ts";
import { openPostgres, type PostgresOptions } from "../../../src/stores/postgres/index.ts";
import { EMPTY } from "./server.ts";

/** The server of this run; `global-setup.ts` has started it. */
export function serverUrl(): string {
  const url = process.env["HOLDFAST_TEST_POSTGRES"];
  if (!url) throw new Error("no Postgres server was started for this run");
  return url;
}

/** Whether that server ends with the run, and all that is on it. */
export function isServerOfRun(): boolean {
  return process.env[EMPTY] !== undefined;
}

/** As many as the stores of one test may keep busy at the same time; one that waits for another would wait for ever. */
const MOST_CONNECTIONS = 16;

const TABLES = ["streams", "writes", "items", "leases", "keys", "artifacts", "artifact_refs", "snapshots"];

const EMPTIED = [
  ...TABLES.map((table) => `DELETE FROM $schema.${table}`),
  "DELETE FROM $schema.meta WHERE name = 'seal'",
].join(";");

/**
 * A schema of its own on the server, with every store that was opened through it. All of it goes at the end. Where
 * the run has a server of its own, and so have tests that need more than one, it goes with that: to drop a schema takes a
 * connection, and a third of the time that it took to make.
 */
export class TestSchema {
  readonly name = `test_${randomUUID().replaceAll("-", "")}`;
  readonly url: string;
  readonly pool: pg.Pool;
  readonly #opened: Store[] = [];

  constructor(url = serverUrl()) {
    this.url = url;
    this.pool = new pg.Pool({ connectionString: url, max: MOST_CONNECTIONS, allowExitOnIdle: true });
    this.pool.on("error", () => undefined);
  }

  async open(options: Partial<PostgresOptions> = {}): Promise<Store> {
    const where = options.pool ? {} : { url: this.url };
    const store = await openPostgres({ ...where, schema: this.name, maxConnections: 4, ...options });
    this.#opened.push(store);
    return store;
  }

  /** `$schema` stands for the schema's name. */
  async query<Row extends object = Record<string, unknown>>(
    sql: string,
    values: unknown[] = [],
  ): Promise<Row[]> {
    return (await this.pool.query(sql.replaceAll("$schema", `"${this.name}"`), values)).rows as Row[];
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.splice(0).map((store) => store.close()));
  }

  /** As if it were new: to make one takes the server fifty times as long. */
  async empty(): Promise<void> {
    await this.close();
    await this.query(EMPTIED);
  }

  async dispose(): Promise<void> {
    await this.close();
    if (!isServerOfRun()) await this.query("DROP SCHEMA IF EXISTS $schema CASCADE");
    await this.pool.end();
  }
}
