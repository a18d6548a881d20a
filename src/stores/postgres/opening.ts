/**
 * From an address to a database that may be trusted.
 *
 *   nothing there ───────────────────┐
 *   ours, older ─────────────────────┼──▶ migrate, under a lock ──▶ use
 *   ours, of this version ───────────┴───────────────────────────▶ use
 *   newer, of another program, not durable, not UTF-8 ──▶ refused, nothing written
 *
 * A server that is starting up is waited for; one that is not there, or does not let us in, is reported at once.
 */

import { HoldfastError } from "../../model/errors.ts";
import { type Database, pause } from "./database.ts";
import {
  asFailure,
  isCollision,
  isPassingState,
  notDurable,
  storeError,
  wrongIsolation,
} from "./failures.ts";
import { type Format, MIGRATIONS, migrate, readFormat } from "./migrations.ts";

const MIN_SERVER_VERSION = 140_000;

export interface OpeningOptions {
  readonly schema: string;
  readonly allowLoss: boolean;
  readonly mustExist: boolean;
}

/** Returns the id of the store that the schema holds. */
export async function openSchema(database: Database, options: OpeningOptions): Promise<string> {
  const begun = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      return await openOnce(database, options);
    } catch (error) {
      if (error instanceof HoldfastError) throw error;
      const failure = asFailure(error);
      const isStarting = failure.state !== null && isPassingState(failure.state);
      const isWorthIt = isStarting || isCollision(failure) || isRace(failure.state);
      if (!isWorthIt || performance.now() - begun > database.limits.busyMs) {
        throw storeError(database.address, failure);
      }
      await pause(tries);
    }
  }
}

/** Two that create the same at the same moment without our lock, such as a schema by hand. */
function isRace(state: string | null): boolean {
  return state === "42P06" || state === "23505";
}

async function openOnce(database: Database, options: OpeningOptions): Promise<string> {
  const { schema, allowLoss, mustExist } = options;
  const found = await database.transaction(async (query) => {
    const [server] = await query<Server>(SERVER);
    if (server) checkServer(database.address, server, allowLoss);
    return readFormat(query, schema);
  });
  if (found) checkVersion(database.address, found);
  if (found?.version === MIGRATIONS.length) return found.store;
  if (!found && mustExist) throw notFound(database.address);
  const { store } = await migrate(database, schema);
  return store;
}

/** The server treats the second as the first. */
const READ_COMMITTED = ["read committed", "read uncommitted"];

interface Server {
  readonly version: string;
  readonly encoding: string;
  readonly fsync: string;
  readonly synchronous_commit: string;
  readonly isolation: string;
}

const SERVER = `SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
  current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('default_transaction_isolation') AS isolation`;

function checkServer(address: string, server: Server, allowLoss: boolean): void {
  const { version, encoding, fsync, synchronous_commit: commit, isolation } = server;
  if (Number(version) < MIN_SERVER_VERSION) {
    throw new HoldfastError("STORE_FOREIGN", `${address}: this server is too old`, {
      hint: "Use Postgres 14 or later.",
      data: { address, version },
    });
  }
  if (encoding !== "UTF8") {
    throw new HoldfastError("STORE_FOREIGN", `${address}: this database keeps text as ${encoding}`, {
      hint: "Create a database with ENCODING 'UTF8' for Holdfast. Nothing was changed.",
      data: { address, encoding },
    });
  }
  if (!allowLoss && (fsync === "off" || commit === "off")) throw notDurable(address);
  if (!READ_COMMITTED.includes(isolation)) throw wrongIsolation(address, isolation);
}

function checkVersion(address: string, { version }: Format): void {
  if (version <= MIGRATIONS.length) return;
  throw new HoldfastError(
    "STORE_TOO_NEW",
    `${address} has format ${version}; this version of Holdfast knows formats up to ${MIGRATIONS.length}`,
    {
      hint: "Update Holdfast. Nothing was changed.",
      data: { address, format: version, known: MIGRATIONS.length },
    },
  );
}

function notFound(address: string): HoldfastError {
  return new HoldfastError("STORE_NOT_FOUND", `${address}: there is no store`, {
    hint: "Check the address and its schema. To make a store there: holdfast init, or open it without `mustExist`.",
    data: { address },
  });
}
