/**
 * Statements on a pool of connections.
 *
 * Each statement is a transaction of its own, on any free connection. Frequent statements are prepared. If
 * one is missing on a connection, all are sent in full from then on, so a transaction pooler does no harm
 * (decision 016).
 *
 * Every failure says what happened to the transaction (`failures.ts`). A connection that failed, or that
 * was silent for longer than `statementMs`, is closed and never used again.
 */

import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { sha256 } from "../../model/digest.ts";
import type { HoldfastError } from "../../model/errors.ts";
import { quoted } from "./address.ts";
import { type Connection, Connections } from "./connections.ts";
import * as failures from "./failures.ts";
import { asFailure, StatementFailure, sqlState } from "./failures.ts";
import { askValue, type PreparedStatement, type Value } from "./value-query.ts";

/** `PostgresOptions` explains them. */
export interface Limits {
  readonly busyMs: number;
  readonly statementMs: number;
}

/** Arguments of every SQL function that writes: the id of the store, and whether it may lose commits. */
export interface WriteContext {
  readonly store: string;
  readonly allowLoss: boolean;
}

/** The name has a hash of the text: a name found behind a pooler always means the same statement. */
export function prepared(name: string, text: string): PreparedStatement {
  return { name: `holdfast ${name} ${sha256(text).slice(0, 24)}`, text };
}

/** Runs statements one after another on the connection of one transaction. */
export type Query = <Row>(text: string, values?: readonly Value[]) => Promise<Row[]>;

/** The parsers of `pg` are global and the program may change them; these are ours alone. */
const PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  [pg.types.builtins.INT8]: Number,
  [pg.types.builtins.INT4]: Number,
  [pg.types.builtins.BOOL]: (text) => text === "t",
  [pg.types.builtins.BYTEA]: (text) => Buffer.from(text.slice(2), "hex"),
};
const asText = (text: string): string => text;
const TYPES = {
  getTypeParser: (type: number) => PARSERS[type] ?? asText,
} as unknown as pg.CustomTypesConfig;

export class Database {
  readonly address: string;
  /** Quoted. */
  readonly schema: string;
  readonly limits: Limits;
  readonly #pool: pg.Pool;
  readonly #connections: Connections;
  /** False once a prepared statement was missing on a connection. */
  #usesPrepared = true;

  constructor(pool: pg.Pool, isOurs: boolean, address: string, schema: string, limits: Limits) {
    this.#pool = pool;
    this.#connections = new Connections(pool, isOurs, limits.busyMs);
    this.address = address;
    this.schema = quoted(schema);
    this.limits = limits;
  }

  get settings(): pg.ClientConfig {
    return this.#pool.options;
  }

  writeArguments({ store, allowLoss }: WriteContext): [string, boolean, number] {
    return [store, allowLoss, this.limits.busyMs];
  }

  /** Runs one statement, once. Throws a `StatementFailure`. */
  async attempt<Row>(
    text: string,
    values: readonly Value[],
    statementMs = this.limits.statementMs,
  ): Promise<Row[]> {
    const connection = await this.#connections.take();
    return this.#use(connection, () => rowsOf<Row>(connection, statementMs, text, values));
  }

  /** Runs a prepared statement, once. Returns the only column of its only row as text. */
  async ask({ name, text }: PreparedStatement, values: readonly Value[]): Promise<string | null> {
    const connection = await this.#connections.take();
    const statement = { name: this.#usesPrepared ? name : "", text };
    try {
      return await this.#use(connection, async () => {
        const value = await answerOf(connection, this.limits.statementMs, (client) =>
          askValue(client, statement, values),
        );
        // Callers take null for "all stored", so a missing row must be an error.
        if (value !== undefined) return value;
        throw new StatementFailure("unknown", new Error(`the server sent no row for ${text}`));
      });
    } catch (error) {
      if (error instanceof StatementFailure && failures.isNotPrepared(error)) this.#usesPrepared = false;
      throw error;
    }
  }

  /** Runs an idempotent statement, retried until the server is there and no lock is in the way. */
  async run<Row>(text: string, values: readonly Value[] = [], statementMs?: number): Promise<Row[]> {
    return this.#retry(() => this.attempt<Row>(text, values, statementMs));
  }

  /** Like `run`, for a change. `mayBeRepeat`: an earlier try may have been committed. */
  async change<Row>(text: string, values: readonly Value[]): Promise<{ row: Row; mayBeRepeat: boolean }> {
    let mayBeRepeat = false;
    const [row] = await this.#retry(async () => {
      try {
        return await this.attempt<Row>(text, values);
      } catch (error) {
        mayBeRepeat ||= error instanceof StatementFailure && error.transaction === "unknown";
        throw error;
      }
    });
    return { row: row as Row, mayBeRepeat };
  }

  /** Runs several statements in one transaction on one connection, once. */
  async transaction<Result>(act: (query: Query) => Promise<Result>): Promise<Result> {
    const connection = await this.#connections.take();
    return this.#use(connection, async () => {
      const query: Query = (text, values) => rowsOf(connection, this.limits.statementMs, text, values);
      await query("BEGIN ISOLATION LEVEL READ COMMITTED");
      try {
        const result = await act(query);
        await query("COMMIT");
        return result;
      } catch (error) {
        // On a lost connection the server rolls back by itself. The first error is the one to report.
        await query("ROLLBACK").catch(() => undefined);
        throw error;
      }
    });
  }

  close(): Promise<void> {
    return this.#connections.close();
  }

  toStoreError(failure: StatementFailure, waitedMs: number, isUnknown: boolean): HoldfastError {
    if (!isUnknown && (failures.isLockTimeout(failure) || failures.isCollision(failure))) {
      return failures.busy(this.address, waitedMs, failure);
    }
    return failures.storeError(this.address, failure, isUnknown);
  }

  async #retry<Result>(act: () => Promise<Result>): Promise<Result> {
    const begun = performance.now();
    let isUnknown = false;
    for (let tries = 1; ; tries++) {
      try {
        return await act();
      } catch (error) {
        const failure = asFailure(error);
        const isFirstLoss: boolean = failure.transaction === "unknown" && !isUnknown;
        isUnknown ||= isFirstLoss;
        const waitedMs = performance.now() - begun;
        const isRetryable =
          failures.isTransient(failure) || failures.isCollision(failure) || failures.isStandby(failure);
        if (!isRetryable || (waitedMs > this.limits.busyMs && !isFirstLoss)) {
          throw this.toStoreError(failure, waitedMs, isUnknown);
        }
        await backoff(tries);
      }
    }
  }

  async #use<Result>(connection: Connection, act: () => Promise<Result>): Promise<Result> {
    try {
      return await act();
    } finally {
      this.#connections.give(connection);
    }
  }
}

function rowsOf<Row>(
  connection: Connection,
  statementMs: number,
  text: string,
  values?: readonly Value[],
): Promise<Row[]> {
  return answerOf(connection, statementMs, async (client) => {
    const { rows } = await client.query({ text, types: TYPES, ...(values && { values: [...values] }) });
    return rows as Row[];
  });
}

/** Closes the connection if no answer comes within `statementMs`. Throws a `StatementFailure`. */
async function answerOf<Answer>(
  connection: Connection,
  statementMs: number,
  ask: (client: pg.PoolClient) => Promise<Answer>,
): Promise<Answer> {
  connection.expectAnswer(statementMs);
  try {
    return await ask(connection.client);
  } catch (error) {
    throw failureOf(connection, error);
  } finally {
    connection.isAnswered();
  }
}

function failureOf(connection: Connection, error: unknown): StatementFailure {
  const failure = new StatementFailure(isRollback(error) ? "rolled back" : "unknown", error);
  if (failure.transaction === "unknown") connection.break(failure);
  return failure;
}

/** True if the server reported an error and lives on. After FATAL the transaction may be committed. */
function isRollback(error: unknown): boolean {
  const severity = (error as { severity?: unknown } | null)?.severity;
  const state = sqlState(error);
  return state !== null && !failures.isTransientState(state) && severity !== "FATAL" && severity !== "PANIC";
}

/** Waits longer with every try, with jitter, so that many processes do not return at the same moment. */
export function backoff(tries: number): Promise<void> {
  const ms = Math.min(500, 5 * 2 ** Math.min(tries, 10)) * (0.5 + Math.random() / 2);
  return setTimeout(ms);
}
