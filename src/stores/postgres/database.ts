/**
 * Statements on a pool of connections.
 *
 * Each statement is a transaction of its own, answered in one round trip, on whatever connection is free. But for the
 * most frequent ones, which the server keeps prepared, nothing is left behind on it; and where those are not to be found
 * again, they are sent in full from then on. So a pooler that hands out a server connection per transaction does no harm.
 *
 * Every failure says what became of the transaction (`failures.ts`). A connection that failed, or that was silent for
 * longer than `statementMs`, is closed and never used again: what it might still answer belongs to nobody.
 */

import type pg from "pg";
import { sha256 } from "../../model/digest.ts";
import type { HoldfastError } from "../../model/errors.ts";
import { quoted } from "./address.ts";
import { Connections, type Held } from "./connections.ts";
import {
  asFailure,
  busy,
  isCollision,
  isLocked,
  isNotKept,
  isPassing,
  isPassingState,
  isStandby,
  StatementFailure,
  sqlState,
  storeError,
} from "./failures.ts";
import { type Bound, type Kept, KeptRun, noRow, type Told, takesRuns } from "./kept-run.ts";

export type Value = string | number | boolean | null | Buffer | readonly (string | number | boolean | null)[];

export interface Limits {
  /** How long to wait for locks of others, and for a server that is not there for the moment. */
  readonly busyMs: number;
  /** How long one statement may take before its connection is given up. */
  readonly statementMs: number;
}

/** What every change says first: which store it means, and whether that may be one that forgets. */
export interface Entry {
  readonly store: string;
  readonly allowLoss: boolean;
}

/** The text is part of the name: what somebody else has left under it, behind a pooler, is the same statement. */
export function kept(what: string, text: string): Kept {
  return { name: `holdfast ${what} ${sha256(text).slice(0, 24)}`, text };
}

/** Runs statements one after another on the connection of one transaction. */
export type Query = <Row>(text: string, values?: readonly Value[]) => Promise<Row[]>;

const INT8 = 20;
const INT4 = 23;
const BOOL = 16;
const BYTEA = 17;

/** Our own, so that parsers that the program has set for its own queries do not change ours. */
const PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  [INT8]: Number,
  [INT4]: Number,
  [BOOL]: (text) => text === "t",
  [BYTEA]: (text) => Buffer.from(text.slice(2), "hex"),
};
const asText = (text: string): string => text;
const TYPES = {
  getTypeParser: (type: number) => PARSERS[type] ?? asText,
} as unknown as pg.CustomTypesConfig;
const TEXTS = { getTypeParser: () => asText } as unknown as pg.CustomTypesConfig;

export class Database {
  readonly address: string;
  /** The schema's name as it stands in SQL. */
  readonly schema: string;
  readonly limits: Limits;
  readonly #pool: pg.Pool;
  readonly #connections: Connections;
  /** Whether what is prepared on a connection is there the next time. */
  #isKept = true;

  constructor(pool: pg.Pool, isOurs: boolean, address: string, schema: string, limits: Limits) {
    this.#pool = pool;
    this.#connections = new Connections(pool, isOurs, limits.busyMs);
    this.address = address;
    this.schema = quoted(schema);
    this.limits = limits;
  }

  /** For a connection outside the pool. */
  get settings(): pg.ClientConfig {
    return this.#pool.options;
  }

  /** The first three arguments of the functions that change something. */
  entry({ store, allowLoss }: Entry): [string, boolean, number] {
    return [store, allowLoss, this.limits.busyMs];
  }

  /** One statement, tried once. Fails with a `StatementFailure`. */
  async attempt<Row>(
    text: string,
    values: readonly Value[],
    statementMs = this.limits.statementMs,
  ): Promise<Row[]> {
    return this.#use(await this.#connections.take(), statementMs, (query) => query<Row>(text, values));
  }

  /**
   * The same for one that the server keeps: the one column of its one row, as text. It fails also where it was not kept, and
   * will be sent in full the next time.
   */
  ask(statement: Kept, values: readonly Bound[]): Promise<string | null> {
    return new Promise((resolve, reject) => {
      this.tell(statement, values, (failure, answer) => (failure ? reject(failure) : resolve(answer)));
    });
  }

  /** The same, for who is told of the answer or of the failure, once. */
  tell(statement: Kept, values: readonly Bound[], told: Told): void {
    const taken = this.#connections.take();
    // Not awaited where one is at hand: this is on the way of every append.
    if (!(taken instanceof Promise)) this.#askOn(taken, statement, values, told);
    else {
      taken.then(
        (held) => this.#askOn(held, statement, values, told),
        (error: unknown) => told(error, null),
      );
    }
  }

  /** One statement that may run any number of times, tried until the server is there and nobody is in the way. */
  async run<Row>(text: string, values: readonly Value[] = []): Promise<Row[]> {
    return this.#patiently(() => this.attempt<Row>(text, values));
  }

  /** The same for a statement that changes something: `wasLost` says that an earlier try may have been committed. */
  async change<Row>(
    text: string,
    values: readonly Value[],
    statementMs = this.limits.statementMs,
  ): Promise<{ row: Row; wasLost: boolean }> {
    let wasLost = false;
    const [row] = await this.#patiently(async () => {
      try {
        return await this.attempt<Row>(text, values, statementMs);
      } catch (error) {
        wasLost ||= error instanceof StatementFailure && error.fate === "lost";
        throw error;
      }
    });
    return { row: row as Row, wasLost };
  }

  /** Several statements in one transaction, on one connection, tried once. */
  async transaction<Result>(act: (query: Query) => Promise<Result>): Promise<Result> {
    return this.#use(await this.#connections.take(), this.limits.statementMs, async (query) => {
      await query("BEGIN ISOLATION LEVEL READ COMMITTED");
      try {
        const result = await act(query);
        await query("COMMIT");
        return result;
      } catch (error) {
        // Undone by the server as well, should the connection be gone; what was wrong is the other error.
        await query("ROLLBACK").catch(() => undefined);
        throw error;
      }
    });
  }

  /** Lets go of the pool, and ends it unless it is the caller's own. */
  close(): Promise<void> {
    return this.#connections.close();
  }

  /** What `failure` comes to after `waitedMs` of trying. */
  given(failure: StatementFailure, waitedMs: number, unknown: boolean): HoldfastError {
    if (!unknown && (isLocked(failure) || isCollision(failure))) return busy(this.address, waitedMs, failure);
    return storeError(this.address, failure, unknown);
  }

  async #patiently<Result>(act: () => Promise<Result>): Promise<Result> {
    const begun = performance.now();
    let wasLost = false;
    for (let tries = 1; ; tries++) {
      try {
        return await act();
      } catch (caught) {
        const error = asFailure(caught);
        const isFirstLoss: boolean = error.fate === "lost" && !wasLost;
        wasLost ||= isFirstLoss;
        const waitedMs = performance.now() - begun;
        const isWorthIt = isPassing(error) || isCollision(error) || isStandby(error);
        if (!isWorthIt || (waitedMs > this.limits.busyMs && !isFirstLoss)) {
          throw this.given(error, waitedMs, wasLost);
        }
        await pause(tries);
      }
    }
  }

  #askOn(held: Held, { name, text }: Kept, values: readonly Bound[], told: Told): void {
    const statement = { name: this.#isKept ? name : "", text };
    let isTold = false;
    const once = (error: unknown, answer: string | null): void => {
      if (isTold) return;
      isTold = true;
      held.isAnswered();
      const failure = error === null ? null : failureOf(held, error);
      if (failure && isNotKept(failure)) this.#isKept = false;
      try {
        this.#connections.give(held);
      } finally {
        told(failure, answer);
      }
    };
    held.expectAnswer(this.limits.statementMs);
    try {
      runKept(held.client, statement, values, once);
    } catch (error) {
      // A client of the caller's own may have something around its queries. How far it came nobody knows.
      once(error, null);
    }
  }

  async #use<Result>(
    held: Held,
    statementMs: number,
    act: (query: Query) => Promise<Result>,
  ): Promise<Result> {
    const query: Query = async <Row>(text: string, values?: readonly Value[]): Promise<Row[]> => {
      held.expectAnswer(statementMs);
      try {
        const { rows } = await held.client.query({
          text,
          types: TYPES,
          ...(values && { values: [...values] }),
        });
        return rows as Row[];
      } catch (error) {
        throw failureOf(held, error);
      } finally {
        held.isAnswered();
      }
    };
    try {
      return await act(query);
    } finally {
      this.#connections.give(held);
    }
  }
}

function failureOf(held: Held, error: unknown): StatementFailure {
  const failure = new StatementFailure(isAnswer(error) ? "refused" : "lost", error);
  if (failure.fate === "lost") held.break(failure);
  return failure;
}

function runKept(client: pg.PoolClient, { name, text }: Kept, values: readonly Bound[], told: Told): void {
  if (takesRuns(client)) {
    client.query(new KeptRun({ name, text }, values, told));
    return;
  }
  const config = { text, values: [...values], types: TEXTS, rowMode: "array" as const };
  client.query<(string | null)[]>(name === "" ? config : { ...config, name }).then(
    ({ rows: [row] }) => (row ? told(null, row[0] ?? null) : told(noRow(text), null)),
    (error) => told(error, null),
  );
}

/** The server said what is wrong and goes on: the transaction is undone. After FATAL it may be committed or not. */
function isAnswer(error: unknown): boolean {
  const severity = (error as { severity?: unknown } | null)?.severity;
  const state = sqlState(error);
  return state !== null && !isPassingState(state) && severity !== "FATAL" && severity !== "PANIC";
}

const MAX_PAUSE_MS = 500;

/** Longer with every try, and uneven, so that many processes do not come back at the same moment. */
export function pause(tries: number): Promise<void> {
  const ms = Math.min(MAX_PAUSE_MS, 5 * 2 ** Math.min(tries, 10)) * (0.5 + Math.random() / 2);
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
