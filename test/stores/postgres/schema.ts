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

/** True if the server, with everything on it, ends with the run. */
export function isServerOfRun(): boolean {
  return process.env[EMPTY] !== undefined;
}

/**
 * The number of connections that the stores of one test use at the same time. With fewer they could deadlock.
 */
const MOST_CONNECTIONS = 16;

const TABLES = ["streams", "writes", "items", "leases", "keys", "artifacts", "artifact_refs", "snapshots"];

const EMPTIED = [
  ...TABLES.map((table) => `DELETE FROM $schema.${table}`),
  "DELETE FROM $schema.meta WHERE name = 'seal'",
].join(";");

/**
 * A schema on the server, and every store that was opened through it. `dispose` closes the stores. It drops
 * the schema only on a server that outlives the run, because that takes a third of the time of creating
 * one.
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

  /** Empties the schema. Creating one takes the server fifty times as long. */
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
