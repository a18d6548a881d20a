/**
 * Schema versions. A file's version is in `PRAGMA user_version`; the migration at index n brings a file from
 * version n to n + 1. A released migration never changes: what is new gets a new one. All that a file lacks run in
 * one transaction, so a crash leaves the old version or the newest, nothing between.
 */

import { randomUUID } from "node:crypto";
import type { Connection } from "./driver.ts";

/** "Hold" in ASCII: tells our files from other SQLite files. */
export const APPLICATION_ID = 0x486f6c64;

/** The version that all migrations lead to. */
export const FORMAT = 1;

/** Loaded when a file lacks some: nearly all that are opened lack none, and a start has to be short. */
export async function allMigrations(): Promise<readonly string[]> {
  const { SCHEMA_1 } = await import("./schema-1.ts");
  return [SCHEMA_1];
}

export function userVersion(connection: Connection): number {
  return Number(connection.peek("(SELECT user_version FROM pragma_user_version)")[0]);
}

/** Brings the file up to date. Another process may do the same at this moment: whoever comes second finds it done. */
export function migrate(connection: Connection, migrations: readonly string[]): void {
  connection.exec("BEGIN IMMEDIATE");
  try {
    const from = userVersion(connection);
    for (const sql of migrations.slice(from)) connection.exec(sql);
    if (from === 0) {
      connection.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
      connection.run("INSERT INTO meta (name, value) VALUES ('store', ?), ('proof', 0)", randomUUID());
    }
    if (from < migrations.length) connection.exec(`PRAGMA user_version = ${migrations.length}`);
    connection.exec("COMMIT");
  } catch (error) {
    connection.rollback();
    throw error;
  }
}
