/**
 * Connections of the pool, each for one statement or transaction at a time.
 *
 *     pool ──take──▶ in use ──give──▶ cached ──the event loop turns, or another caller waits──▶ pool
 *                      ▲                │
 *                      └──────take──────┘
 *
 * Getting a connection from a `pg` pool takes as long as sending the statement. A writer that appends one
 * event after another reuses the cached connection.
 *
 * A failed connection returns to the pool with its error, and the pool closes it.
 */

import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import type pg from "pg";
import { StatementFailure } from "./failures.ts";

/** Then a connection returns to the pool, because a pool may limit how long one is used. */
const MAX_USES = 100;
/** Node fires a longer timer at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class Connection {
  readonly client: pg.PoolClient;
  uses = 1;
  /** Why the connection must not be used again. */
  broken: Error | undefined;
  #timeoutMs = 0;
  /** When the answer to the running statement is due, and when the timer checks. */
  #dueAt = Number.POSITIVE_INFINITY;
  #checksAt = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: pg.PoolClient) {
    this.client = client;
    // Without a listener, an error between two statements would end the process.
    client.on("error", this.break);
  }

  readonly break = (error: Error): void => {
    this.broken ??= error;
  };

  /** If no answer comes within `ms`, the socket is closed and the statement fails. */
  expectAnswer(ms: number): void {
    this.#timeoutMs = ms;
    this.#dueAt = performance.now() + ms;
    if (this.#dueAt < this.#checksAt) this.#checkIn(ms);
  }

  /** Leaves the timer running: setting one per statement takes as long as sending it. */
  isAnswered(): void {
    this.#dueAt = Number.POSITIVE_INFINITY;
  }

  release(): void {
    clearTimeout(this.#timer);
    this.client.off("error", this.break);
    this.client.release(this.broken);
  }

  #checkIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#checksAt = performance.now() + ms;
    this.#timer = setTimeout(this.#check, Math.min(ms, LONGEST_TIMER_MS));
    // The socket keeps the process alive while a statement runs, and nothing should at other times.
    this.#timer.unref();
  }

  readonly #check = (): void => {
    this.#checksAt = Number.POSITIVE_INFINITY;
    const remainingMs = this.#dueAt - performance.now();
    if (remainingMs <= 0) closeSocket(this.client, `the server did not answer within ${this.#timeoutMs} ms`);
    else if (remainingMs < Number.POSITIVE_INFINITY) this.#checkIn(remainingMs);
  };
}

export function closeSocket(client: pg.ClientBase, why: string): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(error: Error): void } } })
    .connection;
  stream.destroy(new Error(why));
}

export class Connections {
  readonly #pool: pg.Pool;
  readonly #isOurs: boolean;
  readonly #busyMs: number;
  readonly #waiting = new Set<(why: string) => void>();
  #cached: Connection[] = [];
  #isReleaseScheduled = false;
  #isClosed = false;

  constructor(pool: pg.Pool, isOurs: boolean, busyMs: number) {
    this.#pool = pool;
    this.#isOurs = isOurs;
    this.#busyMs = busyMs;
    addListeners(pool);
  }

  /** A cached connection at once, else a promise. Rejects with an "unsent" `StatementFailure`. */
  take(): Connection | Promise<Connection> {
    for (;;) {
      const connection = this.#cached.pop();
      if (!connection) return this.#connect();
      if (!connection.broken) {
        connection.uses += 1;
        return connection;
      }
      connection.release();
    }
  }

  give(connection: Connection): void {
    const { broken, uses } = connection;
    if (broken || uses >= MAX_USES || this.#pool.waitingCount > 0 || this.#isClosed) {
      connection.release();
      return;
    }
    this.#cached.push(connection);
    if (this.#isReleaseScheduled) return;
    this.#isReleaseScheduled = true;
    // After the caller has seen the answer, and after the group that its next append may wait for.
    process.nextTick(() => setImmediate(this.#releaseScheduled));
  }

  /** Rejects everyone who waits for a connection: a pool that ends never answers them. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const giveUp of this.#waiting) giveUp(CLOSED);
    this.#releaseCached();
    if (this.#isOurs) await this.#pool.end();
    else removeListeners(this.#pool);
  }

  #releaseCached(): void {
    for (const connection of this.#cached.splice(0)) connection.release();
  }

  readonly #releaseScheduled = (): void => {
    this.#isReleaseScheduled = false;
    this.#releaseCached();
  };

  /** Limits the wait itself, because a caller's pool may wait for ever. */
  async #connect(): Promise<Connection> {
    if (this.#isClosed) throw new StatementFailure("unsent", new Error(CLOSED));
    const ms = this.#busyMs;
    let giveUp = (_why: string): void => undefined;
    const givenUp = new Promise<never>((_, reject) => {
      giveUp = (why) => reject(new Error(why));
    });
    const timer = setTimeout(giveUp, ms, `no connection within ${ms} ms`);
    this.#waiting.add(giveUp);
    let connecting: Promise<pg.PoolClient> | undefined;
    try {
      // May throw: a new client reads the files that its address names, such as a certificate.
      connecting = this.#pool.connect();
      return new Connection(await Promise.race([connecting, givenUp]));
    } catch (error) {
      connecting?.then(
        (client) => client.release(),
        () => undefined,
      );
      throw new StatementFailure("unsent", error);
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(giveUp);
    }
  }
}

const CLOSED = "the store was closed";

/** How many stores use a pool. They share their listeners, because Node warns of a leak above ten. */
const users = new WeakMap<pg.Pool, number>();

function addListeners(pool: pg.Pool): void {
  const others = users.get(pool) ?? 0;
  users.set(pool, others + 1);
  if (others === 0) pool.on("error", ignore).on("connect", ignoreErrors);
}

function removeListeners(pool: pg.Pool): void {
  const others = (users.get(pool) ?? 1) - 1;
  users.set(pool, others);
  if (others === 0) pool.off("error", ignore).off("connect", ignoreErrors);
}

/** Ignores a lost connection: the pool drops it, and a statement that it carried fails. */
function ignore(): void {}

/** For a connection lost while the pool hands it out: an error without a listener ends the process. */
function ignoreErrors(client: pg.PoolClient): void {
  client.on("error", ignore);
}
