import pg from "pg";
import { vi } from "vitest";
import { PostgresServer, REPLICATED } from "./server.ts";

const NAME = "standby";

/** A primary and the standby that follows it. */
export class Pair {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;

  private constructor(primary: PostgresServer, standby: PostgresServer) {
    this.primary = primary;
    this.standby = standby;
  }

  static async start(): Promise<Pair> {
    const primary = await PostgresServer.start(REPLICATED);
    const client = new pg.Client({ connectionString: primary.url });
    await client.connect();
    try {
      const standby = await PostgresServer.follow(
        primary,
        NAME,
        async () => {
          await client.query("SELECT pg_backup_start('standby', true)");
        },
        async () => {
          const { rows } = await client.query("SELECT labelfile FROM pg_backup_stop(false)");
          return rows[0].labelfile as string;
        },
      );
      const pair = new Pair(primary, standby);
      await vi.waitFor(() => pair.#mustFollow(client, "streaming"), 30_000);
      return pair;
    } finally {
      await client.end();
    }
  }

  /** From here on a commit is acknowledged only when the standby has it too. */
  async makeSynchronous(): Promise<void> {
    const client = new pg.Client({ connectionString: this.primary.url });
    await client.connect();
    try {
      await client.query(`ALTER SYSTEM SET synchronous_standby_names = '${NAME}'`);
      await client.query("SELECT pg_reload_conf()");
      await vi.waitFor(() => this.#mustFollow(client, "streaming", "sync"), 30_000);
    } finally {
      await client.end();
    }
  }

  /** Promotes the standby. */
  async promote(): Promise<void> {
    const client = new pg.Client({ connectionString: this.standby.url });
    await client.connect();
    try {
      await client.query("SELECT pg_promote(true, 60)");
    } finally {
      await client.end();
    }
  }

  async stop(): Promise<void> {
    await this.standby.stop();
    await this.primary.stop();
  }

  async #mustFollow(client: pg.Client, state: string, sync?: string): Promise<void> {
    const { rows } = await client.query(
      "SELECT state, sync_state FROM pg_stat_replication WHERE application_name = $1",
      [NAME],
    );
    if (rows[0]?.state !== state || (sync !== undefined && rows[0]?.sync_state !== sync)) {
      throw new Error(`the standby is not there yet: ${JSON.stringify(rows)}`);
    }
  }
}
