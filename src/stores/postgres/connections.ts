/**
 * Connections of the pool, each for one statement or transaction at a time.
 *
 *     the pool ──take──▶ in use ──give──▶ kept ──the turn of the event loop ends, or somebody waits──▶ the pool
 *                          ▲               │
 *                          └─────take──────┘
 *
 * To get a connection from a pool and to give it back takes several timers and as much time as to send the statement. Who
 * writes one event after another has the next one at hand when the last is answered: it goes out on the same connection.
 *
 * One that failed goes back with the failure, and the pool closes it. After some statements any goes back: a pool may have
 * a limit for how long one is used.
 */

import type pg from "pg";
import { StatementFailure } from "./failures.ts";

/** How often a connection may be taken before the pool sees it again. */
const MOST_USES = 100;
/** A timer that is set for longer goes off at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class Held {
  readonly client: pg.PoolClient;
  uses = 1;
  /** Why it must not be used again. */
  broken: Error | undefined;
  #patienceMs = 0;
  /** When the answer to what is under way is due, and when somebody looks. */
  #dueAt = Number.POSITIVE_INFINITY;
  #looksAt = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: pg.PoolClient) {
    this.client = client;
    // Without a listener an error that comes between two statements would end the process.
    client.on("error", this.break);
  }

  readonly break = (why: Error): void => {
    this.broken ??= why;
  };

  /**
   * A statement goes out. A server that is silent for longer than `ms` is given up: the socket is closed under the
   * statement, which then fails.
   */
  expectAnswer(ms: number): void {
    this.#patienceMs = ms;
    this.#dueAt = performance.now() + ms;
    if (this.#dueAt < this.#looksAt) this.#lookIn(ms);
  }

  /** The timer stays: to set one for every statement takes as long as to send it. */
  isAnswered(): void {
    this.#dueAt = Number.POSITIVE_INFINITY;
  }

  release(): void {
    clearTimeout(this.#timer);
    this.client.off("error", this.break);
    this.client.release(this.broken);
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#looksAt = performance.now() + ms;
    this.#timer = setTimeout(this.#look, Math.min(ms, LONGEST_TIMER_MS));
    // While a statement is under way its socket keeps the process, and at other times nothing should.
    this.#timer.unref();
  }

  readonly #look = (): void => {
    this.#looksAt = Number.POSITIVE_INFINITY;
    const leftMs = this.#dueAt - performance.now();
    if (leftMs <= 0) cut(this.client, new Error(`the server did not answer within ${this.#patienceMs} ms`));
    else if (leftMs < Number.POSITIVE_INFINITY) this.#lookIn(leftMs);
  };
}

function cut(client: pg.PoolClient, why: Error): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(error: Error): void } } })
    .connection;
  stream.destroy(why);
}

export class Connections {
  readonly #pool: pg.Pool;
  readonly #isOurs: boolean;
  readonly #busyMs: number;
  readonly #waiting = new Set<(why: string) => void>();
  #kept: Held[] = [];
  #isTurning = false;
  #isClosed = false;

  constructor(pool: pg.Pool, isOurs: boolean, busyMs: number) {
    this.#pool = pool;
    this.#isOurs = isOurs;
    this.#busyMs = busyMs;
    listenTo(pool);
  }

  /** At once where one is kept. Fails with a `StatementFailure` that says `unsent`. */
  take(): Held | Promise<Held> {
    for (;;) {
      const held = this.#kept.pop();
      if (!held) return this.#connect();
      if (!held.broken) {
        held.uses += 1;
        return held;
      }
      held.release();
    }
  }

  give(held: Held): void {
    if (held.broken || held.uses >= MOST_USES || this.#pool.waitingCount > 0 || this.#isClosed) {
      held.release();
      return;
    }
    this.#kept.push(held);
    if (this.#isTurning) return;
    this.#isTurning = true;
    // Behind what the answer leads to, and behind the flight that it may be waiting for.
    process.nextTick(() => setImmediate(this.#turned));
  }

  /**
   * Gives back all that are kept, and ends the pool unless it is the caller's own. Whoever waits for a connection is told:
   * a pool that ends serves nobody any more, and says so to nobody.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const giveUp of this.#waiting) giveUp(CLOSED);
    this.#release();
    if (this.#isOurs) await this.#pool.end();
    else leave(this.#pool);
  }

  #release(): void {
    for (const held of this.#kept.splice(0)) held.release();
  }

  readonly #turned = (): void => {
    this.#isTurning = false;
    this.#release();
  };

  /** A caller's pool may wait for ever, so the waiting ends here. */
  async #connect(): Promise<Held> {
    if (this.#isClosed) throw new StatementFailure("unsent", new Error(CLOSED));
    const ms = this.#busyMs;
    let giveUp = (_why: string): void => undefined;
    const ended = new Promise<never>((_, reject) => {
      giveUp = (why) => reject(new Error(why));
    });
    const timer = setTimeout(giveUp, ms, `no connection within ${ms} ms`);
    this.#waiting.add(giveUp);
    let connecting: Promise<pg.PoolClient> | undefined;
    try {
      // It may throw: a client reads the files that its address names, such as a certificate, when it is made.
      connecting = this.#pool.connect();
      return new Held(await Promise.race([connecting, ended]));
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

/** How many stores use a pool. They share their listeners: Node warns of a leak where there are more than ten. */
const users = new WeakMap<pg.Pool, number>();

function listenTo(pool: pg.Pool): void {
  const others = users.get(pool) ?? 0;
  users.set(pool, others + 1);
  if (others > 0) return;
  pool.on("error", ignoreLoss);
  pool.on("connect", listen);
}

function leave(pool: pg.Pool): void {
  const others = (users.get(pool) ?? 1) - 1;
  users.set(pool, others);
  if (others > 0) return;
  pool.off("error", ignoreLoss);
  pool.off("connect", listen);
}

/** A connection that was lost leaves the pool by itself, and a statement that it carried fails; nothing is left to do. */
function ignoreLoss(): void {}

/**
 * A new connection may end in the very moment in which it is handed out, when nobody else listens yet; an error that
 * nobody listens to would end the process.
 */
function listen(client: pg.PoolClient): void {
  client.on("error", ignoreLoss);
}
