/**
 * The seal: a row in `meta`. While it is there, and is not `arrived`, the schema takes no writes but the copy's own.
 *
 * Every change begins with `enter`, which reads `meta` and so holds the weakest lock on that table until its transaction
 * ends. Setting a seal takes the strongest: it waits for every change that is under way, those that come later wait for
 * it, and then read the new seal. So nothing is ever committed behind a seal, and no change pays for that.
 *
 * A connection that is lost around COMMIT leaves the old seal or the new one. Which it is can be read.
 */

import type { Seal } from "../../store.ts";
import type { Database, Query } from "./database.ts";
import { asFailure, storeError } from "./failures.ts";

const TRIES = 3;

const read = (schema: string): string => `SELECT value FROM ${schema}.meta WHERE name = 'seal'`;

const parse = (rows: readonly { value: string }[]): Seal | null =>
  rows[0] ? (JSON.parse(rows[0].value) as Seal) : null;

const isSame = (a: Seal | null, b: Seal | null): boolean => a?.move === b?.move && a?.phase === b?.phase;

export async function readSeal(database: Database): Promise<Seal | null> {
  return parse(await database.run<{ value: string }>(read(database.schema)));
}

/** Inside a transaction, which holds the seal as it is until it ends. */
export async function sealNow(query: Query, schema: string): Promise<Seal | null> {
  return parse(await query<{ value: string }>(read(schema)));
}

export async function reseal(database: Database, expect: Seal | null, next: Seal | null): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    try {
      return await change(database, expect, next);
    } catch (error) {
      const failure = asFailure(error);
      if (failure.fate !== "lost" || tries >= TRIES)
        throw storeError(database.address, failure, failure.fate === "lost");
      // Had it been done by us or not, asking again tells: what we wanted is there, or what we expected still is.
      if (isSame(await readSeal(database), next)) return true;
    }
  }
}

function change(database: Database, expect: Seal | null, next: Seal | null): Promise<boolean> {
  const { schema, limits } = database;
  return database.transaction(async (query) => {
    await query("SELECT set_config('lock_timeout', $1, true)", [String(limits.busyMs)]);
    await query(`LOCK TABLE ${schema}.meta IN ACCESS EXCLUSIVE MODE`);
    if (!isSame(await sealNow(query, schema), expect)) return false;
    await query(`DELETE FROM ${schema}.meta WHERE name = 'seal'`);
    if (next) {
      await query(`INSERT INTO ${schema}.meta (name, value) VALUES ('seal', $1)`, [JSON.stringify(next)]);
    }
    return true;
  });
}
